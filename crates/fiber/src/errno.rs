//! `errno` of the C library.

use std::ffi::c_int;

/// The error of the calling thread's last call of the C library.
pub(crate) fn last_error() -> c_int {
    // SAFETY: it is the calling thread's own.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn set_last_error(error: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = error };
}
