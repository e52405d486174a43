//! Reader-writer locks.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::time::Duration;

use c_abi::{Failure, Statistics, create_by_rule, given, status, write_statistics};

use crate::argument::{self, acquire};
use crate::failure::not_held;

/// A reader-writer lock, held by many threads as readers or by one as a writer.
pub struct RwLock(wait::RwLock<()>);

/// Creates a free lock, whose threads wait by this rule (NULL: "adaptive").
///
/// Returns 0, or EINVAL if `rwlock` is NULL or `rule` is not a rule; then `*rwlock` is NULL.
///
/// # Safety
/// `rule` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_rwlock_create(
    rwlock: Option<&mut MaybeUninit<Option<Box<RwLock>>>>,
    rule: *const c_char,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { create_by_rule(rwlock, "rwlock", rule, |waiting| Ok(RwLock(wait::RwLock::with((), waiting)))) }
}

/// Frees a lock that no thread holds or waits for. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_rwlock_destroy(rwlock: Option<Box<RwLock>>) {
    drop(rwlock);
}

/// Waits until the calling thread holds the lock as a reader.
///
/// Returns 0, or EINVAL if `rwlock` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_rwlock_rdlock(rwlock: Option<&RwLock>) -> c_int {
    acquire(|| Ok(given(rwlock, "rwlock")?.0.read()))
}

/// Acquires the lock as a reader if that is possible immediately, without waiting.
///
/// Returns 0, EBUSY if it is not possible, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_rwlock_tryrdlock(rwlock: Option<&RwLock>) -> c_int {
    acquire(|| given(rwlock, "rwlock")?.0.try_read().ok_or_else(Failure::would_block))
}

/// Like `rowlock_rwlock_rdlock`, but waits at most until `CLOCK_MONOTONIC` reaches `deadline`.
///
/// Returns 0, ETIMEDOUT, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_rwlock_rdlock_until(rwlock: Option<&RwLock>, deadline: Option<&libc::timespec>) -> c_int {
    acquire(|| Ok(given(rwlock, "rwlock")?.0.read_timeout(argument::until(deadline)?)?))
}

/// Like `rowlock_rwlock_rdlock`, but waits at most this number of nanoseconds.
///
/// Returns 0, ETIMEDOUT, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_rwlock_rdlock_timeout(rwlock: Option<&RwLock>, nanoseconds: u64) -> c_int {
    acquire(|| Ok(given(rwlock, "rwlock")?.0.read_timeout(Duration::from_nanos(nanoseconds))?))
}

/// Releases the lock, which the calling thread must hold as a reader.
///
/// Returns 0, EPERM if no thread holds it as a reader, or EINVAL.
///
/// # Safety
/// If threads hold the lock as readers, the calling thread is one of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_rwlock_rdunlock(rwlock: Option<&RwLock>) -> c_int {
    // SAFETY: the caller guarantees it. All guards are forgotten.
    let unlock = |lock: &RwLock| unsafe { lock.0.resume_read() }.map(drop);
    status(|| unlock(given(rwlock, "rwlock")?).ok_or_else(|| not_held("rwlock")))
}

/// Waits until the calling thread holds the lock as a writer. Waits forever if it holds the lock
/// already.
///
/// Returns 0, or EINVAL if `rwlock` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_rwlock_wrlock(rwlock: Option<&RwLock>) -> c_int {
    acquire(|| Ok(given(rwlock, "rwlock")?.0.write()))
}

/// Acquires the lock as a writer if that is possible immediately, without waiting.
///
/// Returns 0, EBUSY if it is not possible, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_rwlock_trywrlock(rwlock: Option<&RwLock>) -> c_int {
    acquire(|| given(rwlock, "rwlock")?.0.try_write().ok_or_else(Failure::would_block))
}

/// Like `rowlock_rwlock_wrlock`, but waits at most until `CLOCK_MONOTONIC` reaches `deadline`.
///
/// Returns 0, ETIMEDOUT, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_rwlock_wrlock_until(rwlock: Option<&RwLock>, deadline: Option<&libc::timespec>) -> c_int {
    acquire(|| Ok(given(rwlock, "rwlock")?.0.write_timeout(argument::until(deadline)?)?))
}

/// Like `rowlock_rwlock_wrlock`, but waits at most this number of nanoseconds.
///
/// Returns 0, ETIMEDOUT, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_rwlock_wrlock_timeout(rwlock: Option<&RwLock>, nanoseconds: u64) -> c_int {
    acquire(|| Ok(given(rwlock, "rwlock")?.0.write_timeout(Duration::from_nanos(nanoseconds))?))
}

/// Releases the lock, which the calling thread must hold as a writer.
///
/// Returns 0, EPERM if no thread holds it as a writer, or EINVAL.
///
/// # Safety
/// If a thread holds the lock as a writer, it is the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_rwlock_wrunlock(rwlock: Option<&RwLock>) -> c_int {
    // SAFETY: the caller guarantees it. All guards are forgotten.
    let unlock = |lock: &RwLock| unsafe { lock.0.resume_write() }.map(drop);
    status(|| unlock(given(rwlock, "rwlock")?).ok_or_else(|| not_held("rwlock")))
}

/// Stores the counts of all waits so far in `*statistics`.
///
/// Returns 0, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_rwlock_statistics(
    rwlock: Option<&RwLock>,
    statistics: Option<&mut MaybeUninit<Statistics>>,
) -> c_int {
    status(|| write_statistics(statistics, given(rwlock, "rwlock")?.0.statistics()))
}
