#![doc = include_str!("../../condvar.md")]

use std::fmt;

use crate::deadline::Deadline;
use crate::objects::mutex::MutexGuard;
use crate::protocol::raw_condvar::RawCondvar;
use crate::statistics::Statistics;
use crate::sync;
use crate::waiting::Waiting;

/// A condition variable: threads with a [`Mutex`](crate::Mutex) wait until its value has changed.
///
/// Like [`std::sync::Condvar`], but a waiting rule decides how threads wait, and their waits are
/// counted. This rule applies until a thread is notified, and then that of the mutex.
///
/// A thread may wake up without a notification, so it must check its condition again, as
/// `wait_while` does. Threads that wait at one condition variable may use different mutexes.
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

/// The result of a timed wait.
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

type GuardAndResult<'a, T> = (MutexGuard<'a, T>, WaitTimeoutResult);

impl Condvar {
    sync::const_fn! {
        /// A condition variable for threads that wait by the adaptive rule.
        pub fn new() -> Condvar {
            Condvar::with(Waiting::ADAPTIVE)
        }

        /// A condition variable for threads that wait like this.
        pub fn with(waiting: Waiting) -> Condvar {
            Condvar { raw: RawCondvar::new(), waiting }
        }
    }

    /// Releases the mutex, waits until notified, and acquires the mutex again. Misses no
    /// notification after the release. May return without a notification.
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.wait_timeout(guard, Deadline::NEVER).0
    }

    /// Waits like [`Condvar::wait`] while the condition holds for the value.
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

    /// Like [`Condvar::wait`], but waits for a notification at most until the deadline. It always
    /// acquires the mutex again, which can take longer.
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: impl Into<Deadline>,
    ) -> GuardAndResult<'a, T> {
        let deadline = deadline.into().0;
        let ticket = self.raw.arrive();
        guard.unlocked(|| {
            let result = self.raw.wait(ticket, self.waiting, deadline);
            WaitTimeoutResult { timed_out: result.is_err() }
        })
    }

    /// Like [`Condvar::wait_while`], but waits at most until the deadline. Times out only if the
    /// condition holds.
    pub fn wait_timeout_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        deadline: impl Into<Deadline>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> GuardAndResult<'a, T> {
        let deadline = deadline.into();
        let mut result = WaitTimeoutResult { timed_out: false };
        while condition(&mut guard) {
            if result.timed_out {
                return (guard, result);
            }
            (guard, result) = self.wait_timeout(guard, deadline);
        }
        (guard, WaitTimeoutResult { timed_out: false })
    }

    /// Wakes the thread that has waited longest, if there is one. Never blocks.
    pub fn notify_one(&self) {
        self.raw.notify_one();
    }

    /// Wakes all waiting threads. Never blocks.
    pub fn notify_all(&self) {
        self.raw.notify_all();
    }

    /// The counts of all waits for notifications so far.
    pub fn statistics(&self) -> Statistics {
        self.raw.wait_state.statistics()
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
