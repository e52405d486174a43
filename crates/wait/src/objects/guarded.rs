//! A value that a lock guards: what is unsafe about locks.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use policy::Instant;

use crate::deadline::TimedOut;
use crate::objects::mutex::{self, Mutex, MutexGuard};
use crate::objects::rwlock::{self, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A lock that lets one in at a time.
///
/// # Safety
/// From a lock that succeeded to the next unlock no other may succeed, and whoever succeeds must see all that was done
/// before the unlock.
pub(crate) unsafe trait Exclude {
    /// Waits until it has the lock.
    ///
    /// # Errors
    /// When the deadline has passed; never without one.
    fn lock(&self, deadline: Option<Instant>) -> Result<(), TimedOut>;

    /// Takes the lock if it is free, and returns whether it was. Never blocks.
    fn try_lock(&self) -> bool;

    /// Gives it back.
    ///
    /// # Safety
    /// The caller has it, by a lock that succeeded.
    unsafe fn unlock(&self);
}

// SAFETY: that is what the protocol promises, and what its model and its tests show.
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

/// A lock that can also let in several that share it.
///
/// # Safety
/// As that of [`Exclude`]; and from a share that succeeded to its unshare no lock may succeed, nor a share while it is
/// locked; and whoever locks must see all that was done before the unshares.
pub(crate) unsafe trait Share: Exclude {
    /// Waits until it shares the lock.
    ///
    /// # Errors
    /// When the deadline has passed; never without one.
    fn share(&self, deadline: Option<Instant>) -> Result<(), TimedOut>;

    /// Shares the lock if that can be at once, and returns whether it could. Never blocks.
    fn try_share(&self) -> bool;

    /// Shares it no more.
    ///
    /// # Safety
    /// The caller shares it, by a share that succeeded.
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

    /// However long that takes.
    #[inline]
    pub(crate) fn exclusive_in_time(&self) -> Exclusive<'_, L, T> {
        // Without a deadline it ends in one way only.
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

    /// However long that takes.
    #[inline]
    pub(crate) fn shared_in_time(&self) -> Shared<'_, L, T> {
        while self.lock.share(None).is_err() {}
        Shared { guarded: self, on_this_thread: PhantomData }
    }

    #[inline]
    pub(crate) fn try_shared(&self) -> Option<Shared<'_, L, T>> {
        self.lock.try_share().then(|| Shared { guarded: self, on_this_thread: PhantomData })
    }
}

// SAFETY: of those that share it, one at a time gets at the value, to read, write or even take it: each may then be on another
// thread, which is all that `Send` asks of the value.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

// SAFETY: as above, and several at a time read the value, which is what `Sync` asks of it.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

/// The lock is held by whoever has this, until it is dropped.
pub(crate) struct Exclusive<'a, L: Exclude, T: ?Sized> {
    guarded: &'a Guarded<L, T>,
    /// Whoever locked unlocks: so the thread is the same, and the value need not be `Send` for that.
    on_this_thread: PhantomData<*mut ()>,
}

// SAFETY: a guard that is shared lends the value itself to be shared, and nothing else.
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
        // SAFETY: the lock is held, so nobody else gets at the value, and the guard is lent meanwhile.
        unsafe { &*self.guarded.value.get() }
    }
}

impl<L: Exclude, T: ?Sized> DerefMut for Exclusive<'_, L, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is lent to be changed, so it is lent once.
        unsafe { &mut *self.guarded.value.get() }
    }
}

impl<L: Exclude, T: ?Sized> Drop for Exclusive<'_, L, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard was made by a lock that succeeded, and is dropped once.
        unsafe { self.guarded.lock.unlock() };
    }
}

/// Whoever has this shares the lock, until it is dropped.
pub(crate) struct Shared<'a, L: Share, T: ?Sized> {
    guarded: &'a Guarded<L, T>,
    /// As for [`Exclusive`].
    on_this_thread: PhantomData<*const ()>,
}

// SAFETY: as for `Exclusive`.
unsafe impl<L: Share + Sync, T: ?Sized + Sync> Sync for Shared<'_, L, T> {}

impl<L: Share, T: ?Sized> Deref for Shared<'_, L, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is shared, so nobody gets at the value to change it, and the guard is lent meanwhile.
        unsafe { &*self.guarded.value.get() }
    }
}

impl<L: Share, T: ?Sized> Drop for Shared<'_, L, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard was made by a share that succeeded, and is dropped once.
        unsafe { self.guarded.lock.unshare() };
    }
}

impl<T: ?Sized> Mutex<T> {
    /// A guard for a mutex that the calling thread has already, by a guard that it has forgotten: for those who cannot keep
    /// guards, such as an interface for another language.
    ///
    /// # Safety
    /// The calling thread has the mutex, and no other guard of it.
    pub unsafe fn make_guard_unchecked(&self) -> MutexGuard<'_, T> {
        MutexGuard(Exclusive { guarded: &self.0, on_this_thread: PhantomData })
    }
}

impl<T: ?Sized> RwLock<T> {
    /// A guard for a lock that the calling thread has already as a reader, by a guard that it has forgotten.
    ///
    /// # Safety
    /// The calling thread has the lock as a reader once more than it has other guards of it.
    pub unsafe fn make_read_guard_unchecked(&self) -> RwLockReadGuard<'_, T> {
        RwLockReadGuard(Shared { guarded: &self.0, on_this_thread: PhantomData })
    }

    /// A guard for a lock that the calling thread has already as a writer, by a guard that it has forgotten.
    ///
    /// # Safety
    /// The calling thread has the lock as a writer, and no other guard of it.
    pub unsafe fn make_write_guard_unchecked(&self) -> RwLockWriteGuard<'_, T> {
        RwLockWriteGuard(Exclusive { guarded: &self.0, on_this_thread: PhantomData })
    }
}
