//! Condition variables.

use std::ffi::{c_int, c_void};
use std::sync::PoisonError;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::arch::SavedModes;
use crate::mutex::{Mutex, guarded};
use crate::object::Object;
use crate::runtime::{me, status};

pub struct Condvar(());

/// # Safety
/// See [`Object::get`].
unsafe fn get(condvar: *const Condvar) -> Result<&'static fiber::Condvar, c_int> {
    // SAFETY: the caller's promise.
    unsafe { Object::<fiber::Condvar>::get(condvar.cast()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_cond_init(condvar: *mut Condvar, _attributes: *const c_void) -> c_int {
    status(me().and_then(|_| {
        // SAFETY: C has reserved the memory.
        unsafe { Object::<fiber::Condvar>::make(condvar.cast()) }
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_cond_destroy(condvar: *mut Condvar) -> c_int {
    status(me().and_then(|_| {
        // SAFETY: C passes a condition variable without waiters.
        unsafe {
            get(condvar)?;
            Object::<fiber::Condvar>::destroy(condvar.cast());
        }
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_cond_wait(condvar: *mut Condvar, mutex: *mut Mutex) -> c_int {
    let _modes = SavedModes::now();
    status(me().and_then(|me| {
        // SAFETY: C passes both.
        let (condvar, guarded) = unsafe { (get(condvar)?, guarded(mutex)?) };
        let guard = guarded.release(me)?;
        guarded.keep(me, condvar.wait(guard).unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }))
}

/// The moment at which the real-time clock shows this time. EINVAL if the time is invalid.
fn moment(time: &libc::timespec) -> Result<Instant, c_int> {
    let nanoseconds = u32::try_from(time.tv_nsec).ok().filter(|&nanoseconds| nanoseconds < 1_000_000_000);
    let nanoseconds = nanoseconds.ok_or(libc::EINVAL)?;
    let since = Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanoseconds);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (instant, ahead) = (Instant::now(), since.saturating_sub(now));
    // A time that is too far away for a clock becomes one in thirty years.
    Ok(instant.checked_add(ahead).unwrap_or(instant + Duration::from_secs(1 << 30)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_cond_timedwait(
    condvar: *mut Condvar,
    mutex: *mut Mutex,
    until: *const libc::timespec,
) -> c_int {
    let _modes = SavedModes::now();
    status(me().and_then(|me| {
        // SAFETY: C passes them.
        let (condvar, guarded, until) =
            unsafe { (get(condvar)?, guarded(mutex)?, until.as_ref().ok_or(libc::EINVAL)?) };
        let until = moment(until)?;
        let guard = guarded.release(me)?;
        let (guard, in_time) = condvar.wait_until(guard, until).unwrap_or_else(PoisonError::into_inner);
        guarded.keep(me, guard);
        in_time.map_err(|_| libc::ETIMEDOUT)
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_cond_signal(condvar: *mut Condvar) -> c_int {
    let _modes = SavedModes::now();
    status(me().and_then(|_| {
        // SAFETY: C passes a condition variable.
        unsafe { get(condvar)? }.notify_one();
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_cond_broadcast(condvar: *mut Condvar) -> c_int {
    let _modes = SavedModes::now();
    status(me().and_then(|_| {
        // SAFETY: C passes a condition variable.
        unsafe { get(condvar)? }.notify_all();
        Ok(())
    }))
}
