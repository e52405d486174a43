#![doc = include_str!("../../condvar.md")]

use std::{fmt, time};

use policy::Instant;

use crate::deadline;
use crate::objects::mutex::MutexGuard;
use crate::protocol::raw_condvar::RawCondvar;
use crate::statistics::Statistics;
use crate::sync;
use crate::waiting::Waiting;

/// Threads that have a [`Mutex`](crate::Mutex) wait here until another has changed what it guards.
///
/// As [`std::sync::Condvar`], but how a thread waits is decided by a waiting rule (this one's while it waits to be notified, the
/// mutex's while it then waits for the mutex), and what that came to is counted.
///
/// A thread may wake without having been notified, so it must look again at what it waits for, as `wait_while` does. Threads
/// that wait at one condition variable may have different mutexes.
///
/// ```
/// # use rowlock_wait::{Condvar, Mutex};
/// let (ready, changed) = (Mutex::new(false), Condvar::new());
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         *ready.lock() = true;
///         changed.notify_one();
///     });
///     let ready = changed.wait_while(ready.lock(), |ready| !*ready);
///     assert!(*ready);
/// });
/// ```
pub struct Condvar {
    raw: RawCondvar,
    waiting: Waiting,
}

/// How a wait with a deadline has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult {
    timed_out: bool,
}

impl WaitTimeoutResult {
    /// Whether the deadline has passed without a notification.
    pub fn timed_out(&self) -> bool {
        self.timed_out
    }
}

impl Condvar {
    sync::const_fn! {
        /// A condition variable for threads that wait by the adaptive rule.
        pub fn new() -> Condvar {
            Condvar::with(Waiting::ADAPTIVE)
        }
    }

    sync::const_fn! {
        /// A condition variable for threads that wait like this.
        pub fn with(waiting: Waiting) -> Condvar {
            Condvar { raw: RawCondvar::new(), waiting }
        }
    }

    /// Gives the mutex back, waits until notified, and takes the mutex again. No notification is missed that comes after
    /// the mutex was given back. May return without any.
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.wait_by(guard, None).0
    }

    /// Waits as [`Condvar::wait`] does for as long as the condition is true of the value.
    pub fn wait_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        while condition(&mut guard) {
            guard = self.wait(guard);
        }
        guard
    }

    /// As [`Condvar::wait`], but waits to be notified no longer than to the deadline. It always takes the mutex again, which
    /// can take longer.
    pub fn wait_until<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: time::Instant,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        self.wait_by(guard, Some(deadline::at(deadline)))
    }

    /// As [`Condvar::wait_until`], with a timeout that begins now.
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: time::Duration,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        self.wait_by(guard, Some(deadline::after(timeout)))
    }

    /// As [`Condvar::wait_while`], but waits no longer than for this time. Times out only if the condition is still true
    /// of the value at the end.
    pub fn wait_timeout_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        timeout: time::Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        let deadline = deadline::after(timeout);
        let mut result = WaitTimeoutResult { timed_out: false };
        while condition(&mut guard) {
            if result.timed_out {
                return (guard, result);
            }
            (guard, result) = self.wait_by(guard, Some(deadline));
        }
        (guard, WaitTimeoutResult { timed_out: false })
    }

    fn wait_by<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Option<Instant>,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        let ticket = self.raw.arrive();
        guard.unlocked(|| {
            let result = self.raw.wait(ticket, self.waiting, deadline);
            WaitTimeoutResult { timed_out: result.is_err() }
        })
    }

    /// Wakes the one that has waited longest, if anybody waits. Never blocks.
    pub fn notify_one(&self) {
        self.raw.notify_one();
    }

    /// Wakes all that wait. Never blocks.
    pub fn notify_all(&self) {
        self.raw.notify_all();
    }

    /// What waiting to be notified has come to so far.
    pub fn statistics(&self) -> Statistics {
        self.raw.statistics()
    }
}

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}
