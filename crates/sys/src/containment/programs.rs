//! Whether programs of this process are left after it was killed: its keepers, and it itself, hold
//! the end of a pipe for writing, to which nothing is ever written. So the pipe ends when the last
//! of them has ended, beside any load.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

/// The ends of the pipe. They last as long as this process, so a keeper finds them without a lock.
static PIPE: OnceLock<(OwnedFd, OwnedFd)> = OnceLock::new();

/// The end that ends with this process and its programs. Those that were started before the first
/// call do not count.
pub(super) fn end() -> io::Result<BorrowedFd<'static>> {
    if let Some((end, _)) = PIPE.get() {
        return Ok(end.as_fd());
    }
    let pipe = pipe_with(PipeFlags::CLOEXEC)?;
    Ok(PIPE.get_or_init(|| pipe).0.as_fd())
}

/// The end that this process and its keepers hold. `None` if nothing has asked for the other one.
pub(super) fn held() -> Option<BorrowedFd<'static>> {
    PIPE.get().map(|(_, held)| held.as_fd())
}

/// Whether the process and its programs have ended. Makes one system call.
pub(super) fn have_ended(end: BorrowedFd<'_>) -> bool {
    let mut ended = [PollFd::from_borrowed_fd(end, PollFlags::IN)];
    poll(&mut ended, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ended| ended > 0)
}
