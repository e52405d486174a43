//! Latches.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::time::Duration;

use crate::argument::{self, create, given};
use crate::failure::{Failure, status};
use crate::statistics::{Statistics, leave_statistics};

/// Threads wait at it until it has been counted down to zero, once; then it is open, and everybody passes.
pub struct Latch(wait::Latch);

/// Makes a latch that opens after so many counts, whose waiters go by this rule (NULL: "adaptive").
///
/// Returns 0, or EINVAL if `latch` is NULL or `rule` is not a rule; then `*latch` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_latch_create(
    latch: Option<&mut MaybeUninit<Option<Box<Latch>>>>,
    count: u32,
    rule: *const c_char,
) -> c_int {
    status(|| {
        create(latch, "latch", || {
            // SAFETY: C passes a text or NULL.
            let waiting = unsafe { argument::waiting(rule) }?;
            Ok(Latch(wait::Latch::with(count, waiting)))
        })
    })
}

/// Frees a latch that no thread uses any more: all calls have returned. NULL is fine.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_latch_destroy(latch: Option<Box<Latch>>) {
    drop(latch);
}

/// Counts so many down, at most as many as are missing. How many still are goes to `*missing`, unless that is NULL. Never
/// waits.
///
/// Returns 0, or EINVAL if `latch` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_latch_count_down(
    latch: Option<&Latch>,
    count: u32,
    missing: Option<&mut MaybeUninit<u32>>,
) -> c_int {
    status(|| {
        argument::leave(missing, given(latch, "latch")?.0.count_down_by(count));
        Ok(())
    })
}

/// Waits until the latch is open.
///
/// Returns 0, or EINVAL if `latch` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_latch_wait(latch: Option<&Latch>) -> c_int {
    status(|| {
        given(latch, "latch")?.0.wait();
        Ok(())
    })
}

/// Counts one down, and waits until the latch is open.
///
/// Returns 0, or EINVAL if `latch` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_latch_arrive_and_wait(latch: Option<&Latch>) -> c_int {
    status(|| {
        given(latch, "latch")?.0.arrive_and_wait();
        Ok(())
    })
}

/// Passes if the latch is open, and does not wait.
///
/// Returns 0, EBUSY if it is not open, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_latch_trywait(latch: Option<&Latch>) -> c_int {
    status(|| given(latch, "latch")?.0.is_open().then_some(()).ok_or_else(Failure::would_block))
}

/// As `rowlock_latch_wait`, but no longer than until `CLOCK_MONOTONIC` is at `deadline`.
///
/// Returns 0, ETIMEDOUT, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_latch_wait_until(latch: Option<&Latch>, deadline: Option<&libc::timespec>) -> c_int {
    status(|| Ok(given(latch, "latch")?.0.wait_until(argument::deadline(deadline)?)?))
}

/// As `rowlock_latch_wait`, but no longer than so many nanoseconds.
///
/// Returns 0, ETIMEDOUT, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_latch_wait_timeout(latch: Option<&Latch>, nanoseconds: u64) -> c_int {
    status(|| Ok(given(latch, "latch")?.0.wait_timeout(Duration::from_nanos(nanoseconds))?))
}

/// What waiting at it has come to goes to `*statistics`.
///
/// Returns 0, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_latch_statistics(
    latch: Option<&Latch>,
    statistics: Option<&mut MaybeUninit<Statistics>>,
) -> c_int {
    status(|| leave_statistics(statistics, given(latch, "latch")?.0.statistics()))
}
