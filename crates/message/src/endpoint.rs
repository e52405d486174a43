//! A rank: its rings, its queues, and its waits.
//!
//! One lock protects what the threads of a rank share: the positions in its rings, and its queues.
//! A thread that waits looks at its rings without the lock first.
//!
//! A thread that waits for anything, also for room to send, moves the messages that come meanwhile
//! to the queues. So two ranks that send to each other both have room in the end.

mod queues;
mod receiving;
mod sending;
mod waiting;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use policy::waiting::WaitingRule;
use sys::shared_memory::View;
use wait::{Counters, Statistics, Waiting};

pub(crate) use self::queues::{Completed, Received};
use self::queues::{Message, Pending, Request, Shared, Stream};
use self::waiting::Interest;
use crate::bell::Bell;
use crate::error::{JoinError, MessageError};
use crate::matching::{Claimed, Early, Envelope, Matching, Pattern};
use crate::memory::{Memory, RingMemory, remove_name};

/// A rank of a job, in this process.
#[derive(Debug)]
pub(crate) struct Endpoint {
    memory: Memory,
    pub(crate) rank: u32,
    process: u32,
    waiting: Waiting,
    /// Whether there are as many CPUs as ranks.
    has_own_cpu: bool,
    /// The memory of the waiting rule.
    state: AtomicU64,
    waits: AtomicU64,
    counters: Counters,
    /// The set of ranks that send to this one.
    senders: View<[AtomicU64]>,
    incoming: Vec<OnceLock<RingMemory>>,
    /// The heads of these rings, for a look without the lock.
    heads: Vec<AtomicU64>,
    /// The first context that this rank has not used.
    context: AtomicU32,
    /// Counts what threads of this rank have done for others of them.
    events: AtomicU64,
    shared: Mutex<Shared>,
}

/// The variable with the number of CPUs that all ranks share, which `rowlock prun` sets.
const CPUS: &str = "ROWLOCK_CPUS";

impl Endpoint {
    /// Joins a job as this rank.
    pub(crate) fn join(memory: Memory, rank: u32, waiting: Waiting, name: Option<&str>) -> Result<Endpoint, JoinError> {
        let have_all_joined = memory.claim(rank)?;
        if let Some(name) = name.filter(|_| have_all_joined) {
            remove_name(name);
        }
        let ranks = memory.ranks();
        let senders = memory.senders(rank).ok_or(JoinError::NoSuchRank { rank, ranks })?;
        Ok(Endpoint {
            rank,
            process: std::process::id(),
            waiting,
            has_own_cpu: cpus() >= ranks && waiting.rule() != WaitingRule::AlwaysBlock,
            state: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            counters: Counters::new(),
            senders,
            incoming: (0..ranks).map(|_| OnceLock::new()).collect(),
            heads: (0..ranks).map(|_| AtomicU64::new(0)).collect(),
            // The first two are those of all ranks.
            context: AtomicU32::new(2),
            events: AtomicU64::new(0),
            shared: Mutex::new(Shared {
                matching: Matching::default(),
                streams: (0..ranks).map(|_| Stream::Idle).collect(),
                outgoing: (0..ranks).map(|_| None).collect(),
                requests: BTreeMap::new(),
                last: 0,
                first: 0,
            }),
            memory,
        })
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.memory.ranks()
    }

    /// The waits so far.
    pub(crate) fn statistics(&self) -> Statistics {
        let mut sum = Statistics { waits: self.waits.load(Relaxed), ..Statistics::default() };
        self.counters.add_to(&mut sum);
        sum
    }

    /// The first context that this rank has not used.
    pub(crate) fn next_context(&self) -> u32 {
        self.context.load(Relaxed)
    }

    /// Uses all contexts before this one.
    pub(crate) fn use_contexts(&self, end: u32) {
        self.context.fetch_max(end, Relaxed);
    }

    /// Sends a message. Returns when the bytes are copied.
    pub(crate) fn send(&self, to: u32, context: u32, tag: u32, bytes: &[u8]) -> Result<(), MessageError> {
        let mut message = Message { context, tag, has_begun: false, sent: 0 };
        let mut turn = None;
        self.wait(Some(to), Interest::Room, |shared| {
            if to == self.rank {
                self.send_to_self(shared, message, bytes.to_vec());
                return Ok(Some(()));
            }
            self.advance(shared, to)?;
            let number = shared.last + 1;
            let outgoing = self.outgoing(&mut shared.outgoing, to)?;
            let is_first = match (outgoing.queue.front(), turn) {
                (None, _) => true,
                (Some(Pending::Turn(first)), turn) => turn == Some(*first),
                (Some(Pending::Owned { .. }), _) => false,
            };
            if is_first && self.push(outgoing, to, &mut message, bytes)? {
                if turn.is_some() {
                    outgoing.queue.pop_front();
                    self.stir();
                }
                return Ok(Some(()));
            }
            if turn.is_none() {
                outgoing.queue.push_back(Pending::Turn(number));
                turn = Some(number);
                shared.last = number;
            }
            // The other rank may lack room as well.
            self.pull_from(shared, None)?;
            Ok(None)
        })
    }

    /// Begins to send a message. Returns the number of the request.
    pub(crate) fn begin_send(&self, to: u32, context: u32, tag: u32, bytes: Vec<u8>) -> Result<u64, MessageError> {
        let shared = &mut *self.lock();
        let message = Message { context, tag, has_begun: false, sent: 0 };
        shared.last += 1;
        let request = shared.last;
        if to == self.rank {
            self.send_to_self(shared, message, bytes.clone());
            shared.requests.insert(request, Request::Sent(bytes));
            return Ok(request);
        }
        let outgoing = self.outgoing(&mut shared.outgoing, to)?;
        outgoing.queue.push_back(Pending::Owned { request, message, bytes });
        shared.requests.insert(request, Request::Sends);
        self.advance(shared, to)?;
        Ok(request)
    }

    /// Receives a message into a buffer.
    pub(crate) fn receive(&self, pattern: Pattern, buffer: &mut [u8]) -> Result<Received, MessageError> {
        let mut direct = None;
        self.wait(pattern.source, Interest::Message(pattern.source), |shared| {
            self.try_receive(shared, pattern, buffer, &mut direct)
        })
    }

    /// Receives a message of any length.
    pub(crate) fn receive_any_length(&self, pattern: Pattern) -> Result<(Envelope, Vec<u8>), MessageError> {
        self.wait(pattern.source, Interest::Message(pattern.source), |shared| {
            self.pull_from(shared, pattern.source)?;
            Ok(shared.matching.take_message(pattern, u64::MAX))
        })
    }

    /// Begins to receive a message. Returns the number of the request.
    pub(crate) fn begin_receive(&self, pattern: Pattern) -> Result<u64, MessageError> {
        let shared = &mut *self.lock();
        shared.last += 1;
        let request = shared.last;
        if shared.matching.find(pattern).is_none() {
            self.pull_from(shared, pattern.source)?;
        }
        let state = match shared.matching.claim(pattern) {
            Some(Claimed::Complete(envelope, bytes)) => Request::Received(envelope, bytes),
            Some(Claimed::Coming(number)) => {
                shared.redirect(number, request);
                Request::Receives
            }
            None => {
                shared.matching.post(request, pattern);
                Request::Receives
            }
        };
        shared.requests.insert(request, state);
        Ok(request)
    }

    /// Waits until a request is complete, and returns what it has received or sent.
    pub(crate) fn finish(&self, request: u64, with: Option<u32>) -> Result<Completed, MessageError> {
        self.wait(with, Interest::Room, |shared| {
            self.pull_from(shared, None)?;
            self.advance_all(shared)?;
            Ok(shared.take_complete(request))
        })
    }

    /// What a request has received or sent, if it is complete.
    pub(crate) fn test(&self, request: u64) -> Result<Option<Completed>, MessageError> {
        let shared = &mut *self.lock();
        self.pull_from(shared, None)?;
        self.advance_all(shared)?;
        Ok(shared.take_complete(request))
    }

    /// Gives up a request. A message that is being sent is sent to its end.
    pub(crate) fn forget(&self, request: u64) {
        let shared = &mut *self.lock();
        shared.matching.withdraw(request);
        shared.requests.remove(&request);
    }

    /// The next message that a receive would take, and its length in bytes.
    pub(crate) fn probe(&self, pattern: Pattern) -> Result<(Envelope, u64), MessageError> {
        self.wait(pattern.source, Interest::Message(pattern.source), |shared| {
            self.pull_from(shared, pattern.source)?;
            Ok(shared.matching.find(pattern).map(Early::about))
        })
    }

    /// As [`Endpoint::probe`], if the message has come.
    pub(crate) fn try_probe(&self, pattern: Pattern) -> Result<Option<(Envelope, u64)>, MessageError> {
        let shared = &mut *self.lock();
        self.pull_from(shared, pattern.source)?;
        Ok(shared.matching.find(pattern).map(Early::about))
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells other threads of this rank that something has changed.
    #[inline]
    fn stir(&self) {
        self.events.fetch_add(1, SeqCst);
        Bell(self.memory.bell(self.rank)).ring();
    }
}

/// How many CPUs the ranks have together, which may each be bound to other ones.
fn cpus() -> u32 {
    let together = std::env::var(CPUS).ok().and_then(|cpus| cpus.parse().ok());
    together.unwrap_or_else(sys::cpus::usable)
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            return;
        }
        // Messages that have no room yet are lost, as those are that nothing receives.
        self.memory.leave(self.rank);
        (0..self.ranks()).for_each(|rank| Bell(self.memory.bell(rank)).ring());
    }
}
