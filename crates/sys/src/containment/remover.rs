//! The removal of a folder when its creator ends, by another process.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::null_mut;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, unlinkat};
use rustix::io::retry_on_intr;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, geteuid, setpgid, waitpid};
use rustix::thread::set_name;

use super::keeper::{close_all_but, every_signal, exit, now};

/// How long the users of a folder may take to end, in nanoseconds, and the time between two
/// attempts to remove it.
const TIMEOUT: i64 = 3_000_000_000;
const INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Removes a folder when this process ends, however that happens, or when the value is dropped.
/// This process may remove it itself before.
#[derive(Debug)]
pub struct Remover {
    /// `None` once it was told to remove.
    lifeline: Option<OwnedFd>,
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
        let (end, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut mask = every_signal();
        // SAFETY: the sets are initialized. After the fork of a process that may have several
        // threads, `remove` makes system calls and uses only its own memory: no lock, no
        // allocation.
        let process = unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, every_signal().as_ptr(), mask.as_mut_ptr());
            let process = libc::fork();
            if process == 0 {
                remove(within.as_fd(), end.as_fd(), &name, &files);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, mask.as_ptr(), null_mut());
            process
        };
        match Pid::from_raw(process) {
            Some(started) if process > 0 => Ok(Remover { lifeline: Some(lifeline), process: started }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Remover {
    /// Removes the paths, and waits for that.
    fn drop(&mut self) {
        self.lifeline = None;
        let _ = retry_on_intr(|| waitpid(Some(self.process), WaitOptions::empty()));
    }
}

/// Waits for the end of the other process, and removes the folder. The descriptors are those of the
/// folder around it and of the pipe that ends with the other process.
fn remove(within: BorrowedFd<'_>, end: BorrowedFd<'_>, name: &CStr, files: &[CString]) -> ! {
    // As a keeper, it outlives whatever kills all processes named rowlock.
    let _ = set_name(c"remover");
    // Out of the group of the other process, which may be killed as a whole.
    let _ = setpgid(None, None);
    close_all_but([within, end]);
    let _ = poll(&mut [PollFd::from_borrowed_fd(end, PollFlags::IN)], None);
    let deadline = now() + TIMEOUT;
    // Programs that use it may still be ending.
    while !remove_once(within, name, files) && now() < deadline {
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
