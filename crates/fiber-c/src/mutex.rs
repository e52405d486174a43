//! Mutexes.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::PoisonError;

use fiber::MutexGuard;
use fiber::foreign::Id;

use crate::object::{self, Object, get};
use crate::runtime::enter;

/// A mutex, and while it is locked its guard, which C cannot keep.
#[derive(Default)]
pub struct GuardedMutex {
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

#[unsafe(no_mangle)]
pub extern "C" fn my_pthread_mutex_init(
    mutex: Option<&mut MaybeUninit<Object<GuardedMutex>>>,
    _attributes: *const c_void,
) -> c_int {
    object::init(mutex)
}

#[unsafe(no_mangle)]
pub extern "C" fn my_pthread_mutex_lock(mutex: Option<&'static Object<GuardedMutex>>) -> c_int {
    enter(|me| {
        let guarded = get(mutex)?;
        if guarded.owner.get() == Some(me) {
            return Err(libc::EDEADLK);
        }
        guarded.keep(me, guarded.mutex.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn my_pthread_mutex_trylock(mutex: Option<&'static Object<GuardedMutex>>) -> c_int {
    enter(|me| {
        let guarded = get(mutex)?;
        guarded.keep(me, guarded.mutex.try_lock().map_err(|_| libc::EBUSY)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn my_pthread_mutex_unlock(mutex: Option<&'static Object<GuardedMutex>>) -> c_int {
    enter(|me| get(mutex)?.release(me).map(drop))
}

/// # Safety
/// No thread waits at a condition variable with this mutex.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_mutex_destroy(mutex: Option<&'static Object<GuardedMutex>>) -> c_int {
    enter(|_| {
        if get(mutex)?.mutex.is_locked() {
            return Err(libc::EBUSY);
        }
        // SAFETY: it is not locked, so no thread waits for it. By the caller's promise no thread
        // will lock it after a wait.
        unsafe { object::destroy(mutex) };
        Ok(())
    })
}
