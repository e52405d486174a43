//! Tells whether a process and its programs have ended.
//!
//! The process and its keepers hold the writing end of a pipe, and write nothing. So the pipe ends
//! when the last of them has ended, however long that takes beside other load.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

/// The ends of the pipe. They last as long as this process, so a keeper finds them without a lock.
static PIPE: OnceLock<(OwnedFd, OwnedFd)> = OnceLock::new();

/// The reading end of the pipe. Programs that were started before the first call do not count.
pub(super) fn end() -> io::Result<BorrowedFd<'static>> {
    if let Some((end, _)) = PIPE.get() {
        return Ok(end.as_fd());
    }
    let pipe = pipe_with(PipeFlags::CLOEXEC)?;
    Ok(PIPE.get_or_init(|| pipe).0.as_fd())
}

/// The writing end. `None` if there was no call of [`end`].
pub(super) fn held() -> Option<BorrowedFd<'static>> {
    PIPE.get().map(|(_, held)| held.as_fd())
}

/// Whether the process and its programs have ended. Makes one system call.
pub(super) fn have_ended(end: BorrowedFd<'_>) -> bool {
    let mut ended = [PollFd::from_borrowed_fd(end, PollFlags::IN)];
    poll(&mut ended, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ended| ended > 0)
}
