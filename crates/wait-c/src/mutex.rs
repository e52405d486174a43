//! Mutexes.

use std::ffi::{c_char, c_int};
use std::mem::{self, MaybeUninit};
use std::time::Duration;

use wait::MutexGuard;

use crate::argument::{self, create, given};
use crate::failure::{Failure, status};
use crate::statistics::{Statistics, leave_statistics};

/// One thread has it at a time. All that a thread did while it had it is visible to who has it later.
pub struct Mutex(wait::Mutex<()>);

impl Mutex {
    /// The guard that its holder has forgotten, for C cannot keep it.
    ///
    /// # Safety
    /// If anybody has the mutex, it is the calling thread.
    pub(crate) unsafe fn resume(&self) -> Result<MutexGuard<'_, ()>, Failure> {
        if !self.0.is_locked() {
            return Err(Failure::not_held("mutex"));
        }
        // SAFETY: somebody has the mutex, and as the caller says it is this thread. All guards are forgotten.
        Ok(unsafe { self.0.make_guard_unchecked() })
    }
}

/// Makes a mutex that nobody has, whose waiters go by this rule (NULL: "adaptive").
///
/// Returns 0, or EINVAL if `mutex` is NULL or `rule` is not a rule; then `*mutex` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_mutex_create(
    mutex: Option<&mut MaybeUninit<Option<Box<Mutex>>>>,
    rule: *const c_char,
) -> c_int {
    status(|| {
        create(mutex, "mutex", || {
            // SAFETY: C passes a text or NULL.
            let waiting = unsafe { argument::waiting(rule) }?;
            Ok(Mutex(wait::Mutex::with((), waiting)))
        })
    })
}

/// Frees a mutex that no thread has or waits for. NULL is fine.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_mutex_destroy(mutex: Option<Box<Mutex>>) {
    drop(mutex);
}

/// Waits until the calling thread has the mutex. It waits for ever if it has it already.
///
/// Returns 0, or EINVAL if `mutex` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_mutex_lock(mutex: Option<&Mutex>) -> c_int {
    status(|| {
        mem::forget(given(mutex, "mutex")?.0.lock());
        Ok(())
    })
}

/// Takes the mutex if nobody has it, and does not wait.
///
/// Returns 0, EBUSY if somebody has it, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_mutex_trylock(mutex: Option<&Mutex>) -> c_int {
    status(|| {
        mem::forget(given(mutex, "mutex")?.0.try_lock().ok_or_else(Failure::would_block)?);
        Ok(())
    })
}

/// As `rowlock_mutex_lock`, but waits no longer than until `CLOCK_MONOTONIC` is at `deadline`.
///
/// Returns 0, ETIMEDOUT, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_mutex_lock_until(mutex: Option<&Mutex>, deadline: Option<&libc::timespec>) -> c_int {
    status(|| {
        mem::forget(given(mutex, "mutex")?.0.lock_until(argument::deadline(deadline)?)?);
        Ok(())
    })
}

/// As `rowlock_mutex_lock`, but waits no longer than so many nanoseconds.
///
/// Returns 0, ETIMEDOUT, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_mutex_lock_timeout(mutex: Option<&Mutex>, nanoseconds: u64) -> c_int {
    status(|| {
        mem::forget(given(mutex, "mutex")?.0.lock_timeout(Duration::from_nanos(nanoseconds))?);
        Ok(())
    })
}

/// Gives the mutex back. The calling thread must have it.
///
/// Returns 0, EPERM if nobody has it, or EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_mutex_unlock(mutex: Option<&Mutex>) -> c_int {
    status(|| {
        // SAFETY: the calling thread has it, as C is told.
        drop(unsafe { given(mutex, "mutex")?.resume() }?);
        Ok(())
    })
}

/// What waiting for it has come to goes to `*statistics`.
///
/// Returns 0, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_mutex_statistics(
    mutex: Option<&Mutex>,
    statistics: Option<&mut MaybeUninit<Statistics>>,
) -> c_int {
    status(|| leave_statistics(statistics, given(mutex, "mutex")?.0.statistics()))
}
