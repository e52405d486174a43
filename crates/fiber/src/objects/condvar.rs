//! A condition variable.
//!
//! Waiters are on the list before they unlock the mutex. So a fiber or thread that then changes
//! what the mutex guards and notifies finds them there, and no notification is lost. A waiter
//! leaves the list because it is notified, because its deadline has passed, or because its runtime
//! ends, and for no other reason: there are no spurious wakeups.

use std::fmt;
use std::time::{Duration, Instant};

use lock_api::RawMutex as _;

use crate::current_worker::CurrentWorker;
use crate::error::TimedOut;
use crate::objects::mutex::{MutexGuard, RawMutex};
use crate::time::after;
use crate::waiting::biased::Biased;
use crate::waiting::list::{TakenList, WaitList};
use crate::waiting::{self, Operation};

/// A condition variable: fibers and threads wait here, with a [mutex](crate::Mutex) unlocked
/// meanwhile, until others notify them.
///
/// No notification is lost, and none is made up: [`wait`](Condvar::wait) returns if a notification
/// was for its caller. But others may have locked the mutex between the notification and its
/// return, so check the condition again, or wait with [`wait_while`](Condvar::wait_while). One
/// notification wakes the waiter that has waited longest. Waiters may have different mutexes.
///
/// ```
/// use rowlock_fiber::{Condvar, Mutex, run, spawn};
///
/// static READY: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
///
/// let ready = run(|| {
///     let (mutex, condvar) = &READY;
///     spawn(move || {
///         *mutex.lock() = true;
///         condvar.notify_one();
///     })
///     .detach();
///     *condvar.wait_while(mutex.lock(), |ready| !*ready)
/// });
/// assert!(ready);
/// ```
pub struct Condvar(Biased<WaitList<()>>);

impl Condvar {
    /// A condition variable without waiters.
    pub const fn new() -> Condvar {
        Condvar(Biased::new(WaitList::new()))
    }

    /// Unlocks the mutex and waits for a notification, and then for the mutex.
    #[inline]
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.wait_unlocked(guard, None).0
    }

    /// Waits as long as a condition holds for the guarded value.
    #[inline]
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

    /// Like [`Condvar::wait`], but waits for a notification only until the deadline. It waits for
    /// the mutex in any case. The result beside the guard tells whether the deadline has passed.
    pub fn wait_until<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> (MutexGuard<'a, T>, Result<(), TimedOut>) {
        self.wait_unlocked(guard, Some(deadline))
    }

    /// Like [`Condvar::wait_until`], with a timeout that starts now.
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> (MutexGuard<'a, T>, Result<(), TimedOut>) {
        self.wait_until(guard, after(timeout))
    }

    /// Waits as long as a condition holds for the guarded value, but only until the deadline. The
    /// result beside the guard is an error if the condition still holds then.
    pub fn wait_while_until<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        deadline: Instant,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> (MutexGuard<'a, T>, Result<(), TimedOut>) {
        while condition(&mut guard) {
            let result;
            (guard, result) = self.wait_until(guard, deadline);
            if result.is_err() {
                let result = if condition(&mut guard) { result } else { Ok(()) };
                return (guard, result);
            }
        }
        (guard, Ok(()))
    }

    /// If the fiber unwinds from here, because its runtime ends, the mutex stays unlocked.
    #[inline]
    fn wait_unlocked<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Option<Instant>,
    ) -> (MutexGuard<'a, T>, Result<(), TimedOut>) {
        let mutex = MutexGuard::mutex(&guard);
        std::mem::forget(guard);
        // SAFETY: the guard that was forgotten has locked it, and the wait unlocks it.
        let raw = unsafe { mutex.raw() };
        let result = waiting::perform_until(&Wait { condvar: self, mutex: raw }, (), deadline).map_err(|()| TimedOut);
        (mutex.lock(), result)
    }

    /// Wakes the fiber or thread that has waited longest, if there is one.
    #[inline]
    pub fn notify_one(&self) {
        CurrentWorker::visit(|here| {
            if let Some(waiter) = self.0.enter(here.as_deref(), WaitList::pop)
                && !cfg!(rowlock_canary = "a-notification-is-lost")
            {
                waiter.wake(here);
            }
        });
    }

    /// Wakes all that wait now, in the order in which they came.
    pub fn notify_all(&self) {
        waiting::change(&self.0, |waiting, woken| woken.take_all(waiting));
    }
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

struct Wait<'a> {
    condvar: &'a Condvar,
    mutex: &'a RawMutex,
}

impl Operation for Wait<'_> {
    type State = WaitList<()>;
    type Payload = ();
    const KIND: &'static str = "a condition variable";
    const OBJECT: fn(&Self) -> &Biased<WaitList<()>> = |operation| &operation.condvar.0;
    const LIST: fn(&mut WaitList<()>) -> &mut WaitList<()> = |waiting| waiting;

    fn attempt(&self, _: &mut WaitList<()>, (): &mut (), _: &mut TakenList<()>) -> bool {
        false
    }

    fn on_listed(&self) {
        // SAFETY: the caller has locked it.
        unsafe { self.mutex.unlock() };
    }

    fn undo(&self, (): ()) {
        self.condvar.notify_one();
    }
}
