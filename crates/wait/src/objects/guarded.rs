//! Lock guards: the unsafe part of the locks.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use policy::Instant;

use crate::deadline::TimedOut;
use crate::objects::mutex::{self, Mutex, MutexGuard};
use crate::objects::rwlock::{self, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A lock with exclusive access.
///
/// # Safety
/// After a successful lock no other lock may succeed until the unlock. A thread that locks must see
/// all that was done before the last unlock.
pub(crate) unsafe trait Exclude {
    /// Waits until it has the lock.
    ///
    /// # Errors
    /// If the deadline passes.
    fn lock(&self, deadline: Option<Instant>) -> Result<(), TimedOut>;

    /// Acquires the lock if it is free. Returns whether it was. Never blocks.
    fn try_lock(&self) -> bool;

    /// Releases the lock.
    ///
    /// # Safety
    /// The caller holds it by a successful lock.
    unsafe fn unlock(&self);
}

// SAFETY: the protocol guarantees this. Its model and its tests check it.
unsafe impl Exclude for mutex::Lock {
    #[inline]
    fn lock(&self, deadline: Option<Instant>) -> Result<(), TimedOut> {
        mutex::Lock::lock(self, deadline)
    }

    #[inline]
    fn try_lock(&self) -> bool {
        mutex::Lock::try_lock(self)
    }

    #[inline]
    unsafe fn unlock(&self) {
        mutex::Lock::unlock(self);
    }
}

/// A lock that also has shared access.
///
/// # Safety
/// See [`Exclude`]. After a successful share no lock may succeed until the unshare, nor a share
/// while the lock is held exclusively. A thread that locks must see all that was done before the
/// unshares.
pub(crate) unsafe trait Share: Exclude {
    /// Waits until it has shared access.
    ///
    /// # Errors
    /// If the deadline passes.
    fn share(&self, deadline: Option<Instant>) -> Result<(), TimedOut>;

    /// Acquires shared access if that is possible immediately. Returns whether it was. Never
    /// blocks.
    fn try_share(&self) -> bool;

    /// Releases shared access.
    ///
    /// # Safety
    /// The caller has shared access by a successful share.
    unsafe fn unshare(&self);
}

// SAFETY: as above.
unsafe impl Exclude for rwlock::Lock {
    #[inline]
    fn lock(&self, deadline: Option<Instant>) -> Result<(), TimedOut> {
        rwlock::Lock::lock(self, deadline)
    }

    #[inline]
    fn try_lock(&self) -> bool {
        rwlock::Lock::try_lock(self)
    }

    #[inline]
    unsafe fn unlock(&self) {
        rwlock::Lock::unlock(self);
    }
}

// SAFETY: as above.
unsafe impl Share for rwlock::Lock {
    #[inline]
    fn share(&self, deadline: Option<Instant>) -> Result<(), TimedOut> {
        rwlock::Lock::share(self, deadline)
    }

    #[inline]
    fn try_share(&self) -> bool {
        rwlock::Lock::try_share(self)
    }

    #[inline]
    unsafe fn unshare(&self) {
        rwlock::Lock::unshare(self);
    }
}

/// A value and the lock that guards it.
#[repr(C)]
pub(crate) struct Guarded<L, T: ?Sized> {
    lock: L,
    value: UnsafeCell<T>,
}

impl<L, T> Guarded<L, T> {
    pub(crate) const fn new(lock: L, value: T) -> Guarded<L, T> {
        Guarded { lock, value: UnsafeCell::new(value) }
    }

    pub(crate) fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<L, T: ?Sized> Guarded<L, T> {
    pub(crate) fn lock(&self) -> &L {
        &self.lock
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<L: Exclude, T: ?Sized> Guarded<L, T> {
    #[inline]
    pub(crate) fn exclusive(&self, deadline: Option<Instant>) -> Result<Exclusive<'_, L, T>, TimedOut> {
        self.lock.lock(deadline)?;
        Ok(Exclusive { guarded: self, on_this_thread: PhantomData })
    }

    /// Without a deadline.
    #[inline]
    pub(crate) fn exclusive_untimed(&self) -> Exclusive<'_, L, T> {
        // Without a deadline, this always succeeds.
        while self.lock.lock(None).is_err() {}
        Exclusive { guarded: self, on_this_thread: PhantomData }
    }

    #[inline]
    pub(crate) fn try_exclusive(&self) -> Option<Exclusive<'_, L, T>> {
        self.lock.try_lock().then(|| Exclusive { guarded: self, on_this_thread: PhantomData })
    }
}

impl<L: Share, T: ?Sized> Guarded<L, T> {
    #[inline]
    pub(crate) fn shared(&self, deadline: Option<Instant>) -> Result<Shared<'_, L, T>, TimedOut> {
        self.lock.share(deadline)?;
        Ok(Shared { guarded: self, on_this_thread: PhantomData })
    }

    /// Without a deadline.
    #[inline]
    pub(crate) fn shared_untimed(&self) -> Shared<'_, L, T> {
        while self.lock.share(None).is_err() {}
        Shared { guarded: self, on_this_thread: PhantomData }
    }

    #[inline]
    pub(crate) fn try_shared(&self) -> Option<Shared<'_, L, T>> {
        self.lock.try_share().then(|| Shared { guarded: self, on_this_thread: PhantomData })
    }
}

// SAFETY: only one of the threads that share it has access to the value at a time, to read, write
// or even move it. This may be another thread each time, which is what `Send` permits.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

// SAFETY: as above. Several threads also read the value at the same time, which `Sync` permits.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

/// Exclusive access to the value. Releases the lock when dropped.
pub(crate) struct Exclusive<'a, L: Exclude, T: ?Sized> {
    guarded: &'a Guarded<L, T>,
    /// The thread that locks must unlock. So the guard stays on its thread, and the value need not
    /// be `Send` for it.
    on_this_thread: PhantomData<*mut ()>,
}

// SAFETY: a shared guard only gives shared access to the value.
unsafe impl<L: Exclude + Sync, T: ?Sized + Sync> Sync for Exclusive<'_, L, T> {}

impl<'a, L: Exclude, T: ?Sized> Exclusive<'a, L, T> {
    pub(crate) fn guarded(&self) -> &'a Guarded<L, T> {
        self.guarded
    }
}

impl<L: Exclude, T: ?Sized> Deref for Exclusive<'_, L, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held exclusively, and the guard is borrowed meanwhile.
        unsafe { &*self.guarded.value.get() }
    }
}

impl<L: Exclude, T: ?Sized> DerefMut for Exclusive<'_, L, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed mutably, so there is no other borrow.
        unsafe { &mut *self.guarded.value.get() }
    }
}

impl<L: Exclude, T: ?Sized> Drop for Exclusive<'_, L, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard was created by a successful lock, and is dropped once.
        unsafe { self.guarded.lock.unlock() };
    }
}

/// Shared access to the value. Releases it when dropped.
pub(crate) struct Shared<'a, L: Share, T: ?Sized> {
    guarded: &'a Guarded<L, T>,
    /// See [`Exclusive`].
    on_this_thread: PhantomData<*const ()>,
}

// SAFETY: as for `Exclusive`.
unsafe impl<L: Share + Sync, T: ?Sized + Sync> Sync for Shared<'_, L, T> {}

impl<L: Share, T: ?Sized> Deref for Shared<'_, L, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is shared, so no thread has mutable access, and the guard is borrowed
        // meanwhile.
        unsafe { &*self.guarded.value.get() }
    }
}

impl<L: Share, T: ?Sized> Drop for Shared<'_, L, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard was created by a successful share, and is dropped once.
        unsafe { self.guarded.lock.unshare() };
    }
}

impl<T: ?Sized> Mutex<T> {
    /// A guard for a mutex that the calling thread already holds by a forgotten guard. For callers
    /// that cannot store guards, such as bindings for another language.
    ///
    /// # Safety
    /// The calling thread holds the mutex, and has no other guard of it.
    pub unsafe fn make_guard_unchecked(&self) -> MutexGuard<'_, T> {
        MutexGuard(Exclusive { guarded: &self.0, on_this_thread: PhantomData })
    }
}

impl<T: ?Sized> RwLock<T> {
    /// A guard for a lock that the calling thread already holds as a reader by a forgotten guard.
    ///
    /// # Safety
    /// The calling thread holds the lock as a reader once more than it has other guards of it.
    pub unsafe fn make_read_guard_unchecked(&self) -> RwLockReadGuard<'_, T> {
        RwLockReadGuard(Shared { guarded: &self.0, on_this_thread: PhantomData })
    }

    /// A guard for a lock that the calling thread already holds as a writer by a forgotten guard.
    ///
    /// # Safety
    /// The calling thread holds the lock as a writer, and has no other guard of it.
    pub unsafe fn make_write_guard_unchecked(&self) -> RwLockWriteGuard<'_, T> {
        RwLockWriteGuard(Exclusive { guarded: &self.0, on_this_thread: PhantomData })
    }
}
