//! What a program is to compete with: processes that do nothing but compute, or a command that is kept running.
//!
//! Both belong to the session of who starts them, as if they had been started from the same shell: where the kernel shares CPUs among
//! sessions first, the program and its load are one of these, and each thread counts alike.
//!
//! Nothing is left of them, however this process ends. The kernel kills the hogs with it. The command may have started other processes,
//! so it has a keeper, which leads the process group that they all are in, hears of the end of this process by the end of its
//! standard input, and then ends the whole group, itself included.

use std::env;
use std::ffi::{OsStr, OsString};
use std::hint::black_box;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_current_process_group, pidfd_open};
use sys::process::{RequestsToEnd, end_with_this_thread};

/// The argument that asks this program to be a hog.
const HOG: &str = "__hog";
/// The argument that asks it to keep a command running, which follows.
const KEEPER: &str = "__keep";
/// How long a command is asked to end before it is made to.
const GRACE: Duration = Duration::from_secs(1);
/// How often a command is started again at the most.
const AT_MOST_EVERY: Duration = Duration::from_millis(100);

/// What is to run beside a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// How many processes do nothing but compute.
    pub hogs: u32,
    /// A command for the shell, which is started again whenever it ends.
    pub beside: Option<OsString>,
}

impl Load {
    /// Whether nothing is to run.
    pub fn is_none(&self) -> bool {
        *self == Load::default()
    }

    /// Starts it all. It runs until it is dropped, or the calling thread ends.
    pub(crate) fn start(&self) -> io::Result<Running> {
        let mut running = Running { hogs: Vec::new(), keeper: None };
        let this = env::current_exe()?;
        for _ in 0..self.hogs {
            let mut hog = Command::new(&this);
            hog.arg(HOG).stdin(Stdio::null()).stdout(Stdio::null());
            end_with_this_thread(&mut hog, RequestsToEnd::Ignore);
            running.hogs.push(hog.spawn()?);
        }
        if let Some(command) = &self.beside {
            let mut keeper = Command::new(&this);
            keeper.arg(KEEPER).arg(command).stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
            running.keeper = Some(keeper.spawn()?);
        }
        Ok(running)
    }
}

/// A load that runs.
#[derive(Debug)]
pub(crate) struct Running {
    hogs: Vec<Child>,
    keeper: Option<Child>,
}

impl Drop for Running {
    fn drop(&mut self) {
        for hog in &mut self.hogs {
            // Who has ended already has been killed by somebody else.
            let _ = hog.kill();
            let _ = hog.wait();
        }
        if let Some(keeper) = &mut self.keeper {
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
    }
}

/// Does what this program was started for by [`Launch::compare`](crate::Launch::compare), for ever; else returns at once. Belongs at the very
/// beginning of `main`.
pub fn serve_if_asked() {
    let mut arguments = env::args_os().skip(1);
    match arguments.next() {
        Some(argument) if argument == HOG => hog(),
        Some(argument) if argument == KEEPER => keep(&arguments.next().unwrap_or_default()),
        _ => {}
    }
}

fn hog() -> ! {
    let mut number = 1_u64;
    loop {
        number = black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

/// Keeps a command running until nobody has the other end of the standard input any more.
fn keep(command: &OsStr) -> ! {
    let mut said = false;
    loop {
        let started = Instant::now();
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let failure = match shell.spawn() {
            Err(why) => Some(why.to_string()),
            Ok(mut child) => {
                if is_input_over(Some(Pid::from_child(&child)), None) {
                    end_group(&mut child);
                }
                child.wait().ok().filter(|status| !status.success()).map(|status| status.to_string())
            }
        };
        if let Some(failure) = failure.filter(|_| !said) {
            let _ = writeln!(
                io::stderr(),
                "rowlock: `{}` beside it ended: {failure}; it is started again",
                command.display()
            );
            said = true;
        }
        if is_input_over(None, Some(AT_MOST_EVERY.saturating_sub(started.elapsed()))) {
            std::process::exit(0);
        }
    }
}

/// Waits until a process ends, or so much time is over; or until there will be no more input, and only then says yes.
fn is_input_over(process: Option<Pid>, limit: Option<Duration>) -> bool {
    let process = process.and_then(|process| pidfd_open(process, PidfdFlags::empty()).ok());
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let stdin = rustix::stdio::stdin();
    let mut watched = vec![PollFd::new(&stdin, PollFlags::IN)];
    watched.extend(process.as_ref().map(|process| PollFd::new(process, PollFlags::IN)));
    while poll(&mut watched, limit.as_ref()) == Err(Errno::INTR) {}
    // Nobody ever writes to it.
    !watched[0].revents().is_empty()
}

/// Asks all of this process's group to end, and makes them, itself included.
fn end_group(child: &mut Child) -> ! {
    // This process has to outlive the question.
    if sys::signals::ignore(Signal::TERM.as_raw()).is_ok() {
        let _ = kill_current_process_group(Signal::TERM);
        let asked = Instant::now();
        while matches!(child.try_wait(), Ok(None)) && asked.elapsed() < GRACE {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let _ = kill_current_process_group(Signal::KILL);
    std::process::exit(1)
}
