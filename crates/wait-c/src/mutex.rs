//! Mutexes.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::time::Duration;

use c_abi::{Failure, Statistics, create_by_rule, given, status, write_statistics};
use wait::MutexGuard;

use crate::argument::{self, acquire};
use crate::failure::not_held;

/// A mutex, held by one thread at a time. All that a thread did while it held the mutex is visible
/// to later holders.
pub struct Mutex(wait::Mutex<()>);

impl Mutex {
    /// The guard that its holder has forgotten, since C cannot store it.
    ///
    /// # Safety
    /// If a thread holds the mutex, it is the calling thread.
    pub(crate) unsafe fn resume(&self) -> Result<MutexGuard<'_, ()>, Failure> {
        // SAFETY: the caller guarantees it. All guards are forgotten.
        unsafe { self.0.resume() }.ok_or_else(|| not_held("mutex"))
    }
}

/// Creates a free mutex, whose threads wait by this rule (NULL: "adaptive").
///
/// Returns 0, or EINVAL if `mutex` is NULL or `rule` is not a rule; then `*mutex` is NULL.
///
/// # Safety
/// `rule` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_mutex_create(
    mutex: Option<&mut MaybeUninit<Option<Box<Mutex>>>>,
    rule: *const c_char,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { create_by_rule(mutex, "mutex", rule, |waiting| Ok(Mutex(wait::Mutex::with((), waiting)))) }
}

/// Frees a mutex that no thread holds or waits for. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_mutex_destroy(mutex: Option<Box<Mutex>>) {
    drop(mutex);
}

/// Waits until the calling thread holds the mutex. Waits forever if it holds the mutex already.
///
/// Returns 0, or EINVAL if `mutex` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_mutex_lock(mutex: Option<&Mutex>) -> c_int {
    acquire(|| Ok(given(mutex, "mutex")?.0.lock()))
}

/// Acquires the mutex if it is free, without waiting.
///
/// Returns 0, EBUSY if it is not free, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_mutex_trylock(mutex: Option<&Mutex>) -> c_int {
    acquire(|| given(mutex, "mutex")?.0.try_lock().ok_or_else(Failure::would_block))
}

/// Like `rowlock_mutex_lock`, but waits at most until `CLOCK_MONOTONIC` reaches `deadline`.
///
/// Returns 0, ETIMEDOUT, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_mutex_lock_until(mutex: Option<&Mutex>, deadline: Option<&libc::timespec>) -> c_int {
    acquire(|| Ok(given(mutex, "mutex")?.0.lock_timeout(argument::until(deadline)?)?))
}

/// Like `rowlock_mutex_lock`, but waits at most this number of nanoseconds.
///
/// Returns 0, ETIMEDOUT, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_mutex_lock_timeout(mutex: Option<&Mutex>, nanoseconds: u64) -> c_int {
    acquire(|| Ok(given(mutex, "mutex")?.0.lock_timeout(Duration::from_nanos(nanoseconds))?))
}

/// Releases the mutex. The calling thread must hold it.
///
/// Returns 0, EPERM if no thread holds it, or EINVAL.
///
/// # Safety
/// If a thread holds the mutex, it is the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_mutex_unlock(mutex: Option<&Mutex>) -> c_int {
    // SAFETY: the caller guarantees it.
    status(|| unsafe { given(mutex, "mutex")?.resume() }.map(drop))
}

/// Stores the counts of all waits so far in `*statistics`.
///
/// Returns 0, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_mutex_statistics(
    mutex: Option<&Mutex>,
    statistics: Option<&mut MaybeUninit<Statistics>>,
) -> c_int {
    status(|| write_statistics(statistics, given(mutex, "mutex")?.0.statistics()))
}
