//! A reader-writer lock for fibers.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::{Duration, Instant};

use crate::error::TimedOut;
use crate::guarded::{Exclusive, Guarded, Shared};
use crate::share::SharedLock;
use crate::time::after;
use crate::worker::CurrentWorker;

/// A reader-writer lock: many fibers may read the value at a time, or one may change it. A fiber
/// that waits for it lets others run.
///
/// Readers and writers take turns: a reader that comes while a writer waits comes after it, and
/// readers that wait when a writer leaves come before the next one. So neither side starves the
/// other. But a fiber that reads and wants to read again meanwhile may wait forever, for a writer
/// that waits for it.
///
/// It is poisoned like a [`Mutex`](crate::Mutex), by writers only.
///
/// # Panics
/// Locking panics on a kernel thread that runs no fibers, and in a runtime to which the lock does
/// not belong.
///
/// ```
/// use rowlock_fiber::{RwLock, scope};
///
/// rowlock_fiber::run(|| {
///     let lock = RwLock::new(1);
///     scope(|scope| {
///         scope.spawn(|| *lock.write().unwrap() += 1);
///         scope.spawn(|| assert!(*lock.read().unwrap() > 0));
///     });
///     assert_eq!(lock.into_inner().unwrap(), 2);
/// });
/// ```
pub struct RwLock<T: ?Sized>(Guarded<SharedLock, T>);

impl<T> RwLock<T> {
    /// An unlocked lock.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(Guarded::new(SharedLock::new(), value))
    }

    /// Returns the value.
    ///
    /// # Errors
    /// If the lock is poisoned; the error contains the value.
    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.is_poisoned();
        let value = self.0.into_inner();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until the value may be read.
    ///
    /// # Errors
    /// If the lock is poisoned; the error contains the guard.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        let guard = CurrentWorker::enter(|here| {
            loop {
                // Without a deadline it always succeeds.
                if let Ok(guard) = self.0.shared(here, None) {
                    return guard;
                }
            }
        });
        self.0.check_poison(RwLockReadGuard(guard))
    }

    /// Reads the value if that is possible now. Never waits, but other fibers may run first.
    ///
    /// # Errors
    /// If a fiber writes or waits to write, or the lock is poisoned.
    #[track_caller]
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        let guard = CurrentWorker::enter(|here| self.0.try_shared(here)).ok_or(TryLockError::WouldBlock)?;
        Ok(self.0.check_poison(RwLockReadGuard(guard))?)
    }

    /// Like [`RwLock::read`], but waits only until the deadline.
    ///
    /// # Errors
    /// If the deadline has passed. If the lock is poisoned, the inner result is an error.
    #[track_caller]
    pub fn read_until(&self, deadline: Instant) -> Result<LockResult<RwLockReadGuard<'_, T>>, TimedOut> {
        let guard = CurrentWorker::enter(|here| self.0.shared(here, Some(deadline)))?;
        Ok(self.0.check_poison(RwLockReadGuard(guard)))
    }

    /// Like [`RwLock::read_until`], with a timeout that starts now.
    ///
    /// # Errors
    /// As for [`RwLock::read_until`].
    #[track_caller]
    pub fn read_timeout(&self, timeout: Duration) -> Result<LockResult<RwLockReadGuard<'_, T>>, TimedOut> {
        self.read_until(after(timeout))
    }

    /// Waits until no other fiber reads or writes.
    ///
    /// # Errors
    /// If the lock is poisoned; the error contains the guard.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        self.0.check_poison(RwLockWriteGuard(CurrentWorker::enter(|here| self.0.exclusive(here))))
    }

    /// Locks for writing if no fiber reads or writes. Never waits, but other fibers may run first.
    ///
    /// # Errors
    /// If a fiber reads or writes, or the lock is poisoned.
    #[track_caller]
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        let guard = CurrentWorker::enter(|here| self.0.try_exclusive(here)).ok_or(TryLockError::WouldBlock)?;
        Ok(self.0.check_poison(RwLockWriteGuard(guard))?)
    }

    /// Like [`RwLock::write`], but waits only until the deadline.
    ///
    /// # Errors
    /// If the deadline has passed. If the lock is poisoned, the inner result is an error.
    #[track_caller]
    pub fn write_until(&self, deadline: Instant) -> Result<LockResult<RwLockWriteGuard<'_, T>>, TimedOut> {
        let guard = CurrentWorker::enter(|here| self.0.exclusive_until(here, deadline))?;
        Ok(self.0.check_poison(RwLockWriteGuard(guard)))
    }

    /// Like [`RwLock::write_until`], with a timeout that starts now.
    ///
    /// # Errors
    /// As for [`RwLock::write_until`].
    #[track_caller]
    pub fn write_timeout(&self, timeout: Duration) -> Result<LockResult<RwLockWriteGuard<'_, T>>, TimedOut> {
        self.write_until(after(timeout))
    }

    /// The value, without locking: the exclusive borrow excludes other fibers.
    ///
    /// # Errors
    /// If the lock is poisoned; the error contains the value.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        let poisoned = self.is_poisoned();
        let value = self.0.get_mut();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }

    /// Whether a writer has panicked.
    pub fn is_poisoned(&self) -> bool {
        self.0.lock().is_poisoned()
    }

    /// Clears the poison: the value is in order again.
    pub fn clear_poison(&self) {
        self.0.lock().set_poisoned(false);
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> RwLock<T> {
        RwLock::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> RwLock<T> {
        RwLock::new(value)
    }
}

impl<T: ?Sized> fmt::Debug for RwLock<T> {
    /// Without the value, which can only be read by locking.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").field("is_poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

/// Allows its owner to read the value until it is dropped.
#[must_use = "the lock is released as soon as its guard is dropped"]
pub struct RwLockReadGuard<'a, T: ?Sized>(Shared<'a, SharedLock, T>);

/// Allows its owner to change the value until it is dropped.
#[must_use = "the lock is released as soon as its guard is dropped"]
pub struct RwLockWriteGuard<'a, T: ?Sized>(Exclusive<'a, SharedLock, T>);

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
