//! Looking out for signals to a condition variable that is somebody else's, before sleeping there.
//!
//! # The protocol, and why no signal is lost
//!
//! A thread that waits has the condition variable's mutex. It (1) enters, which makes it a looker, and remembers how many signals there
//! have been; (2) gives the mutex back; (3) looks for as long as it likes. If there was a signal it takes the mutex, and the wait is over. If
//! not, it (4) takes the mutex, (5) looks a last time, and (6) sleeps at the condition variable, which gives the mutex back. A thread that
//! signals (a) counts the signal here, if there is a looker, and then (b) signals the condition variable.
//!
//! Whom a signal must not miss is a thread that gave the mutex back before it was taken by somebody who then signals. That thread has
//! entered before, and the mutex makes this visible: so (a) counts. There are three cases.
//!
//! * (a) comes before (5): the thread sees it, there at the latest.
//! * (b) comes after the thread has gone to sleep in (6): the condition variable wakes it.
//! * All of (a) and (b) falls between (5) and (6), which takes a hundred nanoseconds. That is only possible for one that
//!   signals without having the mutex, since the sleeper has it. For that case the sleep must have a deadline, after which the
//!   thread looks again, as in (5), before it sleeps on. So such a signal is seen late, but it is seen.
//!
//! A signal that others have been woken by ends a wait too: a spurious wakeup, which every program has to expect.
//!
//! `tests/loom_lookers.rs` tries the first two cases in all orders.

use std::sync::atomic::Ordering::SeqCst;

use crate::sync::{self, AtomicU32};

/// Those who look out for signals.
#[derive(Debug)]
pub struct SpinningWaiters {
    /// How often there was a signal while somebody looked.
    signals: AtomicU32,
    count: AtomicU32,
}

/// One who looks. To be given back by [`SpinningWaiter::leave`]; if that is forgotten, signals are counted for nobody.
#[must_use = "one who looks has to leave"]
#[derive(Clone, Copy, Debug)]
pub struct SpinningWaiter<'a> {
    waiters: &'a SpinningWaiters,
    before: u32,
}

impl SpinningWaiters {
    sync::const_fn! {
        /// Nobody.
        pub fn new() -> SpinningWaiters {
            SpinningWaiters { signals: AtomicU32::new(0), count: AtomicU32::new(0) }
        }
    }

    /// Begins to look, by a thread that has the mutex.
    pub fn enter(&self) -> SpinningWaiter<'_> {
        self.count.fetch_add(1, SeqCst);
        SpinningWaiter { waiters: self, before: self.signals.load(SeqCst) }
    }

    /// Tells those who waiter. To be called before the condition variable is signalled, with the mutex or without.
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
    /// Whether there has been a signal. What was done before it is visible then.
    pub fn is_signalled(&self) -> bool {
        self.waiters.signals.load(SeqCst) != self.before
    }

    /// Looks no more.
    pub fn leave(self) {
        self.waiters.count.fetch_sub(1, SeqCst);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_looks_is_told_of_signals_since_it_entered() {
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
    fn where_nobody_looks_nothing_is_counted() {
        let waiters = SpinningWaiters::new();
        waiters.enter().leave();
        waiters.signal();
        assert_eq!(waiters.signals.load(SeqCst), 0);
    }
}
