//! A lock around a value that lets one fiber in at a time.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::{Duration, Instant};

use crate::error::TimedOut;
use crate::guarded::{Exclusive, Guarded};
use crate::lock::Lock;
use crate::time::after;
use crate::worker::Here;

/// A value that one fiber at a time gets at. Who waits for it lets the other fibers run.
///
/// It can be used by the fibers of one runtime at a time: it belongs to the first that locks it, until that is over.
///
/// # Poisoning
/// As with the standard library's, a mutex whose guard is dropped because its fiber unwinds is poisoned: whoever locks it from then on is told so by an error, which has the
/// guard all the same. A fiber that unwinds because its runtime ends does so, too. What other fibers do meanwhile does not count,
/// whether they unwind or not: a fiber that stands still in the middle of unwinding (something waits in a destructor) poisons nothing that others have.
///
/// # Panics
/// All that takes the mutex panics on a kernel thread that runs no fibers, in a runtime that it does not belong to, and where the fiber has it already.
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
    /// A free mutex.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(Guarded::new(Lock::new(), value))
    }

    /// The value, which nobody else can get at any more.
    ///
    /// # Errors
    /// When it is poisoned; the error has the value.
    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.is_poisoned();
        let value = self.0.into_inner();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the mutex is free and takes it. It is given back when the guard is dropped.
    ///
    /// # Errors
    /// When it is poisoned; the error has the guard.
    #[inline(always)]
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        self.0.check_poison(MutexGuard(Here::enter(|here| self.0.exclusive(here))))
    }

    /// Takes the mutex if it is free. Others may run before that, but nobody is waited for.
    ///
    /// # Errors
    /// When somebody has it, and when it is poisoned.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let guard = Here::enter(|here| self.0.try_exclusive(here)).ok_or(TryLockError::WouldBlock)?;
        Ok(self.0.check_poison(MutexGuard(guard))?)
    }

    /// As [`Mutex::lock`], but waits no longer than to the deadline.
    ///
    /// # Errors
    /// When the deadline has passed. A mutex that is free is taken however late it is; where it is poisoned, the inner result is an error.
    #[track_caller]
    pub fn lock_until(&self, deadline: Instant) -> Result<LockResult<MutexGuard<'_, T>>, TimedOut> {
        let guard = Here::enter(|here| self.0.exclusive_until(here, deadline))?;
        Ok(self.0.check_poison(MutexGuard(guard)))
    }

    /// As [`Mutex::lock_until`], with a timeout that begins now.
    ///
    /// # Errors
    /// As [`Mutex::lock_until`].
    #[track_caller]
    pub fn lock_timeout(&self, timeout: Duration) -> Result<LockResult<MutexGuard<'_, T>>, TimedOut> {
        match self.try_lock() {
            Ok(guard) => Ok(Ok(guard)),
            Err(TryLockError::Poisoned(error)) => Ok(Err(error)),
            Err(TryLockError::WouldBlock) => self.lock_until(after(timeout)),
        }
    }

    /// The value, without locking: nobody else can have the mutex while the caller borrows it like this.
    ///
    /// # Errors
    /// When it is poisoned; the error has the value.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        let poisoned = self.is_poisoned();
        let value = self.0.get_mut();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }

    /// Whether somebody has the mutex at this moment. When the caller looks at the answer it may be otherwise.
    pub fn is_locked(&self) -> bool {
        self.0.lock().is_locked()
    }

    /// Whether a fiber that had it has panicked.
    pub fn is_poisoned(&self) -> bool {
        self.0.lock().is_poisoned()
    }

    /// The value is in order again: the mutex is poisoned no longer.
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
    /// Without the value: looking at it would be to lock.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (is_locked, is_poisoned) = (self.is_locked(), self.is_poisoned());
        f.debug_struct("Mutex")
            .field("is_locked", &is_locked)
            .field("is_poisoned", &is_poisoned)
            .finish_non_exhaustive()
    }
}

/// The mutex is held by whoever has this, until it is dropped. It may be kept while other fibers run.
///
/// It is of the fiber that locked:
///
/// ```compile_fail,E0277
/// static MUTEX: rowlock_fiber::Mutex<u32> = rowlock_fiber::Mutex::new(0);
/// let guard = MUTEX.lock().unwrap();
/// rowlock_fiber::spawn(move || drop(guard));
/// ```
#[must_use = "the mutex is given back as soon as its guard is dropped"]
pub struct MutexGuard<'a, T: ?Sized>(pub(crate) Exclusive<'a, Lock, T>);

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Gives the mutex back for as long as `meanwhile` takes, and then waits for it again.
    #[inline]
    pub(crate) fn unlocked<R>(self, here: Here, meanwhile: impl FnOnce() -> R) -> (MutexGuard<'a, T>, R) {
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
