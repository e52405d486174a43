//! System calls of a child and of its descendants, which this process answers in place of the
//! kernel, for tests of failures (`SECCOMP_RET_USER_NOTIF`).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

use crate::errno;

/// The descriptor of the listener in the child. Programs have no descriptor with this number.
const LISTENER: i32 = 900;

/// A system call that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    id: u64,
    /// The thread that makes it.
    pub thread: u32,
    /// Its number, such as `SYS_openat`.
    pub number: i64,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// The answer to a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The kernel carries it out.
    Continue,
    /// It fails with this error number.
    Error(i32),
    /// It returns this value, and does nothing.
    Value(i64),
}

/// Lets the child of `command`, and all its descendants, wait for an answer at each of these system
/// calls, from its start on. They gain no privileges by executing programs.
///
/// The execution of the child's program may be such a call, so another thread has to answer while
/// the child is started.
///
/// # Errors
/// If no pipe can be created.
pub fn ask_before(command: &mut Command, calls: &[i64]) -> io::Result<Asking> {
    let instruction = |code: u32, k: u32, jf: u8| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let load = instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0);
    let end = |result: u32| instruction(libc::BPF_RET | libc::BPF_K, result, 0);
    let ask_at = |call: &i64| {
        let equals = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        [instruction(equals, *call as u32, 1), end(libc::SECCOMP_RET_USER_NOTIF)]
    };
    let mut program = vec![load];
    program.extend(calls.iter().flat_map(ask_at));
    program.push(end(libc::SECCOMP_RET_ALLOW));
    let (told, tell) = pipe_with(PipeFlags::CLOEXEC)?;
    let install = move || {
        // Later, a write may have to wait for an answer.
        rustix::io::write(&tell, &getpid().as_raw_nonzero().get().to_ne_bytes())?;
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
        // SAFETY: only async-signal-safe calls; the kernel copies the program.
        unsafe {
            errno::check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
            let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
            let listener = errno::check(libc::syscall(libc::SYS_seccomp, mode, flags, &raw const filter))?;
            // The copy stays open when the child executes its program.
            errno::check(libc::dup2(listener as i32, LISTENER))?;
        }
        Ok(())
    };
    // SAFETY: it allocates nothing and takes no lock.
    unsafe { command.pre_exec(install) };
    Ok(Asking { told, process: None })
}

/// A child that is going to ask.
#[derive(Debug)]
pub struct Asking {
    told: OwnedFd,
    process: Option<Pid>,
}

impl Asking {
    /// The listener, and the id of the child. Returns `None` if the child has not come so far after
    /// a millisecond.
    ///
    /// # Errors
    /// If the child has ended, or its descriptors cannot be accessed.
    pub fn listener(&mut self) -> io::Result<Option<(Listener, u32)>> {
        let wait = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        if self.process.is_none() && poll(&mut [PollFd::new(&self.told, PollFlags::IN)], Some(&wait))? == 1 {
            let mut id = [0; 4];
            rustix::io::read(&self.told, &mut id)?;
            self.process = Pid::from_raw(i32::from_ne_bytes(id));
        }
        let Some(id) = self.process else { return Ok(None) };
        let process = pidfd_open(id, PidfdFlags::empty())?;
        match pidfd_getfd(&process, LISTENER, PidfdGetfdFlags::empty()) {
            Ok(listener) => Ok(Some((Listener(listener), id.as_raw_nonzero().get() as u32))),
            Err(Errno::BADF) => {
                std::thread::sleep(Duration::from_millis(1));
                Ok(None)
            }
            Err(why) => Err(why.into()),
        }
    }
}

/// Receives the calls of a child.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl Listener {
    /// The next call. Returns `None` if all processes have ended, or nothing happens for a
    /// millisecond.
    pub fn next(&self) -> io::Result<Option<Call>> {
        let wait = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        let mut ready = [PollFd::new(&self.0, PollFlags::IN)];
        if poll(&mut ready, Some(&wait))? == 0 || !ready[0].revents().contains(PollFlags::IN) {
            return Ok(None);
        }
        let mut call = MaybeUninit::<libc::seccomp_notif>::zeroed();
        // SAFETY: there is room for a call, which the kernel requires to be zero.
        let received = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, call.as_mut_ptr()) };
        match errno::check(received) {
            Ok(_) => {}
            // The caller was killed.
            Err(Errno::NOENT | Errno::INTR) => return Ok(None),
            Err(why) => return Err(why.into()),
        }
        // SAFETY: the kernel has filled it in, and zeros would be valid as well.
        let libc::seccomp_notif { id, pid, data, .. } = unsafe { call.assume_init() };
        Ok(Some(Call { id, thread: pid, number: data.nr.into(), arguments: data.args }))
    }

    /// Answers a call. Does nothing if its process has been killed.
    pub fn answer(&self, call: &Call, answer: Answer) {
        let (val, error, flags) = match answer {
            Answer::Continue => (0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            Answer::Error(number) => (0, -number, 0),
            Answer::Value(value) => (value, 0, 0),
        };
        let mut response = libc::seccomp_notif_resp { id: call.id, val, error, flags };
        // SAFETY: the response is initialized.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response) };
    }

    /// Whether a process can still make calls.
    pub fn has_callers(&self) -> bool {
        let mut ready = [PollFd::new(&self.0, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut ready, Some(&now)).is_err() || !ready[0].revents().contains(PollFlags::HUP)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}
