//! Starts child processes with a clean state and a time limit, and shows everything about one that
//! did not do what a test expects.

use std::ffi::OsStr;
use std::fmt;
use std::io::{Read, Seek, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::processes;

/// How long a child may take. It is long enough for a machine under heavy load, and shorter than
/// the limit of the runner, so that the test itself reports the child.
pub const LIMIT: Duration = Duration::from_secs(300);

/// Prefixes of environment variables that change how rowlock, OpenMP or the dynamic linker behave.
const REMOVED: [&str; 9] =
    ["ROWLOCK_", "OMP_", "GOMP_", "KMP_", "LD_PRELOAD", "COLUMNS", "LINES", "NO_COLOR", "CLICOLOR"];

/// A command whose child starts as if from a fresh login shell.
///
/// All signals have their default disposition and none is blocked, even if the test itself was
/// started by `nohup` or in the background. Variables that change what rowlock does are removed.
/// Standard input is empty.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| REMOVED.iter().any(|prefix| name.starts_with(prefix))) {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    sys::signals::restore_defaults_in(&mut command);
    command
}

/// Runs a command to its end and captures its output.
///
/// # Panics
/// If the child cannot be started, or if it takes longer than [`LIMIT`]. It is killed then, with
/// all its descendants, and the message shows what they were waiting for.
#[track_caller]
pub fn run(command: &mut Command) -> Output {
    Child::start(command).wait()
}

/// A running child. It is killed when this is dropped.
#[derive(Debug)]
pub struct Child {
    child: std::process::Child,
    command: String,
    stdout: std::fs::File,
    stderr: std::fs::File,
    limit: Duration,
}

impl Child {
    /// Starts a child whose standard output and standard error are captured.
    ///
    /// # Panics
    /// If it cannot be started.
    #[track_caller]
    pub fn start(command: &mut Command) -> Child {
        let file = || tempfile::tempfile().expect("a file for the output of a child");
        let (stdout, stderr) = (file(), file());
        let share = |file: &std::fs::File| file.try_clone().expect("a descriptor of a file");
        command.stdout(share(&stdout)).stderr(share(&stderr));
        Child::start_with(command, stdout, stderr)
    }

    /// Starts a child whose standard output is a pipe to the test: see [`Child::tell`] and [`Child::hear`].
    ///
    /// # Panics
    /// If it cannot be started.
    #[track_caller]
    pub fn start_talking(command: &mut Command) -> Child {
        Child::start_into(command.stdin(Stdio::piped()), Stdio::piped())
    }

    /// Starts a child whose standard output goes elsewhere; its standard error is captured.
    ///
    /// # Panics
    /// If it cannot be started.
    #[track_caller]
    pub fn start_into(command: &mut Command, stdout: impl Into<Stdio>) -> Child {
        let file = || tempfile::tempfile().expect("a file for the output of a child");
        let stderr = file();
        command.stdout(stdout).stderr(stderr.try_clone().expect("a descriptor of a file"));
        Child::start_with(command, file(), stderr)
    }

    #[track_caller]
    fn start_with(command: &mut Command, stdout: std::fs::File, stderr: std::fs::File) -> Child {
        let child = match command.spawn() {
            Ok(child) => child,
            Err(why) => panic!("cannot start {command:?}: {why}"),
        };
        Child { child, command: format!("{command:?}"), stdout, stderr, limit: LIMIT }
    }

    /// Sets the limit, which is [`LIMIT`] otherwise.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Child {
        self.limit = limit;
        self
    }

    /// Its process, for whatever this type does not offer.
    pub fn process(&mut self) -> &mut std::process::Child {
        &mut self.child
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// If it cannot be sent.
    #[track_caller]
    pub fn send(&self, signal: i32) {
        sys::signals::send(pid(&self.child), signal).expect("a signal to a child");
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// As [`run`].
    #[track_caller]
    pub fn wait(self) -> Output {
        let output = self.finish();
        let in_time = output.killed.is_none();
        output.expect(in_time, "a child that ends in time")
    }

    /// Waits for its end, or kills it when its time is up.
    ///
    /// # Panics
    /// Never for what the child does.
    pub fn finish(mut self) -> Output {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + self.limit;
        let mut killed = None;
        while !ends_until(&self.child, deadline) {
            if Instant::now() >= deadline {
                killed = Some(processes::describe_tree(self.id()));
                processes::kill_tree(self.id());
                break;
            }
        }
        let status = self.child.wait().expect("the end of a child");
        let (stdout, stderr) = (self.read_stdout(), text(&mut self.stderr));
        Output { command: std::mem::take(&mut self.command), status, killed, stdout, stderr }
    }

    fn read_stdout(&mut self) -> String {
        let mut stdout = text(&mut self.stdout);
        if let Some(mut pipe) = self.child.stdout.take() {
            // Descendants may still hold the pipe; the limit of the runner ends that.
            let mut rest = Vec::new();
            let _ = pipe.read_to_end(&mut rest);
            stdout.push_str(&String::from_utf8_lossy(&rest));
        }
        stdout
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            processes::kill_tree(self.child.id());
            let _ = self.child.wait();
        }
    }
}

fn pid(child: &std::process::Child) -> Pid {
    Pid::from_child(child)
}

/// Waits until the child ends or the deadline passes; `true` if it has ended.
fn ends_until(child: &std::process::Child, deadline: Instant) -> bool {
    let left = deadline.saturating_duration_since(Instant::now());
    let Ok(descriptor) = pidfd_open(pid(child), PidfdFlags::empty()) else { return true };
    let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
    let mut descriptors = [PollFd::new(&descriptor, PollFlags::IN)];
    matches!(poll(&mut descriptors, Some(&timeout)), Ok(1))
}

fn text(file: &mut std::fs::File) -> String {
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    read.expect("the output of a child");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// How a child ended, and its output. [`Display`](fmt::Display) shows all of it.
#[derive(Clone, Debug)]
pub struct Output {
    /// The command.
    pub command: String,
    /// How it ended.
    pub status: ExitStatus,
    /// If it was killed because its time was up, the processes and the places they waited in.
    pub killed: Option<String>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Output {
    /// Expects exit code 0.
    ///
    /// # Panics
    /// If it ended otherwise; the message shows status and output. So do the methods below.
    #[track_caller]
    pub fn succeeds(self) -> Output {
        self.exits(0)
    }

    /// Expects this exit code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Output {
        let holds = self.status.code() == Some(code);
        self.expect(holds, &format!("exit code {code}"))
    }

    /// Expects that this signal killed it.
    #[track_caller]
    pub fn dies_of(self, signal: i32) -> Output {
        let holds = self.status.signal() == Some(signal);
        self.expect(holds, &format!("death by signal {signal}"))
    }

    /// Expects this text in the standard output.
    #[track_caller]
    pub fn prints(self, text: &str) -> Output {
        let holds = self.stdout.contains(text);
        self.expect(holds, &format!("standard output with {text:?}"))
    }

    /// Expects this text in the standard error.
    #[track_caller]
    pub fn complains(self, text: &str) -> Output {
        let holds = self.stderr.contains(text);
        self.expect(holds, &format!("standard error with {text:?}"))
    }

    /// Expects that something holds, and shows everything if it does not.
    #[track_caller]
    pub fn expect(self, holds: bool, expected: &str) -> Output {
        assert!(holds, "expected {expected}\n{self}");
        self
    }
}

impl fmt::Display for Output {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Output { command, status, killed, stdout, stderr } = self;
        writeln!(formatter, "command: {command}\n{status}")?;
        if let Some(state) = killed {
            writeln!(formatter, "killed because its time was up; before that:\n{}", state.trim_end())?;
        }
        for (name, text) in [("standard output", stdout), ("standard error", stderr)] {
            if text.is_empty() {
                writeln!(formatter, "--- {name} is empty")?;
            } else {
                writeln!(formatter, "--- {name}\n{}", text.trim_end())?;
            }
        }
        Ok(())
    }
}

impl Child {
    /// Writes a line to the child's standard input.
    ///
    /// # Panics
    /// If the child was not started by [`Child::start_talking`], or has closed its standard input.
    #[track_caller]
    pub fn tell(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("a child that was started to talk");
        writeln!(stdin, "{line}").expect("a child that listens");
    }

    /// The next line of the child's standard output, without its end.
    ///
    /// # Panics
    /// If the child was not started by [`Child::start_talking`], or has closed its standard output.
    #[track_caller]
    pub fn hear(&mut self) -> String {
        let stdout = self.child.stdout.as_mut().expect("a child that was started to talk");
        let mut line = Vec::new();
        let mut byte = [0];
        // Byte by byte: what follows the line stays in the pipe.
        while stdout.read(&mut byte).expect("the output of a child") == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        if line.is_empty() && byte[0] != b'\n' {
            let errors = text(&mut self.stderr);
            panic!("the child closed its standard output\ncommand: {}\n{errors}", self.command);
        }
        String::from_utf8_lossy(&line).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut shell = command("sh");
        shell.args(["-c", script]);
        shell
    }

    #[test]
    #[should_panic(expected = "this went wrong")]
    fn a_child_that_fails_is_shown_with_its_output() {
        run(&mut shell("echo this went wrong >&2; exit 3")).succeeds();
    }

    #[test]
    fn a_child_that_hangs_is_killed_with_its_descendants_and_shown() {
        let mut child = Child::start(&mut shell("echo begun; sleep 1000 & wait"));
        while processes::tree(child.id()).len() < 2 {
            std::thread::yield_now();
        }
        let tree = processes::tree(child.id());
        child.limit = Duration::ZERO;
        let wait = std::panic::AssertUnwindSafe(|| child.wait());
        let message = std::panic::catch_unwind(wait).unwrap_err().downcast::<String>().unwrap();
        for text in ["killed", "sleep 1000", "state", "begun"] {
            assert!(message.contains(text), "{message}");
        }
        for pid in tree {
            // A zombie has no command line.
            while std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty()) {
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn a_child_can_be_talked_with() {
        let mut child = Child::start_talking(&mut shell("read word; echo you said $word; echo more"));
        child.tell("hello");
        assert_eq!(child.hear(), "you said hello");
        assert_eq!(child.wait().succeeds().stdout, "more\n");
    }
}
