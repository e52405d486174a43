//! Lock guards: the unsafe part of the locks.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use policy::Instant;

use crate::deadline::{Deadline, TimedOut};
use crate::objects::mutex::{Mutex, MutexGuard};
use crate::objects::rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::protocol::raw_mutex::RawMutex;
use crate::protocol::raw_rwlock::RawRwLock;
use crate::sync;
use crate::waiting::Waiting;

/// Access to read and write, by one thread at a time.
#[derive(Debug)]
pub enum Exclusive {}

/// Access to read, by several threads at the same time.
#[derive(Debug)]
pub enum Shared {}

/// A lock that gives this kind of access.
///
/// # Safety
/// Until exclusive access is released, no other access may be acquired. Until shared access is
/// released, no exclusive access may be acquired. A thread that acquires access must see all that
/// was done before the last release of exclusive access, and if its own access is exclusive, before
/// all releases of shared access.
pub unsafe trait Lock<A> {
    /// Waits until it has access.
    fn acquire(&self, deadline: Option<Instant>) -> Result<(), TimedOut>;

    /// Acquires access if that is possible immediately. Returns whether it was. Never blocks.
    fn try_acquire(&self) -> bool;

    /// Releases access.
    ///
    /// # Safety
    /// The caller has access by a successful acquisition.
    unsafe fn release(&self);
}

/// A mutex without its value.
#[derive(Debug)]
#[repr(C)]
pub struct MutexLock {
    pub(crate) waiting: Waiting,
    /// Whether the rule needs the owner's CPU.
    publishes_owner: bool,
    pub(crate) raw: RawMutex,
}

impl MutexLock {
    sync::const_fn! {
        pub(crate) fn new(waiting: Waiting) -> MutexLock {
            MutexLock { waiting, publishes_owner: waiting.inputs().running, raw: RawMutex::new() }
        }
    }

    #[inline]
    fn on_acquired(&self) {
        if self.publishes_owner {
            self.raw.publish_owner();
        }
    }
}

// SAFETY: the protocol guarantees this. Its model and its tests check it.
unsafe impl Lock<Exclusive> for MutexLock {
    #[inline]
    fn acquire(&self, deadline: Option<Instant>) -> Result<(), TimedOut> {
        self.raw.lock(&self.waiting, deadline)?;
        self.on_acquired();
        Ok(())
    }

    #[inline]
    fn try_acquire(&self) -> bool {
        let acquired = self.raw.try_lock();
        if acquired {
            self.on_acquired();
        }
        acquired
    }

    #[inline]
    unsafe fn release(&self) {
        self.raw.unlock();
    }
}

/// A reader-writer lock without its value.
#[derive(Debug)]
#[repr(C)]
pub struct ReaderWriterLock {
    pub(crate) waiting: Waiting,
    pub(crate) raw: RawRwLock,
}

// SAFETY: as above.
unsafe impl Lock<Exclusive> for ReaderWriterLock {
    #[inline]
    fn acquire(&self, deadline: Option<Instant>) -> Result<(), TimedOut> {
        self.raw.lock(&self.waiting, deadline)
    }

    #[inline]
    fn try_acquire(&self) -> bool {
        self.raw.try_lock()
    }

    #[inline]
    unsafe fn release(&self) {
        self.raw.unlock();
    }
}

// SAFETY: as above.
unsafe impl Lock<Shared> for ReaderWriterLock {
    #[inline]
    fn acquire(&self, deadline: Option<Instant>) -> Result<(), TimedOut> {
        self.raw.share(&self.waiting, deadline)
    }

    #[inline]
    fn try_acquire(&self) -> bool {
        self.raw.try_share()
    }

    #[inline]
    unsafe fn release(&self) {
        self.raw.unshare();
    }
}

/// A value and the lock that guards it.
#[repr(C)]
pub(crate) struct Guarded<L, T: ?Sized> {
    pub(crate) lock: L,
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
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

// SAFETY: only one of the threads that share it has access to the value at a time, to read, write
// or even move it. This may be another thread each time, which is what `Send` permits.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

// SAFETY: as above. Several threads also read the value at the same time, which `Sync` permits.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

/// Access to the value of a lock. Releases the lock when dropped.
#[must_use = "the lock is released as soon as its guard is dropped"]
pub struct Guard<'a, L: Lock<A>, T: ?Sized, A> {
    guarded: &'a Guarded<L, T>,
    /// The thread that acquires must release. So neither guard nor value need be `Send`.
    on_this_thread: PhantomData<(*mut (), A)>,
}

// SAFETY: a shared guard only gives shared access to the value.
unsafe impl<L: Lock<A> + Sync, T: ?Sized + Sync, A> Sync for Guard<'_, L, T, A> {}

impl<'a, L: Lock<A>, T: ?Sized, A> Guard<'a, L, T, A> {
    /// A guard for access that has been acquired.
    const fn new(guarded: &'a Guarded<L, T>) -> Self {
        Guard { guarded, on_this_thread: PhantomData }
    }

    #[inline]
    pub(crate) fn acquire(guarded: &'a Guarded<L, T>) -> Self {
        // Without a deadline, this always succeeds.
        while guarded.lock.acquire(None).is_err() {}
        Guard::new(guarded)
    }

    #[inline]
    pub(crate) fn acquire_until(guarded: &'a Guarded<L, T>, deadline: Deadline) -> Result<Self, TimedOut> {
        guarded.lock.acquire(deadline.0).map(|()| Guard::new(guarded))
    }

    #[inline]
    pub(crate) fn try_acquire(guarded: &'a Guarded<L, T>) -> Option<Self> {
        guarded.lock.try_acquire().then(|| Guard::new(guarded))
    }

    /// Releases the lock while `meanwhile` runs, and then waits for it again.
    pub(crate) fn unlocked<R>(self, meanwhile: impl FnOnce() -> R) -> (Self, R) {
        let guarded = self.guarded;
        drop(self);
        let result = meanwhile();
        (Guard::acquire(guarded), result)
    }
}

impl<L: Lock<A>, T: ?Sized, A> Deref for Guard<'_, L, T, A> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the thread has access. If it is shared, no thread has mutable access. If it is
        // exclusive, only this guard gives mutable access, and it is borrowed meanwhile.
        unsafe { &*self.guarded.value.get() }
    }
}

impl<L: Lock<Exclusive>, T: ?Sized> DerefMut for Guard<'_, L, T, Exclusive> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the access is exclusive, and the guard is borrowed mutably.
        unsafe { &mut *self.guarded.value.get() }
    }
}

impl<L: Lock<A>, T: ?Sized, A> Drop for Guard<'_, L, T, A> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard was created by a successful acquisition, and is dropped once.
        unsafe { self.guarded.lock.release() };
    }
}

impl<L: Lock<A>, T: ?Sized + fmt::Debug, A> fmt::Debug for Guard<'_, L, T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<L: Lock<A>, T: ?Sized + fmt::Display, A> fmt::Display for Guard<'_, L, T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// A guard in place of one that was forgotten, or `None` if no thread holds the mutex. For
    /// callers that cannot store guards, such as bindings for another language.
    ///
    /// # Safety
    /// If a thread holds the mutex, it is the calling thread, and it has no other guard of it.
    pub unsafe fn resume(&self) -> Option<MutexGuard<'_, T>> {
        self.is_locked().then(|| Guard::new(&self.0))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// A guard in place of one that was forgotten, or `None` if no thread holds the lock as a
    /// reader.
    ///
    /// # Safety
    /// If a reader holds the lock, the calling thread does, one time more than it has other guards.
    pub unsafe fn resume_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.is_read_locked().then(|| Guard::new(&self.0))
    }

    /// A guard in place of one that was forgotten, or `None` if no thread holds the lock as a
    /// writer.
    ///
    /// # Safety
    /// If a writer holds the lock, it is the calling thread, and it has no other guard of it.
    pub unsafe fn resume_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.is_write_locked().then(|| Guard::new(&self.0))
    }
}
