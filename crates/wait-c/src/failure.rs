//! Failures of calls: an `errno` number and a message.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::fmt::Display;

use wait::TimedOut;

/// The reason why a call has failed.
pub(crate) struct Failure {
    code: c_int,
    message: String,
}

impl Failure {
    fn new(code: c_int, message: impl Display) -> Failure {
        Failure { code, message: message.to_string() }
    }

    pub(crate) fn invalid(message: impl Display) -> Failure {
        Failure::new(libc::EINVAL, message)
    }

    pub(crate) fn null(argument: &str) -> Failure {
        Failure::invalid(format_args!("the argument `{argument}` is a null pointer"))
    }

    pub(crate) fn overflow(message: impl Display) -> Failure {
        Failure::new(libc::EOVERFLOW, message)
    }

    pub(crate) fn not_held(argument: &str) -> Failure {
        Failure::new(libc::EPERM, format_args!("no thread holds the `{argument}` like this"))
    }

    pub(crate) fn would_block() -> Failure {
        Failure::new(libc::EBUSY, "the call would have to wait")
    }
}

impl From<TimedOut> for Failure {
    fn from(why: TimedOut) -> Failure {
        Failure::new(libc::ETIMEDOUT, why)
    }
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// The result of a call: zero or an error number, whose message is stored for [`rowlock_message`].
pub(crate) fn status(call: impl FnOnce() -> Result<(), Failure>) -> c_int {
    match call() {
        Ok(()) => 0,
        Err(Failure { code, message }) => {
            // Our messages contain no null characters. A thread that is ending needs no message.
            let message = CString::new(message).unwrap_or_default();
            let _ = MESSAGE.try_with(|kept| kept.replace(message));
            code
        }
    }
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
    MESSAGE.try_with(|message| message.borrow().as_ptr()).unwrap_or(c"".as_ptr())
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
    fn a_failure_has_a_number_a_description_and_a_message() {
        assert_eq!(status(|| Err(Failure::null("barrier"))), libc::EINVAL);
        assert_eq!(text(rowlock_message()), "the argument `barrier` is a null pointer");
        assert_eq!(status(|| Ok(())), 0);
        assert_eq!(text(rowlock_message()), "the argument `barrier` is a null pointer");
        let meanings = [0, libc::EINVAL, libc::ETIMEDOUT, libc::EBUSY, libc::EOVERFLOW, libc::EPERM, -1];
        let meanings = meanings.map(|code| text(rowlock_strerror(code)));
        assert!(
            meanings.iter().enumerate().all(|(i, meaning)| !meaning.is_empty() && !meanings[..i].contains(meaning))
        );
    }

    #[test]
    fn each_thread_has_its_own_message() {
        status(|| Err(Failure::would_block()));
        std::thread::scope(|scope| scope.spawn(|| assert_eq!(text(rowlock_message()), "")).join().unwrap());
    }
}
