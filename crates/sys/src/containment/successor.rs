//! The successor of a process: another one, which acts when that one ends. It removes folders and
//! control groups, and lets programs go on that were stopped.

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::time::Duration;

use rustix::event::{Timespec, poll};
use rustix::io::{read, retry_on_intr, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, getpid, getppid, setsid, waitpid};
use rustix::thread::set_name;

use super::keeper::{NANOS, close_all_but, every_signal, exit, now};
use super::programs;
use crate::files::{DEPTH, empty, remove_files, remove_folder, remove_unused};

/// The orders to a successor.
const DISMISS: u8 = 0;
const ACT: u8 = 1;
/// How long the users of a folder may take to end.
const TIMEOUT: Duration = Duration::from_secs(3);
/// How long programs may still create files, at least, after the process that has started them was
/// killed. Their keepers kill them after a second.
const LAST_START: Duration = Duration::from_millis(1500);
/// How long they may do so at most, beside much load.
const LONGEST: Duration = Duration::from_secs(60);
/// The shortest time between two attempts to remove it, in nanoseconds.
const INTERVAL: i64 = 10_000_000;

/// Acts when this process ends, however that happens, or when the value is dropped, in a process of
/// its own.
#[derive(Debug)]
pub struct Successor {
    /// The orders. `None` after the last one.
    lifeline: Option<OwnedFd>,
    /// The end of the lifeline that the other process reads. Here, it lets this one write.
    _end: OwnedFd,
    process: Pid,
}

impl Successor {
    /// Starts a process that removes the folder with this name in another one, with these files. It
    /// need not exist yet, and this process may remove it before.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn removing(within: impl AsFd, name: &str, files: &[&str]) -> io::Result<Successor> {
        let (within, name) = (within.as_fd(), CString::new(name)?);
        let files: Vec<CString> = files.iter().map(|file| CString::new(*file)).collect::<Result<_, _>>()?;
        let remove = |_| remove_folder(within, &name, |folder| remove_files(folder, &files));
        Successor::start(&[within], [TIMEOUT; 2], remove)
    }

    /// Starts a process that removes the folder with this name in another one, with all that it
    /// contains. It need not exist yet, and this process may remove it before. If this process is
    /// killed, programs that it starts after this call take a moment to end, and might create the
    /// folder again. So it is removed until they have ended.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn removing_anything(within: impl AsFd, name: &str) -> io::Result<Successor> {
        let (within, name, programs) = (within.as_fd(), CString::new(name)?, programs::end()?);
        let begun = Cell::new(i64::MAX);
        let remove = |is_alone: bool| {
            begun.set(begun.get().min(now()));
            let have_ended = programs::have_ended(programs) && now() - begun.get() > LAST_START.as_nanos() as i64;
            let is_removed = remove_folder(within, &name, |folder| empty(folder, None, DEPTH));
            is_removed && (!is_alone || have_ended)
        };
        Successor::start(&[within, programs], [TIMEOUT, LONGEST], remove)
    }

    /// Starts a process that removes a shared folder, if no other process uses it at that time. It
    /// need not exist yet.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn removing_shared(within: impl AsFd, name: &CStr) -> io::Result<Successor> {
        let within = within.as_fd();
        Successor::start(&[within], [TIMEOUT; 2], |_| remove_unused(within, name))
    }

    /// Starts a process that acts, and repeats that until it returns true or this time has passed.
    /// It has the memory of this process as it is now, also what others share, but no descriptors.
    ///
    /// # Errors
    /// If it cannot be started, or this process has several threads: the other one would have locks
    /// that they hold, and not them.
    pub fn acting(timeout: Duration, act: impl Fn() -> bool) -> io::Result<Successor> {
        if std::fs::read_dir("/proc/self/task")?.count() > 1 {
            return Err(io::Error::other("this process has several threads"));
        }
        // A panic must not get out into the copy of the caller that the other process has.
        let act = |_| catch_unwind(AssertUnwindSafe(&act)).unwrap_or(true);
        Successor::start(&[], [timeout; 2], act)
    }

    /// The action is repeated until it returns true, or the first time has passed. The second one
    /// counts if the other process is alone: this one was killed, and does not wait for it. The
    /// action learns whether that is so. If this process may have several threads, it makes system
    /// calls and uses only its own memory: no lock, no allocation. The other process keeps these
    /// descriptors open, at most two, and no other ones.
    pub(super) fn start(
        kept: &[BorrowedFd<'_>],
        timeouts: [Duration; 2],
        act: impl Fn(bool) -> bool,
    ) -> io::Result<Successor> {
        let creator = getpid();
        let (end, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
        let (ready, starting) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut mask = every_signal();
        // SAFETY: the sets are initialized. After the fork of a process that may have several
        // threads, `succeed` makes system calls and uses only its own memory, as does the action.
        let (process, why) = unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, every_signal().as_ptr(), mask.as_mut_ptr());
            let process = libc::fork();
            if process == 0 {
                succeed(creator, kept, end.as_fd(), timeouts, act);
            }
            let why = io::Error::last_os_error();
            libc::pthread_sigmask(libc::SIG_SETMASK, mask.as_ptr(), null_mut());
            (process, why)
        };
        // Until it has left the process group, it could be killed with that.
        drop(starting);
        let _ = retry_on_intr(|| read(&ready, &mut [0_u8]));
        match Pid::from_raw(process.max(0)) {
            Some(process) => Ok(Successor { lifeline: Some(lifeline), _end: end, process }),
            None => Err(why),
        }
    }

    #[cfg(test)]
    pub(super) fn process(&self) -> Pid {
        self.process
    }

    /// Ends the other process, which does nothing.
    pub fn dismiss(self) {
        self.tell(DISMISS);
    }

    fn tell(&self, order: u8) {
        // If the other process was killed, this fails.
        let _ = self.lifeline.as_ref().map(|lifeline| retry_on_intr(|| write(lifeline, &[order])));
    }
}

impl Drop for Successor {
    /// Lets it act, and waits for that.
    fn drop(&mut self) {
        self.tell(ACT);
        self.lifeline = None;
        let _ = retry_on_intr(|| waitpid(Some(self.process), WaitOptions::empty()));
    }
}

/// Waits for an order of the other process, or for its end, and acts. `end` is that of the pipe
/// that ends with the other process.
fn succeed(
    creator: Pid,
    kept: &[BorrowedFd<'_>],
    end: BorrowedFd<'_>,
    [beside, alone]: [Duration; 2],
    act: impl Fn(bool) -> bool,
) -> ! {
    // As a keeper, it outlives whatever kills all processes named rowlock.
    let _ = set_name(c"successor");
    // Out of the group and the session of the other process, which may be killed as a whole.
    let _ = setsid();
    let kept = |place: usize| kept.get(place).copied().unwrap_or(end);
    close_all_but([kept(0), kept(1), end]);
    let mut order = [DISMISS];
    let is_killed = match retry_on_intr(|| read(end, &mut order)) {
        // The pipe ends before the children of a killed process get another parent.
        Ok(0) => true,
        Ok(_) if order == [ACT] => false,
        _ => exit(0),
    };
    let begun = now();
    loop {
        let is_alone = is_killed || getppid() != Some(creator);
        let timeout = if is_alone { alone } else { beside };
        // Programs may still be ending.
        if act(is_alone) || now() - begun > timeout.as_nanos() as i64 {
            exit(0);
        }
        // Nothing becomes ready.
        let pause = ((now() - begun) / 50).max(INTERVAL);
        let _ = poll(&mut [], Some(&Timespec { tv_sec: pause / NANOS, tv_nsec: pause % NANOS }));
    }
}
