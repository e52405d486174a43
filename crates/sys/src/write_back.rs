//! Write-back: what has been written to a file, but lies in the page cache yet, is sent to the disk a part at a time (`sync_file_range`).
//!
//! This says nothing of a file's length and place on the disk: what has to be durable needs `fsync` besides.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Begins to send this part to the disk, and does not wait for it, except where the device's queue is full.
///
/// # Errors
/// The kernel's, such as that an earlier attempt to write failed: nobody else is told of that then. Where a file system knows no such
/// thing, nothing happens.
pub fn begin(file: impl AsFd, place: u64, length: u64) -> io::Result<()> {
    sync_file_range(file, place, length, libc::SYNC_FILE_RANGE_WRITE)
}

/// Sends this part to the disk, and waits until it is there.
///
/// # Errors
/// As [`begin`].
pub fn complete(file: impl AsFd, place: u64, length: u64) -> io::Result<()> {
    let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    sync_file_range(file, place, length, all)
}

fn sync_file_range(file: impl AsFd, place: u64, length: u64, how: libc::c_uint) -> io::Result<()> {
    let (Ok(place), Ok(length)) = (place.try_into(), length.try_into()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    loop {
        // SAFETY: the file is open as long as it is borrowed; the call has no pointers.
        if unsafe { libc::sync_file_range(file.as_fd().as_raw_fd(), place, length, how) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::ESPIPE | libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP) => return Ok(()),
            _ => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_part_of_a_file_is_written_back_and_what_has_no_parts_is_left_alone() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 10_000]).unwrap();
        begin(&file, 0, 4096).unwrap();
        complete(&file, 0, 10_000).unwrap();
        let (_reader, writer) = io::pipe().unwrap();
        begin(&writer, 0, 4096).unwrap();
        assert!(begin(&file, u64::MAX, 1).is_err());
    }
}
