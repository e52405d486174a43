//! Condition variables.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::PoisonError;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fiber::Condvar;

use crate::mutex::GuardedMutex;
use crate::object::{self, Object, get};
use crate::runtime::enter;

#[unsafe(no_mangle)]
pub extern "C" fn my_pthread_cond_init(
    condvar: Option<&mut MaybeUninit<Object<Condvar>>>,
    _attributes: *const c_void,
) -> c_int {
    object::init(condvar)
}

/// # Safety
/// No thread waits at the condition variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_cond_destroy(condvar: Option<&'static Object<Condvar>>) -> c_int {
    enter(|_| {
        get(condvar)?;
        // SAFETY: the caller guarantees it.
        unsafe { object::destroy(condvar) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn my_pthread_cond_wait(
    condvar: Option<&'static Object<Condvar>>,
    mutex: Option<&'static Object<GuardedMutex>>,
) -> c_int {
    enter(|me| {
        let (condvar, mutex) = (get(condvar)?, get(mutex)?);
        let guard = mutex.release(me)?;
        mutex.keep(me, condvar.wait(guard).unwrap_or_else(PoisonError::into_inner));
        Ok(())
    })
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
pub extern "C" fn my_pthread_cond_timedwait(
    condvar: Option<&'static Object<Condvar>>,
    mutex: Option<&'static Object<GuardedMutex>>,
    until: Option<&libc::timespec>,
) -> c_int {
    enter(|me| {
        let (condvar, mutex) = (get(condvar)?, get(mutex)?);
        let until = moment(until.ok_or(libc::EINVAL)?)?;
        let guard = mutex.release(me)?;
        let (guard, in_time) = condvar.wait_until(guard, until).unwrap_or_else(PoisonError::into_inner);
        mutex.keep(me, guard);
        in_time.map_err(|_| libc::ETIMEDOUT)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn my_pthread_cond_signal(condvar: Option<&'static Object<Condvar>>) -> c_int {
    enter(|_| get(condvar).map(Condvar::notify_one))
}

#[unsafe(no_mangle)]
pub extern "C" fn my_pthread_cond_broadcast(condvar: Option<&'static Object<Condvar>>) -> c_int {
    enter(|_| get(condvar).map(Condvar::notify_all))
}
