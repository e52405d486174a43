//! Latches.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::time::Duration;

use c_abi::{Failure, Statistics, create_by_rule, given, status, store, write_statistics};

use crate::argument;

/// A latch, at which threads wait until it has been counted down to zero. Then it is open, and all
/// threads pass.
pub struct Latch(wait::Latch);

/// Creates a latch that opens after `count` counts, whose threads wait by this rule (NULL:
/// "adaptive").
///
/// Returns 0, or EINVAL if `latch` is NULL or `rule` is not a rule; then `*latch` is NULL.
///
/// # Safety
/// `rule` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_latch_create(
    latch: Option<&mut MaybeUninit<Option<Box<Latch>>>>,
    count: u32,
    rule: *const c_char,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { create_by_rule(latch, "latch", rule, |waiting| Ok(Latch(wait::Latch::with(count, waiting)))) }
}

/// Frees a latch that no thread uses any more: all calls have returned. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_latch_destroy(latch: Option<Box<Latch>>) {
    drop(latch);
}

/// Counts down by `count`, or by the number of missing counts if that is less. Stores the number of
/// counts that are still missing in `*missing`, unless that is NULL. Never waits.
///
/// Returns 0, or EINVAL if `latch` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_latch_count_down(
    latch: Option<&Latch>,
    count: u32,
    missing: Option<&mut MaybeUninit<u32>>,
) -> c_int {
    store(missing, || Ok(given(latch, "latch")?.0.count_down_by(count)))
}

/// Waits until the latch is open.
///
/// Returns 0, or EINVAL if `latch` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_latch_wait(latch: Option<&Latch>) -> c_int {
    status(|| given(latch, "latch").map(|latch| latch.0.wait()))
}

/// Counts down by one, and waits until the latch is open.
///
/// Returns 0, or EINVAL if `latch` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_latch_arrive_and_wait(latch: Option<&Latch>) -> c_int {
    status(|| given(latch, "latch").map(|latch| latch.0.arrive_and_wait()))
}

/// Passes if the latch is open, without waiting.
///
/// Returns 0, EBUSY if it is not open, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_latch_trywait(latch: Option<&Latch>) -> c_int {
    status(|| given(latch, "latch")?.0.is_open().then_some(()).ok_or_else(Failure::would_block))
}

/// Like `rowlock_latch_wait`, but waits at most until `CLOCK_MONOTONIC` reaches `deadline`.
///
/// Returns 0, ETIMEDOUT, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_latch_wait_until(latch: Option<&Latch>, deadline: Option<&libc::timespec>) -> c_int {
    status(|| Ok(given(latch, "latch")?.0.wait_timeout(argument::until(deadline)?)?))
}

/// Like `rowlock_latch_wait`, but waits at most this number of nanoseconds.
///
/// Returns 0, ETIMEDOUT, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_latch_wait_timeout(latch: Option<&Latch>, nanoseconds: u64) -> c_int {
    status(|| Ok(given(latch, "latch")?.0.wait_timeout(Duration::from_nanos(nanoseconds))?))
}

/// Stores the counts of all waits so far in `*statistics`.
///
/// Returns 0, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_latch_statistics(
    latch: Option<&Latch>,
    statistics: Option<&mut MaybeUninit<Statistics>>,
) -> c_int {
    status(|| write_statistics(statistics, given(latch, "latch")?.0.statistics()))
}
