//! How calls fail: a number as `errno` has them, and a message.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::fmt::Display;

use wait::TimedOut;

/// Why a call has failed: what it returns, and what was wrong.
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
        Failure::new(libc::EPERM, format_args!("nobody has the `{argument}` like this"))
    }

    pub(crate) fn would_block() -> Failure {
        Failure::new(libc::EBUSY, "it would have to wait")
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

/// What a call returns: zero, or the number of what went wrong, whose message is kept for [`rowlock_message`].
pub(crate) fn status(call: impl FnOnce() -> Result<(), Failure>) -> c_int {
    match call() {
        Ok(()) => 0,
        Err(Failure { code, message }) => {
            // A message with a zero in it is none of ours; a thread that is ending has no use for one.
            let message = CString::new(message).unwrap_or_default();
            let _ = MESSAGE.try_with(|kept| kept.replace(message));
            code
        }
    }
}

/// What a number that a function of this library returns means, in a few words. Never NULL; the text stays for ever.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_strerror(code: c_int) -> *const c_char {
    let text = match code {
        0 => c"success",
        libc::EINVAL => c"an argument is not valid",
        libc::ETIMEDOUT => c"the deadline passed before the awaited event occurred",
        libc::EBUSY => c"the call would have to wait",
        libc::EOVERFLOW => c"the number would be too large",
        libc::EPERM => c"nobody holds what was to be released",
        _ => c"no error of this library",
    };
    text.as_ptr()
}

/// What the last call of this thread that failed found wrong, with names and numbers; empty if none has failed. Never
/// NULL; the text stays until the next call of this thread that fails.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_message() -> *const c_char {
    MESSAGE.try_with(|message| message.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The text, for tests.
#[cfg(test)]
pub(crate) fn text(pointer: *const c_char) -> String {
    assert!(!pointer.is_null());
    // SAFETY: these functions return a text that ends with a zero and stays until this thread fails again.
    unsafe { std::ffi::CStr::from_ptr(pointer) }.to_str().unwrap().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_a_number_with_a_meaning_and_a_message() {
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
