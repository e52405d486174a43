//! The load beside a program: processes that only compute, or a command that is restarted whenever
//! it ends.
//!
//! Both belong to the session of the caller, as if the same shell had started them. So all threads
//! count alike even if the kernel first shares CPUs among sessions.
//!
//! No process of the load survives this process. The kernel kills the hogs with it, and the command
//! is contained.

use std::env;
use std::ffi::{OsStr, OsString};
use std::hint::black_box;
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sys::containment::{Lifeline, Manner, contain};
use sys::process::{RequestsToEnd, end_with_this_thread};

/// The argument that makes this program a hog.
const HOG: &str = "__hog";
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
        let mut running = Running { hogs: Vec::new(), beside: None };
        let this = env::current_exe()?;
        for _ in 0..self.hogs {
            let mut hog = Command::new(&this);
            hog.arg(HOG).stdin(Stdio::null()).stdout(Stdio::null());
            end_with_this_thread(&mut hog, RequestsToEnd::Ignore);
            running.hogs.push(hog.spawn()?);
        }
        running.beside = self.beside.clone().map(Beside::start).transpose()?;
        Ok(running)
    }
}

/// A running load.
#[derive(Debug)]
pub struct Running {
    hogs: Vec<Child>,
    beside: Option<Beside>,
}

impl Running {
    /// How the command first failed, if it did. It was started again.
    pub fn failure(&self) -> Option<String> {
        self.beside.as_ref()?.state().failure.clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for hog in &mut self.hogs {
            // Otherwise it ends with this process.
            if hog.kill().is_ok() {
                let _ = hog.wait();
            }
        }
    }
}

/// A command that a thread restarts whenever it ends.
#[derive(Debug)]
struct Beside {
    state: Arc<Mutex<State>>,
    /// `None` once it was waited for.
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct State {
    is_over: bool,
    /// The lifeline of the running command.
    lifeline: Option<Lifeline>,
    failure: Option<String>,
}

impl Beside {
    fn start(command: OsString) -> io::Result<Beside> {
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let thread = thread::Builder::new().name("beside".into()).spawn(move || restart(&command, &shared))?;
        Ok(Beside { state, thread: Some(thread) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Drop for Beside {
    /// Ends the command and waits for its end.
    fn drop(&mut self) {
        *self.state() = State { is_over: true, ..State::default() };
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// If [`Load::start`] started this process as a hog, computes and never returns. Otherwise returns
/// immediately. Call it at the beginning of `main`.
pub fn serve_if_asked() {
    if env::args_os().nth(1).is_some_and(|argument| argument == HOG) {
        hog()
    }
}

fn hog() -> ! {
    let mut number = 1_u64;
    loop {
        number = black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

/// Restarts a command until that is over.
fn restart(command: &OsStr, state: &Mutex<State>) {
    loop {
        let started = Instant::now();
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let failure = match run(&mut shell, state) {
            Ok(status) if status.success() => None,
            Ok(status) => Some(status.to_string()),
            Err(why) => Some(why.to_string()),
        };
        let mut held = lock(state);
        if held.is_over {
            return;
        }
        held.failure = held.failure.take().or(failure);
        drop(held);
        thread::park_timeout(RESTART_INTERVAL.saturating_sub(started.elapsed()));
    }
}

/// Runs a command to its end, or to the end of the load.
fn run(command: &mut Command, state: &Mutex<State>) -> io::Result<ExitStatus> {
    let lifeline = contain(command, Manner::Background)?;
    let mut held = lock(state);
    if held.is_over {
        return Ok(ExitStatus::default());
    }
    let mut child = command.spawn()?;
    held.lifeline = Some(lifeline);
    drop(held);
    child.wait()
}
