//! Write-back: sends dirty pages of a range of a file to the disk (`sync_file_range`).
//!
//! Durability also needs the length of the file and its place on the disk, which `fsync` writes.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::{Errno, retry_on_intr};

use crate::errno;

/// Starts to write this range to the disk. Waits only if the queue of the device is full. Returns
/// the error of the kernel, which may be that of an earlier write that failed and is reported only
/// once. Does nothing on file systems that do not support it.
pub fn begin(file: impl AsFd, place: u64, length: u64) -> io::Result<()> {
    sync_file_range(file, place, length, libc::SYNC_FILE_RANGE_WRITE)
}

/// Writes this range to the disk, and waits for completion.
pub fn complete(file: impl AsFd, place: u64, length: u64) -> io::Result<()> {
    let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    sync_file_range(file, place, length, all)
}

fn sync_file_range(file: impl AsFd, place: u64, length: u64, how: libc::c_uint) -> io::Result<()> {
    let (Ok(place), Ok(length)) = (place.try_into(), length.try_into()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // SAFETY: the file is open as long as it is borrowed; the call takes no pointers.
    let sync = || errno::check(unsafe { libc::sync_file_range(file.as_fd().as_raw_fd(), place, length, how) });
    match retry_on_intr(sync) {
        Ok(_) | Err(Errno::SPIPE | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_range_of_a_file_is_written_back_and_a_pipe_is_ignored() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 10_000]).unwrap();
        begin(&file, 0, 4096).unwrap();
        complete(&file, 0, 10_000).unwrap();
        let (_reader, writer) = io::pipe().unwrap();
        begin(&writer, 0, 4096).unwrap();
        assert!(begin(&file, u64::MAX, 1).is_err());
    }
}
