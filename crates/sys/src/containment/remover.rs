//! The removal of a folder when its creator ends, by another process.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::null_mut;
use std::time::Duration;

use rustix::event::{Timespec, poll};
use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, unlinkat};
use rustix::io::{read, retry_on_intr, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, geteuid, setsid, waitpid};
use rustix::thread::set_name;

use super::keeper::{close_all_but, every_signal, exit, now};
use crate::files::remove_unused;

/// How long the users of a folder may take to end, and the time between two attempts to remove it.
const TIMEOUT: Duration = Duration::from_secs(3);
const INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Removes a folder when this process ends, however that happens, or when the value is dropped.
/// This process may remove it itself before.
#[derive(Debug)]
pub struct Remover {
    /// `None` once it was told to remove.
    lifeline: Option<OwnedFd>,
    /// The end of the lifeline that the other process reads. Here, it lets this one write.
    _end: OwnedFd,
    process: Pid,
}

impl Remover {
    /// Starts a process that removes the folder with this name in another one, with these files. It
    /// need not exist yet.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn new(within: impl AsFd, name: &str, files: &[&str]) -> io::Result<Remover> {
        let name = CString::new(name)?;
        let files: Vec<CString> = files.iter().map(|file| CString::new(*file)).collect::<Result<_, _>>()?;
        Remover::start(within.as_fd(), TIMEOUT, |within| remove_once(within, &name, &files))
    }

    /// Starts a process that removes a shared folder, if no other process uses it at that time. It
    /// need not exist yet.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn of_shared(within: impl AsFd, name: &CStr) -> io::Result<Remover> {
        Remover::start(within.as_fd(), TIMEOUT, |within| remove_unused(within, name))
    }

    /// The attempt is repeated until it returns true, or this time has passed. It makes system
    /// calls and uses only its own memory: no lock, no allocation.
    pub(super) fn start(
        within: BorrowedFd<'_>,
        timeout: Duration,
        attempt: impl Fn(BorrowedFd<'_>) -> bool,
    ) -> io::Result<Remover> {
        let (end, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut mask = every_signal();
        // SAFETY: the sets are initialized. After the fork of a process that may have several
        // threads, `remove` makes system calls and uses only its own memory, as does the attempt.
        let (process, why) = unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, every_signal().as_ptr(), mask.as_mut_ptr());
            let process = libc::fork();
            if process == 0 {
                remove(within, end.as_fd(), timeout, attempt);
            }
            let why = io::Error::last_os_error();
            libc::pthread_sigmask(libc::SIG_SETMASK, mask.as_ptr(), null_mut());
            (process, why)
        };
        match Pid::from_raw(process.max(0)) {
            Some(process) => Ok(Remover { lifeline: Some(lifeline), _end: end, process }),
            None => Err(why),
        }
    }

    /// Ends the other process, which removes nothing.
    pub(crate) fn dismiss(self) {
        // If the other process was killed, this fails, and there is nothing to end.
        let _ = self.lifeline.as_ref().map(|lifeline| retry_on_intr(|| write(lifeline, &[0])));
    }
}

impl Drop for Remover {
    /// Removes the paths, and waits for that.
    fn drop(&mut self) {
        self.lifeline = None;
        let _ = retry_on_intr(|| waitpid(Some(self.process), WaitOptions::empty()));
    }
}

/// Waits for the end of the other process, and removes the folder, unless it is told not to. The
/// descriptors are those of the folder around it and of the pipe that ends with the other process.
fn remove(
    within: BorrowedFd<'_>,
    end: BorrowedFd<'_>,
    timeout: Duration,
    attempt: impl Fn(BorrowedFd<'_>) -> bool,
) -> ! {
    // As a keeper, it outlives whatever kills all processes named rowlock.
    let _ = set_name(c"remover");
    // Out of the group and the session of the other process, which may be killed as a whole.
    let _ = setsid();
    close_all_but([within, end]);
    let is_dismissed = retry_on_intr(|| read(end, &mut [0_u8])) != Ok(0);
    let deadline = now() + timeout.as_nanos() as i64;
    // Programs that use it may still be ending.
    while !is_dismissed && !attempt(within) && now() < deadline {
        // Nothing becomes ready.
        let _ = poll(&mut [], Some(&INTERVAL));
    }
    exit(0)
}

/// Removes a folder of this user. Returns whether there is none any more.
#[expect(clippy::disallowed_methods, reason = "removes what its creator has named")]
fn remove_once(within: BorrowedFd<'_>, name: &CStr, files: &[CString]) -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(folder) = openat(within, name, flags, Mode::empty()) else { return true };
    if !fstat(&folder).is_ok_and(|about| about.st_uid == geteuid().as_raw()) {
        return true;
    }
    for file in files {
        let _ = unlinkat(&folder, file.as_c_str(), AtFlags::empty());
    }
    unlinkat(within, name, AtFlags::REMOVEDIR).is_ok()
}
