//! Failures of system calls in a child: the n-th call of a class fails, or does only a part.
//!
//! The child runs unmodified. The kernel asks this process before each call of the class, and it
//! counts those of the child from the beginning of its `main` on.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use sys::pages::Pages;
use sys::seccomp::{Answer, Call, Listener, ask_before};

use crate::child::{Child, Output};

/// A class of system calls, and what can go wrong with them.
#[derive(Debug)]
pub struct Class {
    /// Its name, for messages.
    pub name: &'static str,
    calls: &'static [i64],
    /// The failures.
    pub faults: &'static [Fault],
}

/// A failure of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails with this error number.
    Error(i32),
    /// A write that writes only half.
    Short,
    /// It is carried out later.
    Late,
}

use Fault::{Error, Late, Short};

impl Fault {
    /// Whether the kernel may always do this, so that a program must succeed all the same.
    pub fn is_harmless(self) -> bool {
        matches!(self, Error(libc::EINTR) | Late | Short)
    }
}

/// All classes.
pub const CLASSES: [Class; 10] = [
    Class {
        name: "open",
        calls: &[libc::SYS_openat],
        faults: &[Error(libc::EMFILE), Error(libc::EIO), Error(libc::EACCES), Error(libc::ENOSPC), Error(libc::EINTR)],
    },
    Class {
        name: "read",
        calls: &[libc::SYS_read, libc::SYS_pread64],
        faults: &[Error(libc::EIO), Error(libc::EINTR), Late],
    },
    Class {
        name: "write",
        calls: &[libc::SYS_write, libc::SYS_pwrite64],
        faults: &[Error(libc::ENOSPC), Short, Error(libc::EIO), Error(libc::EINTR), Error(libc::EDQUOT), Late],
    },
    Class { name: "memory", calls: &[libc::SYS_mmap, libc::SYS_mremap], faults: &[Error(libc::ENOMEM)] },
    Class { name: "thread", calls: &[libc::SYS_clone3, libc::SYS_clone], faults: &[Error(libc::EAGAIN)] },
    Class {
        name: "flush",
        calls: &[libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_ftruncate, libc::SYS_sync_file_range],
        faults: &[Error(libc::EIO), Error(libc::ENOSPC)],
    },
    Class {
        name: "name",
        calls: &[libc::SYS_linkat, libc::SYS_renameat, libc::SYS_renameat2, libc::SYS_unlinkat, libc::SYS_mkdirat],
        faults: &[Error(libc::EIO), Error(libc::EACCES), Error(libc::ENOSPC)],
    },
    Class {
        name: "look",
        calls: &[libc::SYS_statx, libc::SYS_newfstatat, libc::SYS_getdents64, libc::SYS_readlinkat],
        faults: &[Error(libc::EIO), Error(libc::EACCES)],
    },
    Class {
        name: "descriptor",
        calls: &[libc::SYS_pipe2, libc::SYS_socketpair, libc::SYS_pidfd_open, libc::SYS_memfd_create, libc::SYS_fcntl],
        faults: &[Error(libc::EMFILE), Error(libc::ENFILE)],
    },
    Class {
        name: "wait",
        calls: &[libc::SYS_wait4, libc::SYS_waitid, libc::SYS_ppoll],
        faults: &[Error(libc::EINTR), Late],
    },
];

/// Allocations up to this size may end a program.
const SMALL: u64 = 64 << 10;

/// How long a child may take.
const LIMIT: Duration = Duration::from_secs(60);

/// How long its descendants may live after it.
const DESCENDANTS: Duration = Duration::from_secs(2);

/// The delay of a late call.
const DELAY: Duration = Duration::from_millis(20);

/// The end of a child in which a call failed.
#[derive(Debug)]
pub struct Ended {
    /// Its output.
    pub output: Output,
    /// Whether it made so many calls that one failed.
    pub has_failed_call: bool,
    /// Whether other processes that it started were still there two seconds later.
    pub has_left_processes: bool,
}

/// Runs a command whose call number `nth` of this class, counted from 1, has this failure.
///
/// # Errors
/// If the kernel does not let this process answer calls.
///
/// # Panics
/// As [`crate::run`].
pub fn run_with_fault(command: &mut Command, class: &Class, fault: Fault, nth: u64) -> io::Result<Ended> {
    // The handler that `main` installs first shows that the dynamic linker is done.
    let calls: Vec<i64> = class.calls.iter().copied().chain([libc::SYS_rt_sigaction]).collect();
    ask_before(command, &calls);
    let mut child = Child::try_start(command)?.with_limit(LIMIT);
    let listener = Listener::of(child.process())?;
    let process = child.id();
    let (mut count, mut has_begun) = (0, false);
    let deadline = Instant::now() + LIMIT;
    let mut end = deadline;
    while listener.has_callers() && Instant::now() < end {
        let Some(call) = listener.next()? else {
            if end == deadline && matches!(child.process().try_wait(), Ok(Some(_))) {
                end = Instant::now() + DESCENDANTS;
            }
            continue;
        };
        let is_own = Path::new(&format!("/proc/{process}/task/{}", call.thread)).exists();
        has_begun |= is_own && call.number == libc::SYS_rt_sigaction && call.arguments[0] == libc::SIGXFSZ as u64;
        count += u64::from(has_begun && is_own && class.has(&call));
        let is_chosen = count == nth && has_begun && is_own && class.has(&call);
        let answer = if is_chosen { answer(fault, process, &call) } else { Answer::Continue };
        listener.answer(&call, answer);
    }
    let has_left_processes = listener.has_callers() && end != deadline;
    Ok(Ended { output: child.finish(), has_failed_call: count >= nth, has_left_processes })
}

impl Class {
    fn has(&self, call: &Call) -> bool {
        let [first, length, third, fourth, descriptor, _] = call.arguments;
        let blocks = |options: u64| options & libc::WNOHANG as u64 == 0;
        match call.number {
            libc::SYS_rt_sigaction => false,
            // A message that cannot be written cannot be tested.
            libc::SYS_write => first != 2,
            libc::SYS_mmap => length > SMALL && descriptor as i32 == -1,
            libc::SYS_wait4 => blocks(third),
            libc::SYS_waitid => blocks(fourth),
            number => self.calls.contains(&number),
        }
    }
}

fn answer(fault: Fault, process: u32, call: &Call) -> Answer {
    match fault {
        Fault::Error(number) => Answer::Error(number),
        Fault::Short => write_half(process, call).unwrap_or(Answer::Continue),
        Fault::Late => {
            std::thread::sleep(DELAY);
            Answer::Continue
        }
    }
}

/// Carries out the first half of a write. Returns `None` if it cannot be divided.
fn write_half(process: u32, call: &Call) -> Option<Answer> {
    let [descriptor, address, length, place, ..] = call.arguments;
    // Direct I/O takes whole pages, from whole pages.
    let half = if length % 4096 == 0 { length / 2 / 4096 * 4096 } else { length / 2 };
    let mut bytes = Pages::new(half as usize).ok().filter(|bytes| !bytes.is_empty())?;
    File::open(format!("/proc/{process}/mem")).ok()?.read_exact_at(&mut bytes, address).ok()?;
    let process = pidfd_open(Pid::from_raw(process as i32)?, PidfdFlags::empty()).ok()?;
    let file = pidfd_getfd(process.as_fd(), descriptor as i32, PidfdGetfdFlags::empty()).ok()?;
    let mut file = File::from(file);
    let written = if call.number == libc::SYS_write { file.write(&bytes) } else { file.write_at(&bytes, place) };
    written.ok().map(|written| Answer::Value(written as i64))
}
