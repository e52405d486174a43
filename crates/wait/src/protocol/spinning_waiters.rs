//! Spinning for signals of another library's condition variable before blocking there.
//!
//! # The protocol, and why no signal is lost
//!
//! A waiter holds the mutex of the condition variable. It (1) enters, which counts it as a spinning
//! waiter, and reads the number of signals; (2) releases the mutex; (3) polls for as long as it
//! likes. If it has seen a signal, it acquires the mutex, and the wait is over. Otherwise it (4)
//! acquires the mutex, (5) polls once more, and (6) blocks at the condition variable, which
//! releases the mutex. A thread that signals (a) counts the signal here if there are spinning
//! waiters, and then (b) signals the condition variable.
//!
//! A signal must reach every thread that released the mutex before the signalling thread acquired
//! it. Such a thread has visibly entered before, so (a) counts the signal. There are three cases.
//!
//! * (a) precedes (5): the waiter sees the signal at (5) at the latest.
//! * (b) follows the beginning of the block in (6): the condition variable wakes the waiter.
//! * Both (a) and (b) fall between (5) and (6), which takes a hundred nanoseconds. The waiter holds
//!   the mutex then, so the signalling thread does not. For this case the block must have a
//!   deadline, after which the waiter polls again, as in (5), before it blocks again. The waiter
//!   sees such a signal late, but it sees it.
//!
//! A signal that has woken another thread ends a wait too. Programs must expect such wakeups.
//!
//! `tests/loom/spinning_waiters.rs` checks the first two cases in all interleavings.

use std::sync::atomic::Ordering::SeqCst;

use crate::sync::{self, AtomicU32};

/// The spinning waiters at a condition variable.
#[derive(Debug)]
pub struct SpinningWaiters {
    /// The number of signals while there were spinning waiters.
    signals: AtomicU32,
    count: AtomicU32,
}

/// A spinning waiter. It must call [`SpinningWaiter::leave`], or signals are counted needlessly.
#[must_use = "a spinning waiter has to leave"]
#[derive(Clone, Copy, Debug)]
pub struct SpinningWaiter<'a> {
    waiters: &'a SpinningWaiters,
    before: u32,
}

impl SpinningWaiters {
    sync::const_fn! {
        /// No spinning waiters.
        pub fn new() -> SpinningWaiters {
            SpinningWaiters { signals: AtomicU32::new(0), count: AtomicU32::new(0) }
        }
    }

    /// Adds a spinning waiter. The calling thread holds the mutex.
    pub fn enter(&self) -> SpinningWaiter<'_> {
        self.count.fetch_add(1, SeqCst);
        SpinningWaiter { waiters: self, before: self.signals.load(SeqCst) }
    }

    /// Signals the spinning waiters, before the condition variable, with or without the mutex.
    pub fn signal(&self) {
        if self.count.load(SeqCst) > 0 {
            self.signals.fetch_add(1, SeqCst);
        }
    }
}

impl Default for SpinningWaiters {
    fn default() -> SpinningWaiters {
        SpinningWaiters::new()
    }
}

impl SpinningWaiter<'_> {
    /// Whether there has been a signal. If so, what was done before it is visible.
    pub fn is_signalled(&self) -> bool {
        self.waiters.signals.load(SeqCst) != self.before
    }

    /// Removes the waiter.
    pub fn leave(self) {
        self.waiters.count.fetch_sub(1, SeqCst);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_spinning_waiter_sees_signals_since_it_entered() {
        let waiters = SpinningWaiters::new();
        waiters.signal();
        let waiter = waiters.enter();
        assert!(!waiter.is_signalled());
        waiters.signal();
        let later = waiters.enter();
        assert!(waiter.is_signalled() && !later.is_signalled());
        waiter.leave();
        waiters.signal();
        assert!(later.is_signalled());
        later.leave();
    }

    #[test]
    fn signals_without_spinning_waiters_are_not_counted() {
        let waiters = SpinningWaiters::new();
        waiters.enter().leave();
        waiters.signal();
        assert_eq!(waiters.signals.load(SeqCst), 0);
    }
}
