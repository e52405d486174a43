//! A lock around a value that lets many fibers read it, or one write.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::{Duration, Instant};

use crate::error::TimedOut;
use crate::guarded::{Exclusive, Guarded, Shared};
use crate::share::SharedLock;
use crate::time::after;
use crate::worker::Here;

/// A value that many fibers may read at a time, or one change. Who waits for it lets the other fibers run.
///
/// Readers and writers take turns: a reader that comes while a writer waits comes after it, and those who wait to read when a writer leaves come before the next one. So neither
/// starves the other. A fiber that reads and wants to read once more while it does may therefore wait for a writer that waits for it, for ever.
///
/// It is poisoned as a [`Mutex`](crate::Mutex) is, by who may write.
///
/// # Panics
/// All that takes the lock panics on a kernel thread that runs no fibers, and in a runtime that it does not belong to.
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
    /// A free lock.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(Guarded::new(SharedLock::new(), value))
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

impl<T: ?Sized> RwLock<T> {
    /// Waits until the value may be read.
    ///
    /// # Errors
    /// When it is poisoned; the error has the guard.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        let guard = Here::enter(|here| {
            loop {
                // Without a deadline it ends in one way only.
                if let Ok(guard) = self.0.shared(here, None) {
                    return guard;
                }
            }
        });
        self.0.check_poison(RwLockReadGuard(guard))
    }

    /// Reads the value if that can be at once. Others may run before that, but nobody is waited for.
    ///
    /// # Errors
    /// When somebody writes or waits to, and when it is poisoned.
    #[track_caller]
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        let guard = Here::enter(|here| self.0.try_shared(here)).ok_or(TryLockError::WouldBlock)?;
        Ok(self.0.check_poison(RwLockReadGuard(guard))?)
    }

    /// As [`RwLock::read`], but waits no longer than to the deadline.
    ///
    /// # Errors
    /// When the deadline has passed; where it is poisoned, the inner result is an error.
    #[track_caller]
    pub fn read_until(&self, deadline: Instant) -> Result<LockResult<RwLockReadGuard<'_, T>>, TimedOut> {
        let guard = Here::enter(|here| self.0.shared(here, Some(deadline)))?;
        Ok(self.0.check_poison(RwLockReadGuard(guard)))
    }

    /// As [`RwLock::read_until`], with a timeout that begins now.
    ///
    /// # Errors
    /// As [`RwLock::read_until`].
    #[track_caller]
    pub fn read_timeout(&self, timeout: Duration) -> Result<LockResult<RwLockReadGuard<'_, T>>, TimedOut> {
        self.read_until(after(timeout))
    }

    /// Waits until nobody else reads or writes.
    ///
    /// # Errors
    /// When it is poisoned; the error has the guard.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        self.0.check_poison(RwLockWriteGuard(Here::enter(|here| self.0.exclusive(here))))
    }

    /// Takes the lock to write if nobody reads or writes. Others may run before that, but nobody is waited for.
    ///
    /// # Errors
    /// When somebody reads or writes, and when it is poisoned.
    #[track_caller]
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        let guard = Here::enter(|here| self.0.try_exclusive(here)).ok_or(TryLockError::WouldBlock)?;
        Ok(self.0.check_poison(RwLockWriteGuard(guard))?)
    }

    /// As [`RwLock::write`], but waits no longer than to the deadline.
    ///
    /// # Errors
    /// When the deadline has passed; where it is poisoned, the inner result is an error.
    #[track_caller]
    pub fn write_until(&self, deadline: Instant) -> Result<LockResult<RwLockWriteGuard<'_, T>>, TimedOut> {
        let guard = Here::enter(|here| self.0.exclusive_until(here, deadline))?;
        Ok(self.0.check_poison(RwLockWriteGuard(guard)))
    }

    /// As [`RwLock::write_until`], with a timeout that begins now.
    ///
    /// # Errors
    /// As [`RwLock::write_until`].
    #[track_caller]
    pub fn write_timeout(&self, timeout: Duration) -> Result<LockResult<RwLockWriteGuard<'_, T>>, TimedOut> {
        self.write_until(after(timeout))
    }

    /// The value, without locking: nobody else can have the lock while the caller borrows it like this.
    ///
    /// # Errors
    /// When it is poisoned; the error has the value.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        let poisoned = self.is_poisoned();
        let value = self.0.get_mut();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }

    /// Whether a fiber that wrote has panicked.
    pub fn is_poisoned(&self) -> bool {
        self.0.lock().is_poisoned()
    }

    /// The value is in order again: the lock is poisoned no longer.
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
    /// Without the value: looking at it would be to lock.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").field("is_poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

/// The value may be read by whoever has this, until it is dropped.
#[must_use = "the lock is given back as soon as its guard is dropped"]
pub struct RwLockReadGuard<'a, T: ?Sized>(Shared<'a, SharedLock, T>);

/// The value may be changed by whoever has this, until it is dropped.
#[must_use = "the lock is given back as soon as its guard is dropped"]
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
