//! The removal of files and folders when their creator ends, by another process.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::ptr::null_mut;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, setpgid, waitpid};
use rustix::thread::set_name;

use super::keeper::{borrowed, close_all_but, every_signal, exit, now};

/// How long the users of a file or folder may take to end, in nanoseconds, and the time between two
/// attempts to remove it.
const TIMEOUT: i64 = 3_000_000_000;
const INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Removes files and empty folders when this process ends, however that happens, or when the value
/// is dropped. This process may remove them itself before.
#[derive(Debug)]
pub struct Remover {
    /// `None` once it was told to remove.
    lifeline: Option<OwnedFd>,
    process: Pid,
}

impl Remover {
    /// Starts a process that removes the files and folders with these names, each in its folder, in
    /// this order.
    ///
    /// # Errors
    /// If it cannot be started.
    #[expect(clippy::disallowed_methods, reason = "it opens only folders")]
    pub fn new<'a, F: AsFd>(entries: impl IntoIterator<Item = (F, &'a str)>) -> io::Result<Remover> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut folders: Vec<OwnedFd> = Vec::new();
        let mut names: Vec<CString> = Vec::new();
        for (folder, name) in entries {
            folders.push(openat(folder, c".", flags, Mode::empty())?);
            names.push(CString::new(name)?);
        }
        let (end, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut kept: Vec<RawFd> = folders.iter().chain([&end]).map(AsRawFd::as_raw_fd).collect();
        let mut mask = every_signal();
        // SAFETY: the sets are initialized. After the fork of a process that may have several
        // threads, `remove` makes system calls and uses only its own memory: no lock, no
        // allocation.
        let process = unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, every_signal().as_ptr(), mask.as_mut_ptr());
            let process = libc::fork();
            if process == 0 {
                remove(&mut kept, &names);
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

/// Waits for the end of the other process, and removes what has these names. The descriptors are
/// those of their folders and of the pipe that ends with the other process.
#[expect(clippy::disallowed_methods, reason = "removes what its creator has named")]
fn remove(kept: &mut [RawFd], names: &[CString]) -> ! {
    // As a keeper, it outlives whatever kills all processes named rowlock.
    let _ = set_name(c"remover");
    // Out of the group of the other process, which may be killed as a whole.
    let _ = setpgid(None, None);
    let Some(()) = close_all_but(kept) else { exit(1) };
    let [folders @ .., end] = kept else { exit(1) };
    let _ = poll(&mut [PollFd::from_borrowed_fd(borrowed(*end), PollFlags::IN)], None);
    let deadline = now() + TIMEOUT;
    loop {
        // Programs that use them may still be ending.
        let mut all_are_gone = true;
        for (folder, name) in folders.iter().zip(names) {
            let remove = |flags| unlinkat(borrowed(*folder), name.as_c_str(), flags);
            let removed = match remove(AtFlags::empty()) {
                Err(Errno::ISDIR | Errno::PERM) => remove(AtFlags::REMOVEDIR),
                removed => removed,
            };
            all_are_gone &= matches!(removed, Ok(()) | Err(Errno::NOENT));
        }
        if all_are_gone || now() > deadline {
            exit(0);
        }
        // Nothing becomes ready.
        let _ = poll(&mut [], Some(&INTERVAL));
    }
}
