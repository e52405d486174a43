//! A rank's end of all communication: transport, engine, and how its threads wait.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use policy::waiting::{Missing, Running, Waiter};
use wait::external::{Awaited, ExternalObject, LIVENESS_INTERVAL, UnknownThread};
use wait::{Counters, Statistics, Waiting};

use crate::engine::Engine;
use crate::error::Error;
use crate::matching::Ticket;
use crate::transport::Transport;

/// After so many polls of one wait, and before it sleeps, long messages are fetched that no receive
/// has asked for. Most waits are over by then, and what they wait for is copied only once.
const PATIENCE: u32 = 1_000;

/// How often a call looks before it asks the rule how to wait. That and the clock take as long as
/// some looks, and the answer of a rank that runs has mostly come by then. A fraction of the time
/// of a block, for rules that block at once.
const LOOKS: u32 = 20;

/// A call that is carried out step by step.
pub(crate) trait Operation {
    /// Goes on as far as possible. Returns whether it is complete.
    fn step(&mut self, engine: &mut Engine) -> Result<bool, Error>;

    /// The rank whose end makes it impossible. `None` if any rank may complete it.
    fn awaited(&self) -> Option<u32>;

    /// The receive that reads its long message itself.
    fn ticket(&self) -> Option<Ticket> {
        None
    }

    /// Gives up, after an error.
    fn abandon(&mut self, _engine: &mut Engine) {}
}

/// A rank of a job, in this process.
pub(crate) struct Endpoint {
    transport: Transport,
    pub(crate) rank: u32,
    /// The process that has joined, and not the child of a fork.
    pid: u32,
    engine: Mutex<Engine>,
    waiting: Waiting,
    /// The rule's memory of earlier waits, unless a wait uses it.
    waiter: Mutex<Option<Waiter>>,
    waits: AtomicU64,
    counters: Counters,
    /// When a call that does not wait looks for dead ranks, in nanoseconds on the clock of waits.
    next_check: AtomicU64,
    /// The number of contexts that this rank has chosen for communicators.
    pub(crate) contexts: AtomicU64,
}

impl Endpoint {
    /// The end of this rank, which has joined.
    pub(crate) fn new(transport: Transport, rank: u32, waiting: Waiting) -> Endpoint {
        Endpoint {
            engine: Mutex::new(Engine::new(transport.clone(), rank)),
            transport,
            rank,
            pid: std::process::id(),
            waiting,
            waiter: Mutex::new(Some(ExternalObject::waiter(&waiting))),
            waits: AtomicU64::new(0),
            counters: Counters::new(),
            next_check: AtomicU64::new((wait::now() + LIVENESS_INTERVAL).as_nanos()),
            contexts: AtomicU64::new(0),
        }
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.transport.ranks()
    }

    /// The counts of all waits of this rank so far.
    pub(crate) fn statistics(&self) -> Statistics {
        let mut sum = Statistics { waits: self.waits.load(Relaxed), ..Statistics::default() };
        self.counters.add_to(&mut sum);
        sum
    }

    #[inline]
    pub(crate) fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on with an operation once. Returns whether it is complete.
    pub(crate) fn try_run(&self, operation: &mut impl Operation) -> Result<bool, Error> {
        step(&mut self.engine(), operation)
    }

    /// Goes on with an operation once, for a call that does not wait. Returns whether it is
    /// complete. A program may repeat such calls, so now and then they look for dead ranks.
    pub(crate) fn test(&self, operation: &mut impl Operation) -> Result<bool, Error> {
        if self.try_run(operation)? {
            return Ok(true);
        }
        let left = operation.awaited().filter(|&rank| self.transport.has_left(rank)).map(|rank| End::Left { rank });
        match left.or_else(|| self.lost_by_now()) {
            // Messages that ranks sent before their end count.
            Some(end) => {
                if self.try_run(operation)? {
                    Ok(true)
                } else {
                    Err(end.into())
                }
            }
            None => Ok(false),
        }
    }

    /// A rank that has died, if it is time to look for one again.
    fn lost_by_now(&self) -> Option<End> {
        let now = wait::now();
        if now.as_nanos() < self.next_check.load(Relaxed) {
            return None;
        }
        self.next_check.store((now + LIVENESS_INTERVAL).as_nanos(), Relaxed);
        self.lost()
    }

    fn lost(&self) -> Option<End> {
        self.transport.lost().map(|(rank, pid)| End::Lost { rank, pid })
    }

    /// Waits by the rule until an operation is complete.
    pub(crate) fn run(&self, operation: &mut impl Operation) -> Result<(), Error> {
        self.run_from(self.engine(), operation)
    }

    /// As [`run`](Self::run), with the engine that the operation begins with.
    #[inline]
    pub(crate) fn run_from(
        &self,
        mut engine: MutexGuard<'_, Engine>,
        operation: &mut impl Operation,
    ) -> Result<(), Error> {
        for _ in 0..LOOKS {
            match step(&mut engine, operation) {
                Ok(true) => return Ok(()),
                Ok(false) => std::hint::spin_loop(),
                Err(why) => {
                    operation.abandon(&mut engine);
                    return Err(why);
                }
            }
        }
        drop(engine);
        self.wait(operation).inspect_err(|_| operation.abandon(&mut self.engine()))
    }

    #[cold]
    fn wait(&self, operation: &mut impl Operation) -> Result<(), Error> {
        self.waits.fetch_add(1, Relaxed);
        let awaited = operation.awaited();
        let end = Cell::new(None);
        let is_possible = || {
            end.set(self.end_of(awaited));
            end.get().is_none()
        };
        let object = ExternalObject {
            state: self.transport.team_state(),
            counters: &self.counters,
            waiting: self.waiting,
            threads: self.transport.ranks(),
        };
        let is_crowded = self.transport.ranks() > object.cpus();
        let kept = || self.waiter.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let mut waiter = kept().take().unwrap_or_else(|| ExternalObject::waiter(&self.waiting));
            let missing = UnknownThread::new();
            let mut wait = OperationWait { endpoint: self, operation, is_crowded, polls: 0, missing, result: None };
            object.wait_while_possible(&is_possible, &mut waiter, &mut wait);
            let result = wait.result;
            *kept() = Some(waiter);
            if let Some(result) = result {
                return result;
            }
            // Messages that ranks sent before their end count.
            if self.try_run(operation)? {
                return Ok(());
            }
            if let Some(end) = end.take() {
                return Err(end.into());
            }
        }
    }

    /// The reason why a wait for a rank, or for any, is in vain.
    fn end_of(&self, awaited: Option<u32>) -> Option<End> {
        if let Some(lost) = self.lost() {
            return Some(lost);
        }
        let has_left = |&rank: &u32| self.transport.has_left(rank);
        match awaited {
            Some(rank) => has_left(&rank).then_some(End::Left { rank }),
            None => {
                let mut others = (0..self.ranks()).filter(|&rank| rank != self.rank);
                let last = others.clone().next_back()?;
                others.all(|rank| has_left(&rank)).then_some(End::Left { rank: last })
            }
        }
    }
}

/// The end of a rank.
#[derive(Clone, Copy)]
enum End {
    Lost { rank: u32, pid: u32 },
    Left { rank: u32 },
}

impl From<End> for Error {
    fn from(end: End) -> Error {
        match end {
            End::Lost { rank, pid } => Error::Lost { rank, pid },
            End::Left { rank } => Error::Left { rank },
        }
    }
}

#[inline]
fn step(engine: &mut Engine, operation: &mut impl Operation) -> Result<bool, Error> {
    let result = operation.step(engine);
    engine.tell_news();
    result
}

/// Waits for an operation.
struct OperationWait<'a, O> {
    endpoint: &'a Endpoint,
    operation: &'a mut O,
    /// Whether ranks share CPUs.
    is_crowded: bool,
    polls: u32,
    missing: UnknownThread,
    result: Option<Result<(), Error>>,
}

impl<O: Operation> OperationWait<'_, O> {
    /// Returns whether the operation is complete or has failed.
    fn step(&mut self, engine: &mut Engine) -> bool {
        self.polls = self.polls.saturating_add(1);
        let mut result = step(engine, self.operation);
        if let (Ok(false), true) = (&result, self.polls >= PATIENCE) {
            result = engine.fetch(self.operation.ticket()).map(|()| false);
            engine.tell_news();
        }
        self.result = match result {
            Ok(false) => return false,
            Ok(true) => Some(Ok(())),
            Err(why) => Some(Err(why)),
        };
        true
    }
}

impl<O: Operation> Awaited for OperationWait<'_, O> {
    fn poll(&mut self) -> bool {
        if self.result.is_some() {
            return true;
        }
        let endpoint = self.endpoint;
        match endpoint.engine.try_lock() {
            Ok(mut engine) => self.step(&mut engine),
            Err(TryLockError::Poisoned(engine)) => self.step(&mut engine.into_inner()),
            // Another thread of this rank makes progress.
            Err(TryLockError::WouldBlock) => false,
        }
    }

    fn sleep(&mut self, deadline: Option<policy::Instant>) {
        let endpoint = self.endpoint;
        self.polls = self.polls.max(PATIENCE);
        endpoint.transport.sleep(endpoint.rank, deadline, || self.step(&mut endpoint.engine()));
    }

    /// The awaited rank may itself wait for another one, so the one that can go on is unknown.
    fn missing(&mut self) -> &[Missing] {
        if self.is_crowded { self.missing.assume_here() } else { &[] }
    }

    /// In a crowd the one that can go on may well wait for this CPU.
    fn running(&mut self) -> Running {
        if self.is_crowded { Running::NotAll } else { Running::Unknown }
    }
}

/// Writes all that waits for room.
struct Flush(u32);

impl Operation for Flush {
    fn step(&mut self, engine: &mut Engine) -> Result<bool, Error> {
        engine.progress(None)?;
        Ok(engine.first_queued().inspect(|&rank| self.0 = rank).is_none())
    }

    fn awaited(&self) -> Option<u32> {
        Some(self.0)
    }
}

/// Leaves the job.
impl Drop for Endpoint {
    fn drop(&mut self) {
        if std::process::id() != self.pid {
            return;
        }
        if std::thread::panicking() {
            self.engine().withdraw();
            return self.transport.die(self.rank);
        }
        // A rank may wait for an answer that has no room yet. If it ends instead, so does this.
        let mut flush = Flush(self.rank);
        while let Err(Error::Left { rank }) = self.run(&mut flush) {
            self.engine().forget_queued(rank);
        }
        self.engine().withdraw();
        self.transport.leave(self.rank);
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("rank", &self.rank).field("ranks", &self.ranks()).finish_non_exhaustive()
    }
}
