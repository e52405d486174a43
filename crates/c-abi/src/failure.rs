//! Failures of calls: an `errno` number and a message.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::fmt::Display;

use wait::TimedOut;

/// The reason why a call has failed.
#[derive(Debug)]
pub struct Failure {
    code: c_int,
    message: String,
}

impl Failure {
    /// A failure with this number, which is not zero.
    pub fn new(code: c_int, message: impl Display) -> Failure {
        Failure { code, message: message.to_string() }
    }

    /// An argument is not valid.
    pub fn invalid(message: impl Display) -> Failure {
        Failure::new(libc::EINVAL, message)
    }

    /// The argument of this name is null.
    pub fn null(argument: &str) -> Failure {
        Failure::invalid(format_args!("the argument `{argument}` is a null pointer"))
    }

    /// A call that does not wait would have to.
    pub fn would_block() -> Failure {
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

/// The result of a call: zero or an error number, whose message is kept for [`message`].
pub fn status(call: impl FnOnce() -> Result<(), Failure>) -> c_int {
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

/// The message of the last failed call of this thread. Never null, and valid until the next one.
pub fn message() -> *const c_char {
    MESSAGE.try_with(|message| message.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    #![allow(unsafe_code)] // Texts of C.
    use super::*;

    fn text() -> String {
        // SAFETY: the message is a null-terminated text until the next failure of this thread.
        unsafe { std::ffi::CStr::from_ptr(message()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_failure_has_a_number_and_a_message_that_stays_until_the_next_one() {
        assert_eq!(status(|| Err(Failure::null("barrier"))), libc::EINVAL);
        assert_eq!(text(), "the argument `barrier` is a null pointer");
        assert_eq!(status(|| Ok(())), 0);
        assert_eq!(text(), "the argument `barrier` is a null pointer");
    }

    #[test]
    fn each_thread_has_its_own_message() {
        status(|| Err(Failure::would_block()));
        std::thread::scope(|scope| scope.spawn(|| assert_eq!(text(), "")).join().unwrap());
    }
}
