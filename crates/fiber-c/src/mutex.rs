//! Mutexes.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::PoisonError;

use fiber::MutexGuard;
use fiber::foreign::Id;

use crate::arch::Kept;
use crate::object::Object;
use crate::runtime::{me, status};

/// A mutex, and while it is locked its guard, which C cannot keep.
#[derive(Default)]
pub(crate) struct Held {
    mutex: fiber::Mutex<()>,
    guard: Cell<Option<MutexGuard<'static, ()>>>,
    owner: Cell<Option<Id>>,
}

impl Held {
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
pub(crate) unsafe fn held(mutex: *const Mutex) -> Result<&'static Held, c_int> {
    // SAFETY: the caller's promise.
    unsafe { Object::<Held>::get(mutex.cast()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_mutex_init(mutex: *mut Mutex, _attributes: *const c_void) -> c_int {
    status(me().and_then(|_| {
        // SAFETY: C has reserved the memory.
        unsafe { Object::<Held>::make(mutex.cast()) }
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_mutex_lock(mutex: *mut Mutex) -> c_int {
    let _kept = Kept::now();
    status(me().and_then(|me| {
        // SAFETY: C passes a mutex.
        let held = unsafe { held(mutex)? };
        if held.owner.get() == Some(me) {
            return Err(libc::EDEADLK);
        }
        held.keep(me, held.mutex.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_mutex_trylock(mutex: *mut Mutex) -> c_int {
    let _kept = Kept::now();
    status(me().and_then(|me| {
        // SAFETY: C passes a mutex.
        let held = unsafe { held(mutex)? };
        held.keep(me, held.mutex.try_lock().map_err(|_| libc::EBUSY)?);
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_mutex_unlock(mutex: *mut Mutex) -> c_int {
    let _kept = Kept::now();
    status(me().and_then(|me| {
        // SAFETY: C passes a mutex.
        drop(unsafe { held(mutex)? }.release(me)?);
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_mutex_destroy(mutex: *mut Mutex) -> c_int {
    status(me().and_then(|_| {
        // SAFETY: C passes a mutex.
        if unsafe { held(mutex)? }.mutex.is_locked() {
            return Err(libc::EBUSY);
        }
        // SAFETY: it is not locked, so no thread waits for it.
        unsafe { Object::<Held>::destroy(mutex.cast()) };
        Ok(())
    }))
}
