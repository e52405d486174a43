//! Condition variables.

use std::ffi::{c_char, c_int};
use std::mem::{self, MaybeUninit};
use std::time::Duration;

use c_abi::{Failure, Statistics, create_by_rule, given, status, write_statistics};
use wait::TimedOut;

use crate::argument::{self, acquire};
use crate::mutex::Mutex;

/// A condition variable: threads that hold a mutex wait until they are notified of a change.
///
/// A wait may end spuriously, so a thread must check its condition in a loop.
pub struct Condvar(wait::Condvar);

/// Creates a condition variable whose threads wait by this rule (NULL: "adaptive").
///
/// Returns 0, or EINVAL if `condvar` is NULL or `rule` is not a rule; then `*condvar` is NULL.
///
/// # Safety
/// `rule` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_condvar_create(
    condvar: Option<&mut MaybeUninit<Option<Box<Condvar>>>>,
    rule: *const c_char,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { create_by_rule(condvar, "condvar", rule, |waiting| Ok(Condvar(wait::Condvar::with(waiting)))) }
}

/// Frees a condition variable that no thread uses any more: all calls have returned. NULL is
/// allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_condvar_destroy(condvar: Option<Box<Condvar>>) {
    drop(condvar);
}

/// Releases the mutex, which the calling thread must hold, waits for a notification, and acquires
/// the mutex again.
///
/// Returns 0, EPERM if no thread holds the mutex, or EINVAL if an argument is NULL.
///
/// # Safety
/// If a thread holds the mutex, it is the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_condvar_wait(condvar: Option<&Condvar>, mutex: Option<&Mutex>) -> c_int {
    acquire(|| {
        let condvar = given(condvar, "condvar")?;
        // SAFETY: the caller guarantees it.
        let guard = unsafe { given(mutex, "mutex")?.resume() }?;
        Ok(condvar.0.wait(guard))
    })
}

/// Like `rowlock_condvar_wait`, but waits at most until `CLOCK_MONOTONIC` reaches `deadline`. The
/// calling thread always acquires the mutex again, however long that takes.
///
/// Returns 0, ETIMEDOUT, EPERM, or EINVAL.
///
/// # Safety
/// If a thread holds the mutex, it is the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_condvar_wait_until(
    condvar: Option<&Condvar>,
    mutex: Option<&Mutex>,
    deadline: Option<&libc::timespec>,
) -> c_int {
    status(|| {
        let (condvar, deadline) = (given(condvar, "condvar")?, argument::until(deadline)?);
        // SAFETY: as above.
        unsafe { wait_timeout(condvar, mutex, deadline) }
    })
}

/// Like `rowlock_condvar_wait_until`, with a timeout in nanoseconds that begins now.
///
/// # Safety
/// If a thread holds the mutex, it is the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_condvar_wait_timeout(
    condvar: Option<&Condvar>,
    mutex: Option<&Mutex>,
    nanoseconds: u64,
) -> c_int {
    status(|| {
        // SAFETY: as above.
        unsafe { wait_timeout(given(condvar, "condvar")?, mutex, Duration::from_nanos(nanoseconds)) }
    })
}

/// # Safety
/// The calling thread holds the mutex, if that is given.
unsafe fn wait_timeout(condvar: &Condvar, mutex: Option<&Mutex>, timeout: Duration) -> Result<(), Failure> {
    // SAFETY: the caller guarantees it.
    let guard = unsafe { given(mutex, "mutex")?.resume() }?;
    let (guard, result) = condvar.0.wait_timeout(guard, timeout);
    mem::forget(guard);
    if result.timed_out() { Err(TimedOut.into()) } else { Ok(()) }
}

/// Wakes the thread that has waited longest. Waits for no other thread, except for one that begins
/// or ends a wait, or notifies, in the same moment.
///
/// Returns 0, or EINVAL if `condvar` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_condvar_signal(condvar: Option<&Condvar>) -> c_int {
    status(|| given(condvar, "condvar").map(|condvar| condvar.0.notify_one()))
}

/// Wakes all waiting threads. Waits for no other thread, like `rowlock_condvar_signal`.
///
/// Returns 0, or EINVAL if `condvar` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_condvar_broadcast(condvar: Option<&Condvar>) -> c_int {
    status(|| given(condvar, "condvar").map(|condvar| condvar.0.notify_all()))
}

/// Stores the counts of all waits so far in `*statistics`, excluding the waits for the mutex.
///
/// Returns 0, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_condvar_statistics(
    condvar: Option<&Condvar>,
    statistics: Option<&mut MaybeUninit<Statistics>>,
) -> c_int {
    status(|| write_statistics(statistics, given(condvar, "condvar")?.0.statistics()))
}
