//! A value that a lock guards, and the unsafe code for that.
//!
//! Guards stay with the fiber that made them (they are not `Send`), and go along if it continues on
//! another kernel thread. If a guard is kept until its runtime is over, its lock stays locked.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError};
use std::time::Instant;

use crate::error::TimedOut;
use crate::lock::Lock;
use crate::mutex::Mutex;
use crate::rwlock::RwLock;
use crate::share::SharedLock;
use crate::worker::CurrentWorker;

/// A lock for one fiber at a time, which is told if its owner panics.
///
/// # Safety
/// Between a successful lock and the next unlock no other lock may succeed, and one that succeeds
/// must see all that was done before the unlock.
pub(crate) unsafe trait Exclude {
    /// Waits until it has acquired the lock.
    fn lock(&self, here: CurrentWorker);

    /// The same with a deadline.
    ///
    /// # Errors
    /// If the deadline has passed.
    fn lock_until(&self, here: CurrentWorker, deadline: Instant) -> Result<(), TimedOut>;

    /// Acquires the lock if it is free, and returns whether it was.
    fn try_lock(&self, here: CurrentWorker) -> bool;

    /// Releases the lock.
    ///
    /// # Safety
    /// The calling fiber holds it.
    unsafe fn unlock(&self, here: CurrentWorker);

    /// Poisons the lock, because its owner panics.
    fn poison(&self);

    fn is_poisoned(&self) -> bool;
}

// SAFETY: see its module.
unsafe impl Exclude for Lock {
    #[inline(always)]
    fn lock(&self, here: CurrentWorker) {
        Lock::lock(self, here);
    }

    fn lock_until(&self, here: CurrentWorker, deadline: Instant) -> Result<(), TimedOut> {
        Lock::lock_until(self, here, deadline)
    }

    #[inline]
    fn try_lock(&self, here: CurrentWorker) -> bool {
        Lock::try_lock(self, here)
    }

    #[inline(always)]
    unsafe fn unlock(&self, here: CurrentWorker) {
        Lock::unlock(self, here);
    }

    fn poison(&self) {
        Lock::poison(self);
    }

    #[inline(always)]
    fn is_poisoned(&self) -> bool {
        Lock::is_poisoned(self)
    }
}

/// A lock that several fibers can also share.
///
/// # Safety
/// As for [`Exclude`]. Between a successful share and its unshare no lock may succeed, nor a share
/// while it is locked; and a lock must see all that was done before the unshares.
pub(crate) unsafe trait Share: Exclude {
    /// Waits until it shares the lock.
    ///
    /// # Errors
    /// If the deadline has passed; never without one.
    fn share(&self, here: CurrentWorker, deadline: Option<Instant>) -> Result<(), TimedOut>;

    /// Shares the lock if that is possible without waiting, and returns whether it was.
    fn try_share(&self, here: CurrentWorker) -> bool;

    /// Releases a share.
    ///
    /// # Safety
    /// The calling fiber has a share of the lock.
    unsafe fn unshare(&self, here: CurrentWorker);
}

// SAFETY: its state is inside a gate, and says which fibers hold the lock.
unsafe impl Exclude for SharedLock {
    #[inline]
    fn lock(&self, here: CurrentWorker) {
        // Without a deadline it always succeeds.
        while self.exclude(here, None).is_err() {}
    }

    fn lock_until(&self, here: CurrentWorker, deadline: Instant) -> Result<(), TimedOut> {
        self.exclude(here, Some(deadline))
    }

    fn try_lock(&self, here: CurrentWorker) -> bool {
        self.try_exclude(here)
    }

    #[inline]
    unsafe fn unlock(&self, here: CurrentWorker) {
        self.unexclude(here);
    }

    fn poison(&self) {
        self.set_poisoned(true);
    }

    #[inline]
    fn is_poisoned(&self) -> bool {
        SharedLock::is_poisoned(self)
    }
}

// SAFETY: as above.
unsafe impl Share for SharedLock {
    #[inline]
    fn share(&self, here: CurrentWorker, deadline: Option<Instant>) -> Result<(), TimedOut> {
        SharedLock::share(self, here, deadline)
    }

    fn try_share(&self, here: CurrentWorker) -> bool {
        SharedLock::try_share(self, here)
    }

    #[inline]
    unsafe fn unshare(&self, here: CurrentWorker) {
        SharedLock::unshare(self, here);
    }
}

/// A value and the lock that guards it.
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
    #[inline(always)]
    pub(crate) fn exclusive(&self, here: CurrentWorker) -> Exclusive<'_, L, T> {
        self.lock.lock(here);
        Exclusive::new(self, here)
    }

    pub(crate) fn exclusive_until(
        &self,
        here: CurrentWorker,
        deadline: Instant,
    ) -> Result<Exclusive<'_, L, T>, TimedOut> {
        self.lock.lock_until(here, deadline)?;
        Ok(Exclusive::new(self, here))
    }

    #[inline]
    pub(crate) fn try_exclusive(&self, here: CurrentWorker) -> Option<Exclusive<'_, L, T>> {
        self.lock.try_lock(here).then(|| Exclusive::new(self, here))
    }

    /// An error if it is poisoned.
    #[inline(always)]
    pub(crate) fn check_poison<G>(&self, guard: G) -> LockResult<G> {
        if self.lock.is_poisoned() { Err(PoisonError::new(guard)) } else { Ok(guard) }
    }
}

impl<L: Share, T: ?Sized> Guarded<L, T> {
    #[inline]
    pub(crate) fn shared(&self, here: CurrentWorker, deadline: Option<Instant>) -> Result<Shared<'_, L, T>, TimedOut> {
        self.lock.share(here, deadline)?;
        Ok(Shared { guarded: self, on_this_thread: PhantomData })
    }

    pub(crate) fn try_shared(&self, here: CurrentWorker) -> Option<Shared<'_, L, T>> {
        self.lock.try_share(here).then(|| Shared { guarded: self, on_this_thread: PhantomData })
    }
}

// SAFETY: one fiber at a time accesses the value, to read, write or even take it. Each may be on
// another kernel thread, which is all that `Send` asks of the value.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

// SAFETY: as above, and several at a time read the value, which is what `Sync` asks of it.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

/// Holds the lock until it is dropped.
pub(crate) struct Exclusive<'a, L: Exclude, T: ?Sized> {
    guarded: &'a Guarded<L, T>,
    /// The fiber was unwinding already when it acquired the lock: if it still does so at the
    /// release, that says nothing about the value.
    panicking: bool,
    on_this_thread: PhantomData<*mut ()>,
}

// SAFETY: a shared guard only gives shared access to the value.
unsafe impl<L: Exclude + Sync, T: ?Sized + Sync> Sync for Exclusive<'_, L, T> {}

impl<'a, L: Exclude, T: ?Sized> Exclusive<'a, L, T> {
    #[inline(always)]
    fn new(guarded: &'a Guarded<L, T>, here: CurrentWorker) -> Exclusive<'a, L, T> {
        if here.has_ticks() {
            here.count_locks(1);
        }
        Exclusive { guarded, panicking: std::thread::panicking(), on_this_thread: PhantomData }
    }

    pub(crate) fn guarded(&self) -> &'a Guarded<L, T> {
        self.guarded
    }

    /// Releases the lock, for a fiber that is already in the runtime.
    #[inline(always)]
    pub(crate) fn unlock_in_runtime(self, here: CurrentWorker) -> &'a Guarded<L, T> {
        let this = ManuallyDrop::new(self);
        this.unlock(here);
        this.guarded
    }

    /// The caller must forget the guard.
    #[inline(always)]
    fn unlock(&self, here: CurrentWorker) {
        if std::thread::panicking() && !self.panicking {
            self.guarded.lock.poison();
        }
        // SAFETY: a lock that succeeded made the guard, which is not `Send` and so never left its
        // fiber, and it is released once.
        unsafe { self.guarded.lock.unlock(here) };
        if here.has_ticks() {
            here.count_locks(-1);
        }
    }
}

impl<L: Exclude, T: ?Sized> Deref for Exclusive<'_, L, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held, so no other fiber accesses the value, and the guard is borrowed
        // meanwhile.
        unsafe { &*self.guarded.value.get() }
    }
}

impl<L: Exclude, T: ?Sized> DerefMut for Exclusive<'_, L, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed exclusively.
        unsafe { &mut *self.guarded.value.get() }
    }
}

impl<L: Exclude, T: ?Sized> Drop for Exclusive<'_, L, T> {
    #[inline(always)]
    fn drop(&mut self) {
        CurrentWorker::visit(|here| {
            if let Some(here) = here {
                self.unlock(here);
            }
        });
    }
}

/// Shares the lock until it is dropped.
pub(crate) struct Shared<'a, L: Share, T: ?Sized> {
    guarded: &'a Guarded<L, T>,
    on_this_thread: PhantomData<*const ()>,
}

// SAFETY: as for `Exclusive`.
unsafe impl<L: Share + Sync, T: ?Sized + Sync> Sync for Shared<'_, L, T> {}

impl<L: Share, T: ?Sized> Deref for Shared<'_, L, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is shared, so no fiber can change the value, and the guard is borrowed
        // meanwhile.
        unsafe { &*self.guarded.value.get() }
    }
}

impl<L: Share, T: ?Sized> Drop for Shared<'_, L, T> {
    #[inline]
    fn drop(&mut self) {
        CurrentWorker::visit(|here| {
            let Some(here) = here else { return };
            // SAFETY: a share that succeeded made the guard, which is not `Send` and so never left
            // its fiber, and it is dropped once.
            unsafe { self.guarded.lock.unshare(here) };
        });
    }
}
