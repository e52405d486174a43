//! A value that a lock guards: what is unsafe about locks, and the only place in this crate that is.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use policy::Instant;

use crate::deadline::TimedOut;
use crate::mutex::{self, Mutex};

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

    #[inline]
    pub(crate) fn try_exclusive(&self) -> Option<Exclusive<'_, L, T>> {
        self.lock.try_lock().then(|| Exclusive { guarded: self, on_this_thread: PhantomData })
    }
}

// SAFETY: of those that share it, one at a time gets at the value, to read, write or even take it: each may then be on another
// thread, which is all that `Send` asks of the value.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

/// The lock is held by whoever has this, until it is dropped.
pub(crate) struct Exclusive<'a, L: Exclude, T: ?Sized> {
    guarded: &'a Guarded<L, T>,
    /// Whoever locked unlocks: so the thread is the same, and the value need not be `Send` for that.
    on_this_thread: PhantomData<*mut ()>,
}

// SAFETY: a guard that is shared lends the value itself to be shared, and nothing else.
unsafe impl<L: Exclude + Sync, T: ?Sized + Sync> Sync for Exclusive<'_, L, T> {}

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
