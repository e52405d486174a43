//! The load beside a program: processes that only compute, or a command that is restarted whenever
//! it ends.
//!
//! Both belong to the session of the caller, as if the same shell had started them. So all threads
//! count alike even if the kernel first shares CPUs among sessions.
//!
//! No process of the load survives this process. The kernel kills the hogs with it. The command may
//! have started other processes, so it has a supervisor that leads a process group of all of them.
//! When the standard input of the supervisor ends, this process has ended. Then the supervisor ends
//! the whole group, including itself.

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

/// The argument that makes this program a hog.
const HOG: &str = "__hog";
/// The argument that makes this program the supervisor of the command that follows.
const SUPERVISOR: &str = "__keep";
/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(1);
/// The minimum time between two starts of a command.
const RESTART_INTERVAL: Duration = Duration::from_millis(100);

/// The load to run beside a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The number of processes that only compute.
    pub hogs: u32,
    /// A shell command that is restarted whenever it ends.
    pub beside: Option<OsString>,
}

impl Load {
    /// Whether there is no load.
    pub fn is_empty(&self) -> bool {
        *self == Load::default()
    }

    /// Starts the load. It runs until the value is dropped or the calling thread ends.
    ///
    /// # Errors
    /// A process cannot be started; none is left running.
    pub fn start(&self) -> io::Result<Running> {
        let mut running = Running { hogs: Vec::new(), supervisor: None };
        let this = env::current_exe()?;
        for _ in 0..self.hogs {
            let mut hog = Command::new(&this);
            hog.arg(HOG).stdin(Stdio::null()).stdout(Stdio::null());
            end_with_this_thread(&mut hog, RequestsToEnd::Ignore);
            running.hogs.push(hog.spawn()?);
        }
        if let Some(command) = &self.beside {
            let mut supervisor = Command::new(&this);
            supervisor.arg(SUPERVISOR).arg(command).stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
            running.supervisor = Some(supervisor.spawn()?);
        }
        Ok(running)
    }
}

/// A running load.
#[derive(Debug)]
pub struct Running {
    hogs: Vec<Child>,
    supervisor: Option<Child>,
}

impl Drop for Running {
    fn drop(&mut self) {
        for hog in &mut self.hogs {
            // This fails only if another process has killed it.
            let _ = hog.kill();
            let _ = hog.wait();
        }
        if let Some(supervisor) = &mut self.supervisor {
            drop(supervisor.stdin.take());
            let _ = supervisor.wait();
        }
    }
}

/// If [`Load::start`] started this process, runs the load and never returns. Otherwise returns
/// immediately. Call it at the beginning of `main`.
pub fn serve_if_asked() {
    let mut arguments = env::args_os().skip(1);
    match arguments.next() {
        Some(argument) if argument == HOG => hog(),
        Some(argument) if argument == SUPERVISOR => supervise(&arguments.next().unwrap_or_default()),
        _ => {}
    }
}

fn hog() -> ! {
    let mut number = 1_u64;
    loop {
        number = black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

/// Restarts a command until the other end of the standard input is closed.
fn supervise(command: &OsStr) -> ! {
    let mut warned = false;
    loop {
        let started = Instant::now();
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let failure = match shell.spawn() {
            Err(why) => Some(why.to_string()),
            Ok(mut child) => {
                if wait_for_end_of_input(Some(Pid::from_child(&child)), None) {
                    end_group(&mut child);
                }
                child.wait().ok().filter(|status| !status.success()).map(|status| status.to_string())
            }
        };
        if let Some(failure) = failure.filter(|_| !warned) {
            let _ = writeln!(
                io::stderr(),
                "rowlock: `{}` beside it ended: {failure}; it is started again",
                command.display()
            );
            warned = true;
        }
        if wait_for_end_of_input(None, Some(RESTART_INTERVAL.saturating_sub(started.elapsed()))) {
            std::process::exit(0);
        }
    }
}

/// Waits until a process ends, a time limit expires, or the input ends. Returns true only in the
/// last case.
fn wait_for_end_of_input(process: Option<Pid>, limit: Option<Duration>) -> bool {
    let process = process.and_then(|process| pidfd_open(process, PidfdFlags::empty()).ok());
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let stdin = rustix::stdio::stdin();
    let mut watched = vec![PollFd::new(&stdin, PollFlags::IN)];
    watched.extend(process.as_ref().map(|process| PollFd::new(process, PollFlags::IN)));
    while poll(&mut watched, limit.as_ref()) == Err(Errno::INTR) {}
    // The other end never writes to the pipe.
    !watched[0].revents().is_empty()
}

/// Ends this process's group, including itself, first with SIGTERM and then with SIGKILL.
fn end_group(child: &mut Child) -> ! {
    // This process must survive SIGTERM.
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
