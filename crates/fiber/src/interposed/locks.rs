//! Mutexes and read-write locks of the C library, and its calls that happen once.
//!
//! A fiber tries without waiting. If another one has the lock, it waits in a [table](super::table)
//! until the lock is unlocked, and tries again. It is not the C library that makes it wait, so what
//! the lock says of its owner and its kind holds as ever.
//!
//! An unlock that is not a call is not noticed: a thread that waits at a condition variable unlocks
//! the mutex inside the C library, and another process has a table of its own. For these a fiber
//! also tries again by itself, after a time that grows. So an unlock need not be certain to see
//! each waiter, and takes no fence.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Acquire;
use std::time::Duration;

use libc::{EBUSY, EINVAL, ETIMEDOUT, c_int, clockid_t, pthread_mutex_t, pthread_rwlock_t, timespec};

use super::table::{Key, Table};
use super::{Outcome, in_fiber, interposed, sleep};
use crate::current_worker::CurrentWorker;
use crate::fiber_thread;
use crate::time;
use crate::waitable::Woken;

static LOCKS: Table = Table::new("a lock of the C library");

/// After this time a fiber tries again by itself for the first time, and then after twice the time,
const INTERVAL: Duration = Duration::from_micros(50);
/// up to this one.
const LONGEST: Duration = Duration::from_millis(10);
/// All fibers together try again at most once in this time, so that it costs little.
const TURN: Duration = Duration::from_millis(1);

/// Before all times. The C library does not ask the kernel to wait until then.
const PAST: &timespec = &timespec { tv_sec: -1, tv_nsec: 0 };

/// A time of a clock.
pub(super) type Until = (clockid_t, *const timespec);

/// The time from now to this one. `None` if the C library does not wait for such a time.
///
/// # Safety
/// The pointer is null or valid.
pub(super) unsafe fn ahead((clock, time): Until) -> Option<Duration> {
    let is_known = matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC);
    // SAFETY: the caller's promise.
    unsafe { time.as_ref() }.filter(|_| is_known).and_then(|time| sleep::ahead(time, Some(clock)))
}

/// Locks in a fiber. `attempt` never waits, and says [`EBUSY`] instead. `refuse` says in the same
/// case whether the caller must not wait: it waits until the [`PAST`].
///
/// # Safety
/// The pointer to a time is null or valid.
unsafe fn lock_in_fiber(
    lock: Key,
    until: Option<Until>,
    attempt: impl Fn() -> c_int,
    refuse: impl FnOnce() -> c_int,
) -> Option<Outcome> {
    if !fiber_thread::is_outside_runtime() {
        return None;
    }
    let mut result = attempt();
    if result == EBUSY {
        result = refuse();
        // A mutex with priority inheritance hands the time to the kernel, which knows no such.
        if matches!(result, ETIMEDOUT | EINVAL) {
            let deadline = match until {
                // SAFETY: the caller's promise.
                Some(until) => Some(time::after(unsafe { ahead(until) }?)),
                None => None,
            };
            let mut interval = INTERVAL;
            while let Some(woken) = in_fiber(|here| {
                let now = here.now();
                let others = u32::try_from(LOCKS.waiting()).unwrap_or(u32::MAX);
                let again = now + interval.max(TURN * others);
                let must_wait = || {
                    result = attempt();
                    result == EBUSY && deadline.is_none_or(|deadline| now < deadline)
                };
                let until = deadline.map_or(again, |deadline| deadline.min(again));
                Some(LOCKS.wait(here, lock, must_wait, || (), Some(until)))
            })? {
                if woken == Woken::TimedOut {
                    interval = (interval * 2).min(LONGEST);
                }
            }
        }
    }
    Some(Ok(if result == EBUSY { ETIMEDOUT } else { result }.into()))
}

/// # Safety
/// As for `pthread_mutex_clocklock`, but for the time, which there may not be.
unsafe fn lock_mutex(mutex: *mut pthread_mutex_t, until: Option<Until>) -> Option<Outcome> {
    // SAFETY: the caller's promise.
    unsafe {
        let refuse = || real::pthread_mutex_timedlock(mutex, PAST);
        lock_in_fiber(Key::at(mutex), until, || libc::pthread_mutex_trylock(mutex), refuse)
    }
}

/// Unlocks a mutex, and wakes no fiber for it.
///
/// # Safety
/// As for `pthread_mutex_unlock`.
pub(super) unsafe fn unlock_quietly(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { real::pthread_mutex_unlock(mutex) }
}

/// Wakes a fiber, for a caller in the runtime that has unlocked a mutex. It may be gone by now.
pub(super) fn wake_for(here: CurrentWorker, mutex: *const pthread_mutex_t) {
    LOCKS.wake_from(Some(here), Key::at(mutex), 1);
}

/// # Safety
/// As for `pthread_rwlock_clockrdlock`, but for the time, which there may not be.
unsafe fn lock_to_read(lock: *mut pthread_rwlock_t, until: Option<Until>) -> Option<Outcome> {
    // SAFETY: the caller's promise.
    unsafe {
        let refuse = || real::pthread_rwlock_timedrdlock(lock, PAST);
        lock_in_fiber(Key::at(lock), until, || libc::pthread_rwlock_tryrdlock(lock), refuse)
    }
}

/// # Safety
/// As for `pthread_rwlock_clockwrlock`, but for the time, which there may not be.
unsafe fn lock_to_write(lock: *mut pthread_rwlock_t, until: Option<Until>) -> Option<Outcome> {
    // SAFETY: the caller's promise.
    unsafe {
        let refuse = || real::pthread_rwlock_timedwrlock(lock, PAST);
        lock_in_fiber(Key::at(lock), until, || libc::pthread_rwlock_trywrlock(lock), refuse)
    }
}

/// The two bits in which `pthread_once` notes that it has called the function, or is calling it.
const STATE: u32 = 3;
const IS_CALLING: u32 = 1;

/// Waits in a fiber while another thread calls the function of a `pthread_once`. That one may begin
/// between this and the real call, which then stops the worker.
///
/// # Safety
/// As for `pthread_once`.
unsafe fn await_once(once: *mut c_int) {
    // SAFETY: the caller's promise. The C library changes it by atomic operations.
    let state = unsafe { AtomicU32::from_ptr(once.cast()) };
    let attempt = || if state.load(Acquire) & STATE == IS_CALLING { EBUSY } else { 0 };
    if attempt() == EBUSY {
        // SAFETY: there is no time.
        unsafe { lock_in_fiber(Key::at(once), None, attempt, || ETIMEDOUT) };
    }
}

const REAL: clockid_t = libc::CLOCK_REALTIME;

interposed! {
    fn pthread_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int = lock_mutex(mutex, None);
    fn pthread_mutex_timedlock(mutex: *mut pthread_mutex_t, until: *const timespec) -> c_int =
        lock_mutex(mutex, Some((REAL, until)));
    fn pthread_mutex_clocklock(mutex: *mut pthread_mutex_t, clock: clockid_t, until: *const timespec) -> c_int =
        lock_mutex(mutex, Some((clock, until)));
    fn pthread_mutex_unlock(mutex: *mut pthread_mutex_t) -> c_int = {
        let result = real::pthread_mutex_unlock(mutex);
        LOCKS.wake(Key::at(mutex), 1);
        Some(Ok(result.into()))
    };
    fn pthread_rwlock_rdlock(lock: *mut pthread_rwlock_t) -> c_int = lock_to_read(lock, None);
    fn pthread_rwlock_timedrdlock(lock: *mut pthread_rwlock_t, until: *const timespec) -> c_int =
        lock_to_read(lock, Some((REAL, until)));
    fn pthread_rwlock_clockrdlock(lock: *mut pthread_rwlock_t, clock: clockid_t, until: *const timespec) -> c_int =
        lock_to_read(lock, Some((clock, until)));
    fn pthread_rwlock_wrlock(lock: *mut pthread_rwlock_t) -> c_int = lock_to_write(lock, None);
    fn pthread_rwlock_timedwrlock(lock: *mut pthread_rwlock_t, until: *const timespec) -> c_int =
        lock_to_write(lock, Some((REAL, until)));
    fn pthread_rwlock_clockwrlock(lock: *mut pthread_rwlock_t, clock: clockid_t, until: *const timespec) -> c_int =
        lock_to_write(lock, Some((clock, until)));
    fn pthread_rwlock_unlock(lock: *mut pthread_rwlock_t) -> c_int = {
        let result = real::pthread_rwlock_unlock(lock);
        LOCKS.wake(Key::at(lock), u32::MAX);
        Some(Ok(result.into()))
    };
    fn pthread_once(once: *mut c_int, function: extern "C-unwind" fn()) -> c_int = {
        await_once(once);
        let result = real::pthread_once(once, function);
        LOCKS.wake(Key::at(once), u32::MAX);
        Some(Ok(result.into()))
    };
}
