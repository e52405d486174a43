//! How a thread of a rank waits.

use std::sync::atomic::Ordering::Relaxed;

use policy::Instant;
use wait::external::{Awaited, ExternalObject};

use super::Endpoint;
use super::queues::Shared;
use crate::bell::Bell;
use crate::error::MessageError;

impl Endpoint {
    /// Tries until it succeeds, and waits by the rule in between. Fails if the rank that it waits
    /// for has left, or any rank is lost.
    pub(super) fn wait<R>(
        &self,
        awaited: Option<u32>,
        interest: Interest,
        mut attempt: impl FnMut(&mut Shared) -> Result<Option<R>, MessageError>,
    ) -> Result<R, MessageError> {
        let seen = self.events.load(Relaxed);
        if let Some(result) = attempt(&mut self.lock()).transpose() {
            return result;
        }
        let mut wait = Wait { endpoint: self, attempt: &mut attempt, interest, result: None, seen, looks: 0 };
        if self.has_own_cpu && (0..FREE_LOOKS).any(|_| wait.is_stirred() && wait.attempt()) {
            return wait.result.unwrap_or(Err(MessageError::Forked));
        }
        if std::process::id() != self.process {
            return Err(MessageError::Forked);
        }
        self.waits.fetch_add(1, Relaxed);
        let object = ExternalObject {
            state: &self.state,
            counters: &self.counters,
            waiting: self.waiting,
            threads: self.ranks(),
        };
        let mut failure = None;
        if !wait.poll() {
            let is_possible =
                || self.memory.lost().is_none() && !awaited.is_some_and(|rank| self.memory.has_left(rank));
            let mut waiter = ExternalObject::waiter(&self.waiting);
            if object.wait_while_possible(&mut waiter, &mut wait, &is_possible).is_err() {
                let lost = self.memory.lost().map(|rank| MessageError::Lost { rank });
                failure = lost.or_else(|| awaited.map(|rank| MessageError::Left { rank }));
            }
        }
        if let Some(result) = wait.result {
            return result;
        }
        // It may have come just before that.
        let shared = &mut *self.lock();
        self.pull_from(shared, None)?;
        attempt(shared).transpose().unwrap_or_else(|| Err(failure.unwrap_or(MessageError::Forked)))
    }
}

/// What a thread looks at without the lock while it waits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Interest {
    /// Messages of this rank, or of any.
    Message(Option<u32>),
    /// Room for messages, and messages of any.
    Room,
}

/// How often a thread looks before it asks the rule, if each rank has a CPU: as long as that takes.
const FREE_LOOKS: u32 = 100;
/// A thread that waits moves all messages to the queues whenever it has looked so often.
const LOOKS: u32 = 64;

/// A wait of a thread.
struct Wait<'a, R, A> {
    endpoint: &'a Endpoint,
    attempt: &'a mut A,
    interest: Interest,
    result: Option<Result<R, MessageError>>,
    /// The signs before the last attempt.
    seen: u64,
    /// How often it has looked.
    looks: u32,
}

impl<R, A: FnMut(&mut Shared) -> Result<Option<R>, MessageError>> Wait<'_, R, A> {
    /// A number that changes when an attempt may succeed.
    #[inline]
    fn signs(&self) -> u64 {
        self.endpoint.events.load(Relaxed)
    }

    /// Whether an attempt may succeed. It is only a hint.
    #[inline]
    fn is_stirred(&self) -> bool {
        let has_record = |source: u32| {
            let endpoint = self.endpoint;
            let memory = endpoint.incoming(source);
            memory.is_some_and(|memory| memory.ring().has_record(endpoint.heads[source as usize].load(Relaxed)))
        };
        let has_message = match self.interest {
            Interest::Message(Some(source)) => has_record(source),
            Interest::Message(None) => self.endpoint.all_incoming().any(has_record),
            Interest::Room => true,
        };
        has_message || self.signs() != self.seen
    }

    /// Moves all messages to the queues: a rank that lacks room for messages to this one must not
    /// have to wait until this one has received another message.
    fn pull(&mut self) {
        let pulled = self.endpoint.pull_from(&mut self.endpoint.lock(), None);
        if let Err(why) = pulled {
            self.result.get_or_insert(Err(why));
        }
    }

    fn attempt(&mut self) -> bool {
        self.seen = self.signs();
        if self.result.is_none() {
            self.result = (self.attempt)(&mut self.endpoint.lock()).transpose();
        }
        self.result.is_some()
    }
}

impl<R, A: FnMut(&mut Shared) -> Result<Option<R>, MessageError>> Awaited for Wait<'_, R, A> {
    #[inline]
    fn poll(&mut self) -> bool {
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(LOOKS) {
            self.pull();
        }
        self.result.is_some() || self.is_stirred() && self.attempt()
    }

    fn sleep(&mut self, deadline: Option<Instant>) {
        let bell = Bell(self.endpoint.memory.bell(self.endpoint.rank));
        let prepared = bell.prepare();
        self.pull();
        if !self.attempt() {
            bell.sleep(prepared, deadline);
        }
    }
}
