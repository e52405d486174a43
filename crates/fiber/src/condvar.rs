//! A condition variable for fibers.
//!
//! Fibers wait in the order in which they came, in one list inside a [gate](crate::gate). A fiber
//! is on the list before it unlocks the mutex. So a fiber that then changes what the mutex guards
//! and notifies finds it there, and no notification is lost. A fiber leaves the list because it is
//! notified, because its deadline has passed, or because its runtime ends, and for no other reason:
//! there are no spurious wakeups.

use std::fmt;
use std::sync::{LockResult, PoisonError};
use std::time::{Duration, Instant};

use crate::error::TimedOut;
use crate::gate::Gate;
use crate::mutex::MutexGuard;
use crate::queue::Queue;
use crate::record::Fiber;
use crate::time::after;
use crate::waits::{Waitable, Woken};
use crate::worker::CurrentWorker;

/// A condition variable: fibers wait here, with a [mutex](crate::Mutex) unlocked meanwhile, until
/// others notify them.
///
/// No notification is lost, and no fiber wakes without one: [`wait`](Condvar::wait) returns if a
/// notification was for this fiber. But other fibers may have locked the mutex between the
/// notification and its return, so check the condition again, or wait with
/// [`wait_while`](Condvar::wait_while). One notification wakes the fiber that has waited longest.
///
/// Fibers may wait at one condition variable with different mutexes.
///
/// # Panics
/// Waiting and notifying panic on a kernel thread that runs no fibers, and in a runtime to which
/// the condition variable does not belong.
///
/// ```
/// use rowlock_fiber::{Condvar, Mutex, Runtime, spawn};
///
/// static READY: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
///
/// let runtime = Runtime::new(Default::default());
/// let ready = runtime.run(|| {
///     let (mutex, condvar) = &READY;
///     spawn(move || {
///         *mutex.lock().unwrap() = true;
///         condvar.notify_one();
///     })
///     .detach();
///     *condvar.wait_while(mutex.lock().unwrap(), |ready| !*ready).unwrap()
/// });
/// assert!(ready.unwrap());
/// ```
pub struct Condvar(Waiting);

struct Waiting(Gate<Queue>);

impl Condvar {
    /// A condition variable without waiters.
    pub const fn new() -> Condvar {
        Condvar(Waiting(Gate::new(Queue::new())))
    }

    /// Unlocks the mutex and waits for a notification, and then for the mutex.
    ///
    /// # Errors
    /// If the mutex is poisoned by then; the error contains the guard.
    #[inline]
    #[track_caller]
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let (guard, _) = self.wait_inner(guard, None);
        check_poison(guard)
    }

    /// Waits as long as a condition holds for the guarded value.
    ///
    /// # Errors
    /// As for [`Condvar::wait`].
    #[inline]
    #[track_caller]
    pub fn wait_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        while condition(&mut guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// Like [`Condvar::wait`], but waits for a notification only until the deadline. It waits for
    /// the mutex in any case.
    ///
    /// # Errors
    /// As for [`Condvar::wait`]. The result beside the guard tells whether the deadline has passed.
    #[track_caller]
    pub fn wait_until<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> LockResult<(MutexGuard<'a, T>, Result<(), TimedOut>)> {
        let (guard, result) = self.wait_inner(guard, Some(deadline));
        match check_poison(guard) {
            Ok(guard) => Ok((guard, result)),
            Err(error) => Err(PoisonError::new((error.into_inner(), result))),
        }
    }

    /// Like [`Condvar::wait_until`], with a timeout that starts now.
    ///
    /// # Errors
    /// As for [`Condvar::wait_until`].
    #[track_caller]
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, Result<(), TimedOut>)> {
        self.wait_until(guard, after(timeout))
    }

    /// Waits as long as a condition holds for the guarded value, but only until the deadline. The
    /// inner result is an error if the condition still holds then.
    ///
    /// # Errors
    /// As for [`Condvar::wait_until`].
    #[track_caller]
    pub fn wait_while_until<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        deadline: Instant,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, Result<(), TimedOut>)> {
        while condition(&mut guard) {
            let (again, result) = self.wait_until(guard, deadline)?;
            guard = again;
            if result.is_err() {
                let result = if condition(&mut guard) { result } else { Ok(()) };
                return Ok((guard, result));
            }
        }
        Ok((guard, Ok(())))
    }

    #[inline]
    #[track_caller]
    fn wait_inner<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Option<Instant>,
    ) -> (MutexGuard<'a, T>, Result<(), TimedOut>) {
        CurrentWorker::enter(|here| {
            let me = here.current();
            self.0.0.enter(&here, |waiting| waiting.push(me));
            let (guard, woken) = guard.unlocked(here, || here.block(&self.0, deadline));
            (guard, if woken == Woken::TimedOut { Err(TimedOut) } else { Ok(()) })
        })
    }

    /// Wakes the fiber that has waited longest, if there is one.
    #[inline]
    #[track_caller]
    pub fn notify_one(&self) {
        CurrentWorker::enter(|here| {
            if let Some(fiber) = self.0.0.enter(&here, Queue::pop)
                && !cfg!(rowlock_canary = "a-notification-is-lost")
            {
                here.wake(fiber, Woken::Called);
            }
        });
    }

    /// Wakes all fibers that wait now, in the order in which they came.
    #[track_caller]
    pub fn notify_all(&self) {
        CurrentWorker::enter(|here| {
            self.0.0.enter(&here, |waiting| {
                while let Some(fiber) = waiting.pop() {
                    here.wake(fiber, Woken::Called);
                }
            });
        });
    }
}

fn check_poison<T: ?Sized>(guard: MutexGuard<'_, T>) -> LockResult<MutexGuard<'_, T>> {
    guard.0.guarded().check_poison(guard)
}

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}

impl Waitable for Waiting {
    fn leave(&self, fiber: Fiber) -> bool {
        self.0.enter(&CurrentWorker::expect(), |waiting| waiting.remove(fiber))
    }

    fn kind(&self) -> &'static str {
        "a condition variable"
    }
}
