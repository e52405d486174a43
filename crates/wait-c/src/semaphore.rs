//! Semaphores.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::time::Duration;

use c_abi::{Failure, Statistics, create_by_rule, given, status, store, write_statistics};

use crate::argument;
use crate::failure::overflow;

/// A number of permits, which threads acquire and release. A function that changes the number
/// returns the result of that same atomic step.
pub struct Semaphore(wait::Semaphore);

/// Creates a semaphore with `permits` permits, whose threads wait by this rule (NULL: "adaptive").
///
/// Returns 0, or EINVAL if `semaphore` is NULL or `rule` is not a rule; then `*semaphore` is NULL.
///
/// # Safety
/// `rule` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_semaphore_create(
    semaphore: Option<&mut MaybeUninit<Option<Box<Semaphore>>>>,
    permits: u32,
    rule: *const c_char,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe {
        create_by_rule(semaphore, "semaphore", rule, |waiting| Ok(Semaphore(wait::Semaphore::with(permits, waiting))))
    }
}

/// Frees a semaphore that no thread uses any more: all calls have returned. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_semaphore_destroy(semaphore: Option<Box<Semaphore>>) {
    drop(semaphore);
}

/// Waits for a permit and acquires it. Stores the number of permits left in `*left`, unless that is
/// NULL.
///
/// Returns 0, or EINVAL if `semaphore` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_semaphore_down(semaphore: Option<&Semaphore>, left: Option<&mut MaybeUninit<u32>>) -> c_int {
    store(left, || Ok(given(semaphore, "semaphore")?.0.down()))
}

/// Like `rowlock_semaphore_down`, but does not wait.
///
/// Returns 0, EBUSY if there is no permit, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_semaphore_trydown(
    semaphore: Option<&Semaphore>,
    left: Option<&mut MaybeUninit<u32>>,
) -> c_int {
    store(left, || given(semaphore, "semaphore")?.0.try_down().ok_or_else(Failure::would_block))
}

/// Like `rowlock_semaphore_down`, but waits at most until `CLOCK_MONOTONIC` reaches `deadline`.
///
/// Returns 0, ETIMEDOUT, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_semaphore_down_until(
    semaphore: Option<&Semaphore>,
    deadline: Option<&libc::timespec>,
    left: Option<&mut MaybeUninit<u32>>,
) -> c_int {
    store(left, || Ok(given(semaphore, "semaphore")?.0.down_timeout(argument::until(deadline)?)?))
}

/// Like `rowlock_semaphore_down`, but waits at most this number of nanoseconds.
///
/// Returns 0, ETIMEDOUT, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_semaphore_down_timeout(
    semaphore: Option<&Semaphore>,
    nanoseconds: u64,
    left: Option<&mut MaybeUninit<u32>>,
) -> c_int {
    store(left, || Ok(given(semaphore, "semaphore")?.0.down_timeout(Duration::from_nanos(nanoseconds))?))
}

/// Adds a permit. Stores the number of permits in `*permits`, unless that is NULL.
///
/// Returns 0, EOVERFLOW if there are UINT32_MAX, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_semaphore_up(semaphore: Option<&Semaphore>, permits: Option<&mut MaybeUninit<u32>>) -> c_int {
    rowlock_semaphore_up_by(semaphore, 1, permits)
}

/// Like `rowlock_semaphore_up`, with `more` permits in one step. All or none are added.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_semaphore_up_by(
    semaphore: Option<&Semaphore>,
    more: u32,
    permits: Option<&mut MaybeUninit<u32>>,
) -> c_int {
    store(permits, || given(semaphore, "semaphore")?.0.up_by(more).map_err(overflow))
}

/// Stores the current number of permits in `*permits`. It may be out of date immediately.
///
/// Returns 0, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_semaphore_value(
    semaphore: Option<&Semaphore>,
    permits: Option<&mut MaybeUninit<u32>>,
) -> c_int {
    status(|| {
        given(permits, "permits")?.write(given(semaphore, "semaphore")?.0.value());
        Ok(())
    })
}

/// Stores the counts of all waits so far in `*statistics`.
///
/// Returns 0, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_semaphore_statistics(
    semaphore: Option<&Semaphore>,
    statistics: Option<&mut MaybeUninit<Statistics>>,
) -> c_int {
    status(|| write_statistics(statistics, given(semaphore, "semaphore")?.0.statistics()))
}
