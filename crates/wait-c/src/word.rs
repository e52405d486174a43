//! Waits on words of the caller.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use wait::{Waiting, word};

use crate::argument::{self, leave};
use crate::failure::{Failure, status};

/// The word behind the pointer, for as long as the call takes.
///
/// # Safety
/// The pointer is null, or points to an aligned word that outlives the call and is changed by atomic operations only.
unsafe fn word<'a>(word: *mut u32) -> Result<&'a AtomicU32, Failure> {
    if word.is_null() {
        return Err(Failure::null("at"));
    }
    if !word.is_aligned() {
        return Err(Failure::invalid("the word is not at a multiple of four"));
    }
    // SAFETY: it is aligned, and the rest the caller says.
    Ok(unsafe { AtomicU32::from_ptr(word) })
}

/// Waits by the adaptive rule until `*at` has another value than `expected`; the value that it has goes to `*value`, unless
/// that is NULL. What was done before that value was stored with release is then visible. Whoever changes the word, by
/// atomic operations only, must call `rowlock_word_wake` afterwards.
///
/// Returns 0, or EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_word_wait(at: *mut u32, expected: u32, value: Option<&mut MaybeUninit<u32>>) -> c_int {
    status(|| {
        // SAFETY: C passes what the documentation asks for.
        leave(value, word::wait(unsafe { word(at) }?, expected, &Waiting::ADAPTIVE));
        Ok(())
    })
}

/// As `rowlock_word_wait`, but no longer than until `CLOCK_MONOTONIC` is at `deadline`.
///
/// Returns 0, ETIMEDOUT, or EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_word_wait_until(
    at: *mut u32,
    expected: u32,
    deadline: Option<&libc::timespec>,
    value: Option<&mut MaybeUninit<u32>>,
) -> c_int {
    status(|| {
        let deadline = argument::deadline(deadline)?;
        // SAFETY: as above.
        leave(value, word::wait_until(unsafe { word(at) }?, expected, deadline, &Waiting::ADAPTIVE)?);
        Ok(())
    })
}

/// As `rowlock_word_wait`, but no longer than so many nanoseconds.
///
/// Returns 0, ETIMEDOUT, or EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_word_wait_timeout(
    at: *mut u32,
    expected: u32,
    nanoseconds: u64,
    value: Option<&mut MaybeUninit<u32>>,
) -> c_int {
    status(|| {
        let timeout = Duration::from_nanos(nanoseconds);
        // SAFETY: as above.
        leave(value, word::wait_timeout(unsafe { word(at) }?, expected, timeout, &Waiting::ADAPTIVE)?);
        Ok(())
    })
}

/// Wakes one of the threads that sleep until `*at` has another value, or all of them, after the caller has changed it.
///
/// Returns 0, or EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_word_wake(at: *mut u32, all: bool) -> c_int {
    status(|| {
        // SAFETY: as above.
        let word = unsafe { word(at) }?;
        if all {
            word::wake_all(word);
        } else {
            word::wake_one(word);
        }
        Ok(())
    })
}
