//! Mutexes.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::PoisonError;

use fiber::MutexGuard;
use fiber::foreign::Id;

use crate::arch::SavedModes;
use crate::object::Object;
use crate::runtime::{me, status};

/// A mutex, and while it is locked its guard, which C cannot keep.
#[derive(Default)]
pub(crate) struct GuardedMutex {
    mutex: fiber::Mutex<()>,
    guard: Cell<Option<MutexGuard<'static, ()>>>,
    owner: Cell<Option<Id>>,
}

impl GuardedMutex {
    /// Keeps the guard of the new owner.
    pub(crate) fn keep(&self, me: Id, guard: MutexGuard<'static, ()>) {
        self.guard.set(Some(guard));
        self.owner.set(Some(me));
    }

    /// The owner's guard. EPERM if the caller is not the owner.
    pub(crate) fn release(&self, me: Id) -> Result<MutexGuard<'static, ()>, c_int> {
        if self.owner.get() != Some(me) {
            return Err(libc::EPERM);
        }
        self.owner.set(None);
        self.guard.take().ok_or(libc::EPERM)
    }
}

pub struct Mutex(());

/// # Safety
/// See [`Object::get`].
pub(crate) unsafe fn guarded(mutex: *const Mutex) -> Result<&'static GuardedMutex, c_int> {
    // SAFETY: the caller's promise.
    unsafe { Object::<GuardedMutex>::get(mutex.cast()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_mutex_init(mutex: *mut Mutex, _attributes: *const c_void) -> c_int {
    status(me().and_then(|_| {
        // SAFETY: C has reserved the memory.
        unsafe { Object::<GuardedMutex>::make(mutex.cast()) }
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_mutex_lock(mutex: *mut Mutex) -> c_int {
    let _modes = SavedModes::now();
    status(me().and_then(|me| {
        // SAFETY: C passes a mutex.
        let guarded = unsafe { guarded(mutex)? };
        if guarded.owner.get() == Some(me) {
            return Err(libc::EDEADLK);
        }
        guarded.keep(me, guarded.mutex.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_mutex_trylock(mutex: *mut Mutex) -> c_int {
    let _modes = SavedModes::now();
    status(me().and_then(|me| {
        // SAFETY: C passes a mutex.
        let guarded = unsafe { guarded(mutex)? };
        guarded.keep(me, guarded.mutex.try_lock().map_err(|_| libc::EBUSY)?);
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_mutex_unlock(mutex: *mut Mutex) -> c_int {
    let _modes = SavedModes::now();
    status(me().and_then(|me| {
        // SAFETY: C passes a mutex.
        drop(unsafe { guarded(mutex)? }.release(me)?);
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_mutex_destroy(mutex: *mut Mutex) -> c_int {
    status(me().and_then(|_| {
        // SAFETY: C passes a mutex.
        if unsafe { guarded(mutex)? }.mutex.is_locked() {
            return Err(libc::EBUSY);
        }
        // SAFETY: it is not locked, so no thread waits for it.
        unsafe { Object::<GuardedMutex>::destroy(mutex.cast()) };
        Ok(())
    }))
}
