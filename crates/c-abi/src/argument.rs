//! Conversion of C arguments to Rust values, and of results to output arguments.
#![allow(unsafe_code)] // Texts of C.

use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;

use wait::Waiting;

use crate::failure::{Failure, status};

/// An output argument of a function.
pub type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// Rejects a null argument.
///
/// # Errors
/// EINVAL, with the name of the argument.
pub fn given<T>(argument: Option<T>, name: &str) -> Result<T, Failure> {
    argument.ok_or_else(|| Failure::null(name))
}

/// Writes a value to an output argument, unless that is null.
pub fn write<T>(out: Out<'_, T>, value: T) {
    if let Some(out) = out {
        out.write(value);
    }
}

/// Writes the result of a call to an output argument, unless that is null.
pub fn store<T>(out: Out<'_, T>, call: impl FnOnce() -> Result<T, Failure>) -> c_int {
    status(|| call().map(|value| write(out, value)))
}

/// Creates an object behind a handle, in the output argument of this name. If that fails, the
/// handle is null.
pub fn create<T>(out: Out<'_, Option<Box<T>>>, name: &str, make: impl FnOnce() -> Result<T, Failure>) -> c_int {
    status(|| {
        let out = given(out.map(|out| out.write(None)), name)?;
        *out = Some(Box::new(make()?));
        Ok(())
    })
}

/// As [`create`], for an object whose threads wait by the rule in this text.
///
/// # Safety
/// As for [`waiting`].
pub unsafe fn create_by_rule<T>(
    out: Out<'_, Option<Box<T>>>,
    name: &str,
    rule: *const c_char,
    make: impl FnOnce(Waiting) -> Result<T, Failure>,
) -> c_int {
    // SAFETY: the caller guarantees it.
    create(out, name, || make(unsafe { waiting(rule) }?))
}

/// How to wait by the rule in this text. Null is the adaptive rule.
///
/// # Errors
/// EINVAL if it is not a rule.
///
/// # Safety
/// The pointer is null or points to a null-terminated text.
pub unsafe fn waiting(rule: *const c_char) -> Result<Waiting, Failure> {
    if rule.is_null() {
        return Ok(Waiting::ADAPTIVE);
    }
    // SAFETY: the caller guarantees it.
    let text = unsafe { CStr::from_ptr(rule) }.to_string_lossy();
    text.parse().map(Waiting::by).map_err(Failure::invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_creation_leaves_a_null_handle() {
        let mut handle = MaybeUninit::new(Some(Box::new(7)));
        let failed = create(Some(&mut handle), "number", || Err(Failure::would_block()));
        // SAFETY: it was initialized above, and again by the call.
        assert_eq!((failed, unsafe { handle.assume_init() }), (libc::EBUSY, None));
        assert_eq!(create(None, "number", || Ok(1)), libc::EINVAL);
    }

    #[test]
    fn a_rule_is_a_text_or_null() {
        // SAFETY: null, and texts that end with a null character.
        unsafe {
            assert!(waiting(std::ptr::null()).is_ok() && waiting(c"2cs+".as_ptr()).is_ok());
            assert!(waiting(c"2cs+ or so".as_ptr()).is_err() && waiting(c"\xff".as_ptr()).is_err());
        }
    }
}
