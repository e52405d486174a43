//! Results of C functions that return -1 and set `errno` if they fail.

use std::io;

use rustix::io::Errno;

/// The result, or the error if there was one.
pub(crate) fn check(result: impl Into<libc::c_long>) -> Result<libc::c_long, Errno> {
    match result.into() {
        result @ 0.. => Ok(result),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}
