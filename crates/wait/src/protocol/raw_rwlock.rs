//! A reader-writer lock without its value. [`crate::rwlock`] describes the protocol.

use policy::Instant;

use crate::deadline::TimedOut;
use crate::protocol::counted_futex::CountedFutex;
use crate::protocol::raw_mutex::{LockAttempt, RawMutex};
use crate::protocol::wait_loop::Awaited;
use crate::protocol::wait_state::WaitState;
use crate::statistics::Statistics;
use crate::sync::{self, Scope};
use crate::waiting::Waiting;

/// A writer writes, or waits for the readers to leave.
const CLOSED: u32 = 1;
/// One more reader inside.
const READER: u32 = 2;

/// The memory of a reader-writer lock: without pointers, and valid as zeros, when it is free.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RawRwLock {
    /// The waits for readers to leave.
    drain_state: WaitState,
    /// Held by the writer, and by a reader that found the gate closed, until it is inside.
    writers: RawMutex,
    /// The number of readers inside, and whether more may enter. A writer sleeps on it.
    gate: CountedFutex,
}

impl RawRwLock {
    sync::const_fn! {
        pub(crate) fn new() -> RawRwLock {
            RawRwLock { drain_state: WaitState::new(), writers: RawMutex::new(), gate: CountedFutex::new(0) }
        }
    }

    /// Enters as a reader unless a writer writes or waits. Returns whether it did.
    #[inline]
    pub(crate) fn try_share(&self) -> bool {
        let enter = |gate: u32| {
            // As for reference counts, only readers that never leave can cause this.
            if gate > u32::MAX / 2 {
                std::process::abort();
            }
            (gate & CLOSED == 0).then_some(gate + READER)
        };
        self.gate.change(enter).is_ok()
    }

    /// Waits until it may enter as a reader.
    #[inline]
    pub(crate) fn share(&self, waiting: &Waiting, deadline: Option<Instant>) -> Result<(), TimedOut> {
        if self.try_share() {
            return Ok(());
        }
        self.share_contended(waiting, deadline)
    }

    #[cold]
    fn share_contended(&self, waiting: &Waiting, deadline: Option<Instant>) -> Result<(), TimedOut> {
        let mut read = ReadAttempt { lock: self, attempt: self.writers.attempt(), holds_writers: false };
        self.writers.wait_state.wait(&mut read, *waiting, deadline).inspect_err(|_| read.attempt.give_up())?;
        if read.holds_writers {
            // A writer closes and opens the gate while it holds `writers`.
            while !self.try_share() {}
            self.writers.unlock();
        }
        Ok(())
    }

    /// Leaves as a reader.
    #[inline]
    pub(crate) fn unshare(&self) {
        if let Ok(change) = self.gate.change(|gate| gate.checked_sub(READER))
            && change.after == CLOSED
        {
            self.gate.wake(1, change, Scope::Process);
        }
    }

    /// Acquires the lock as a writer if it is free. Returns whether it was.
    #[inline]
    pub(crate) fn try_lock(&self) -> bool {
        if !self.writers.try_lock() {
            return false;
        }
        let closed = self.gate.change(|gate| (gate == 0).then_some(CLOSED)).is_ok();
        if !closed {
            self.writers.unlock();
        }
        closed
    }

    /// Whether there are readers inside.
    pub(crate) fn has_readers(&self) -> bool {
        self.gate.value() >= READER
    }

    /// Whether a writer has exclusive access.
    pub(crate) fn has_writer(&self) -> bool {
        self.gate.value() == CLOSED
    }

    /// Waits until it has exclusive access.
    #[inline]
    pub(crate) fn lock(&self, waiting: &Waiting, deadline: Option<Instant>) -> Result<(), TimedOut> {
        self.writers.lock(waiting, deadline)?;
        match self.gate.change(|gate| Some(gate | CLOSED)) {
            Ok(change) if change.after != CLOSED => self.drain(waiting, deadline),
            _ => Ok(()),
        }
    }

    /// Waits until the readers have left.
    #[cold]
    fn drain(&self, waiting: &Waiting, deadline: Option<Instant>) -> Result<(), TimedOut> {
        loop {
            match self.drain_state.wait(&mut Drained { gate: &self.gate }, *waiting, deadline) {
                Err(TimedOut) if deadline.is_none() => {}
                drained => return drained.inspect_err(|_| self.unlock()),
            }
        }
    }

    /// Releases the lock as a writer.
    #[inline]
    pub(crate) fn unlock(&self) {
        // Only a writer that holds `writers` sleeps on the gate, so there is no sleeper to wake.
        let _ = self.gate.change(|gate| Some(gate & !CLOSED));
        self.writers.unlock();
    }

    pub(crate) fn statistics(&self) -> Statistics {
        self.writers.wait_state.statistics().plus(self.drain_state.statistics())
    }
}

/// An attempt of a reader to enter: through the gate, or by the mutex of the writers.
struct ReadAttempt<'a> {
    lock: &'a RawRwLock,
    attempt: LockAttempt<'a>,
    holds_writers: bool,
}

impl Awaited for ReadAttempt<'_> {
    #[inline]
    fn poll(&mut self) -> bool {
        if self.lock.try_share() {
            self.attempt.give_up();
            return true;
        }
        self.holds_writers = self.attempt.poll();
        self.holds_writers
    }

    fn pause(&mut self) -> u32 {
        self.attempt.pause()
    }

    fn sleep(&mut self, deadline: Option<Instant>) {
        self.attempt.sleep(deadline);
    }
}

/// The departure of all readers, for which a writer waits.
struct Drained<'a> {
    gate: &'a CountedFutex,
}

impl Awaited for Drained<'_> {
    #[inline]
    fn poll(&mut self) -> bool {
        self.gate.value() == CLOSED
    }

    fn sleep(&mut self, deadline: Option<Instant>) {
        self.gate.sleep(|gate| gate != CLOSED, deadline, Scope::Process);
    }
}
