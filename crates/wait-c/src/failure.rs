//! The failures of this library, and what C learns of them.

use std::ffi::{c_char, c_int};
use std::fmt::Display;

use c_abi::Failure;

pub(crate) fn overflow(message: impl Display) -> Failure {
    Failure::new(libc::EOVERFLOW, message)
}

pub(crate) fn not_held(argument: &str) -> Failure {
    Failure::new(libc::EPERM, format_args!("no thread holds the `{argument}` like this"))
}

/// A short description of a number that a function of this library returns. Never NULL. The text
/// remains valid forever.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_strerror(code: c_int) -> *const c_char {
    let text = match code {
        0 => c"success",
        libc::EINVAL => c"an argument is not valid",
        libc::ETIMEDOUT => c"the deadline passed before the awaited event occurred",
        libc::EBUSY => c"the call would have to wait",
        libc::EOVERFLOW => c"the number would be too large",
        libc::EPERM => c"no thread holds the lock",
        _ => c"not an error of this library",
    };
    text.as_ptr()
}

/// A message about the last failed call of this thread, with names and numbers. Empty if no call
/// has failed. Never NULL. The text remains valid until the next failed call of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_message() -> *const c_char {
    c_abi::message()
}

/// The text, for tests.
#[cfg(test)]
pub(crate) fn text(pointer: *const c_char) -> String {
    assert!(!pointer.is_null());
    // SAFETY: these functions return a null-terminated text that is valid until the next failure of
    // this thread.
    unsafe { std::ffi::CStr::from_ptr(pointer) }.to_str().unwrap().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_a_description() {
        assert_eq!(c_abi::status(|| Err(not_held("mutex"))), libc::EPERM);
        assert_eq!(text(rowlock_message()), "no thread holds the `mutex` like this");
        let meanings = [0, libc::EINVAL, libc::ETIMEDOUT, libc::EBUSY, libc::EOVERFLOW, libc::EPERM, -1];
        let meanings = meanings.map(|code| text(rowlock_strerror(code)));
        assert!(
            meanings.iter().enumerate().all(|(i, meaning)| !meaning.is_empty() && !meanings[..i].contains(meaning))
        );
    }
}
