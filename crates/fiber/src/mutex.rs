//! A mutex for fibers.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::{Duration, Instant};

use crate::error::TimedOut;
use crate::guarded::{Exclusive, Guarded};
use crate::lock::Lock;
use crate::time::after;
use crate::worker::CurrentWorker;

/// A mutex: one fiber at a time accesses the value. A fiber that waits for it lets others run.
///
/// It belongs to the first runtime whose fibers lock it, until that is over.
///
/// # Poisoning
/// As with the standard library's, a mutex is poisoned if its guard is dropped while its fiber
/// unwinds: from then on, locking it returns an error, which contains the guard. This includes
/// fibers that unwind because their runtime ends. Whether other fibers unwind meanwhile does not
/// matter: a fiber that is switched out while it unwinds (because a destructor waits) poisons
/// nothing that others hold.
///
/// # Panics
/// Locking panics on a kernel thread that runs no fibers, in a runtime to which the mutex does not
/// belong, and if the fiber has locked it already.
///
/// ```
/// use rowlock_fiber::{Mutex, Runtime, spawn};
///
/// static SUM: Mutex<u64> = Mutex::new(0);
///
/// let runtime = Runtime::new(Default::default());
/// let sum = runtime.run(|| {
///     let fibers: Vec<_> = (0..100).map(|i| spawn(move || *SUM.lock().unwrap() += i)).collect();
///     for fiber in fibers {
///         fiber.join().unwrap();
///     }
///     *SUM.lock().unwrap()
/// });
/// assert_eq!(sum.unwrap(), 4950);
/// ```
pub struct Mutex<T: ?Sized>(pub(crate) Guarded<Lock, T>);

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(Guarded::new(Lock::new(), value))
    }

    /// Returns the value.
    ///
    /// # Errors
    /// If the mutex is poisoned; the error contains the value.
    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.is_poisoned();
        let value = self.0.into_inner();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the mutex is free and locks it. It is unlocked when the guard is dropped.
    ///
    /// # Errors
    /// If the mutex is poisoned; the error contains the guard.
    #[inline(always)]
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        self.0.check_poison(MutexGuard(CurrentWorker::enter(|here| self.0.exclusive(here))))
    }

    /// Locks the mutex if it is free. Never waits, but other fibers may run first.
    ///
    /// # Errors
    /// If the mutex is locked, or poisoned.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let guard = CurrentWorker::enter(|here| self.0.try_exclusive(here)).ok_or(TryLockError::WouldBlock)?;
        Ok(self.0.check_poison(MutexGuard(guard))?)
    }

    /// Like [`Mutex::lock`], but waits only until the deadline.
    ///
    /// # Errors
    /// If the deadline has passed. A free mutex is locked even after the deadline. If it is
    /// poisoned, the inner result is an error.
    #[track_caller]
    pub fn lock_until(&self, deadline: Instant) -> Result<LockResult<MutexGuard<'_, T>>, TimedOut> {
        let guard = CurrentWorker::enter(|here| self.0.exclusive_until(here, deadline))?;
        Ok(self.0.check_poison(MutexGuard(guard)))
    }

    /// Like [`Mutex::lock_until`], with a timeout that starts now.
    ///
    /// # Errors
    /// As for [`Mutex::lock_until`].
    #[track_caller]
    pub fn lock_timeout(&self, timeout: Duration) -> Result<LockResult<MutexGuard<'_, T>>, TimedOut> {
        match self.try_lock() {
            Ok(guard) => Ok(Ok(guard)),
            Err(TryLockError::Poisoned(error)) => Ok(Err(error)),
            Err(TryLockError::WouldBlock) => self.lock_until(after(timeout)),
        }
    }

    /// The value, without locking: the exclusive borrow excludes other fibers.
    ///
    /// # Errors
    /// If the mutex is poisoned; the error contains the value.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        let poisoned = self.is_poisoned();
        let value = self.0.get_mut();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }

    /// Whether the mutex is locked now. The answer may be out of date immediately.
    pub fn is_locked(&self) -> bool {
        self.0.lock().is_locked()
    }

    /// Whether a fiber has panicked with the mutex locked.
    pub fn is_poisoned(&self) -> bool {
        self.0.lock().is_poisoned()
    }

    /// Clears the poison: the value is in order again.
    pub fn clear_poison(&self) {
        self.0.lock().clear_poison();
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
}

impl<T: ?Sized> fmt::Debug for Mutex<T> {
    /// Without the value, which can only be read by locking.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (is_locked, is_poisoned) = (self.is_locked(), self.is_poisoned());
        f.debug_struct("Mutex")
            .field("is_locked", &is_locked)
            .field("is_poisoned", &is_poisoned)
            .finish_non_exhaustive()
    }
}

/// Keeps the mutex locked until it is dropped. Other fibers may run meanwhile.
///
/// It belongs to the fiber that locked:
///
/// ```compile_fail,E0277
/// static MUTEX: rowlock_fiber::Mutex<u32> = rowlock_fiber::Mutex::new(0);
/// let guard = MUTEX.lock().unwrap();
/// rowlock_fiber::spawn(move || drop(guard));
/// ```
#[must_use = "the mutex is unlocked as soon as its guard is dropped"]
pub struct MutexGuard<'a, T: ?Sized>(pub(crate) Exclusive<'a, Lock, T>);

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Unlocks the mutex during `meanwhile`, and then waits for it again.
    #[inline]
    pub(crate) fn unlocked<R>(self, here: CurrentWorker, meanwhile: impl FnOnce() -> R) -> (MutexGuard<'a, T>, R) {
        let guarded = self.0.unlock_in_runtime(here);
        let result = meanwhile();
        (MutexGuard(guarded.exclusive(here)), result)
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
