//! Waits on words of the caller.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use c_abi::{Failure, status, store};
use wait::{Waiting, word};

use crate::argument;

/// The word behind the pointer, for the duration of the call.
///
/// # Safety
/// The pointer is null, or points to a word that outlives the call and is changed only by atomic
/// operations.
unsafe fn word<'a>(word: *mut u32) -> Result<&'a AtomicU32, Failure> {
    if word.is_null() {
        return Err(Failure::null("at"));
    }
    if !word.is_aligned() {
        return Err(Failure::invalid("the word is not aligned to four bytes"));
    }
    // SAFETY: it is aligned, and the caller guarantees the rest.
    Ok(unsafe { AtomicU32::from_ptr(word) })
}

/// Waits by the adaptive rule until `*at` differs from `expected`. Stores its value in `*value`,
/// unless that is NULL. Everything done before a release store of that value is visible. A
/// thread that changes the word must do so by atomic operations, and call `rowlock_word_wake`
/// afterwards.
///
/// Returns 0, or EINVAL.
///
/// # Safety
/// `at` is null, or points to a word that outlives the call and is changed only by atomic
/// operations.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_word_wait(at: *mut u32, expected: u32, value: Option<&mut MaybeUninit<u32>>) -> c_int {
    // SAFETY: the caller guarantees it.
    store(value, || Ok(word::wait(unsafe { word(at) }?, expected, &Waiting::ADAPTIVE)))
}

/// Like `rowlock_word_wait`, but waits at most until `CLOCK_MONOTONIC` reaches `deadline`.
///
/// Returns 0, ETIMEDOUT, or EINVAL.
///
/// # Safety
/// As for `rowlock_word_wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_word_wait_until(
    at: *mut u32,
    expected: u32,
    deadline: Option<&libc::timespec>,
    value: Option<&mut MaybeUninit<u32>>,
) -> c_int {
    store(value, || {
        let deadline = argument::until(deadline)?;
        // SAFETY: as above.
        Ok(word::wait_timeout(unsafe { word(at) }?, expected, deadline, &Waiting::ADAPTIVE)?)
    })
}

/// Like `rowlock_word_wait`, but waits at most this number of nanoseconds.
///
/// Returns 0, ETIMEDOUT, or EINVAL.
///
/// # Safety
/// As for `rowlock_word_wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_word_wait_timeout(
    at: *mut u32,
    expected: u32,
    nanoseconds: u64,
    value: Option<&mut MaybeUninit<u32>>,
) -> c_int {
    let timeout = Duration::from_nanos(nanoseconds);
    // SAFETY: as above.
    store(value, || Ok(word::wait_timeout(unsafe { word(at) }?, expected, timeout, &Waiting::ADAPTIVE)?))
}

/// Wakes one of the threads that sleep until `*at` changes, or all of them. The caller has changed
/// it.
///
/// Returns 0, or EINVAL.
///
/// # Safety
/// As for `rowlock_word_wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_word_wake(at: *mut u32, all: bool) -> c_int {
    // SAFETY: as above.
    status(|| unsafe { word(at) }.map(if all { word::wake_all } else { word::wake_one }))
}
