//! Starts child processes with a clean state and a time limit, and describes a child that did not
//! do what a test expects.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::{ClockId, clock_gettime};

use crate::processes;

/// How long a test may take. The runner kills one that takes longer.
pub const TEST_LIMIT: Duration = Duration::from_secs(600);

/// How long a child may take, and everything else that a test waits for. It is long enough for a
/// machine under heavy load, and shorter than [`TEST_LIMIT`], so that the test itself reports
/// what hangs.
pub const LIMIT: Duration = Duration::from_secs(300);

/// The environment variable with the time at which a test must report what hangs, in milliseconds
/// of the monotonic clock.
const END: &str = "ROWLOCK_TEST_END";

/// Sets the time at which a test that is about to start with this limit must report what hangs:
/// when a twentieth of the limit is left.
pub fn set_deadline(test: &mut Command, limit: Duration) {
    test.env(END, (monotonic() + limit - limit / 20).as_millis().to_string());
}

/// How long the calling test may wait for the next thing: [`LIMIT`], or the rest of its own limit.
/// So it reports the child that hangs, however many others it had before.
pub fn limit() -> Duration {
    LIMIT.min(left())
}

/// The rest of the calling test's own limit.
fn left() -> Duration {
    let end = std::env::var(END).ok().and_then(|end| end.parse().ok()).map(Duration::from_millis);
    end.map_or(Duration::MAX, |end| end.saturating_sub(monotonic()))
}

/// The time of the clock that all processes share.
fn monotonic() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// How long killed processes may take to close a pipe.
const PIPE_CLOSE_TIME: Duration = Duration::from_secs(5);

/// Prefixes of environment variables that change how rowlock, OpenMP, git or the dynamic linker
/// behave.
const REMOVED: [&str; 10] =
    ["ROWLOCK_", "OMP_", "GOMP_", "KMP_", "GIT_", "LD_PRELOAD", "COLUMNS", "LINES", "NO_COLOR", "CLICOLOR"];

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

/// Appends a command to the arguments of another, such as `unshare`, that starts it.
pub fn through(mut starter: Command, command: &Command) -> Command {
    let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    starter.arg(command.get_program()).args(command.get_args()).envs(variables);
    starter
}

/// Runs a command to its end and captures its output.
///
/// # Panics
/// If the child cannot be started, or if it takes longer than [`limit`]. In the latter case it is
/// killed with all its descendants, and the message shows what they were waiting for.
#[track_caller]
pub fn run(command: &mut Command) -> Output {
    Child::start(command).wait()
}

/// As [`run`], for a program that may be missing.
///
/// # Errors
/// If the child cannot be started.
///
/// # Panics
/// If it takes longer than [`limit`].
#[track_caller]
pub fn try_run(command: &mut Command) -> io::Result<Output> {
    Ok(Child::try_start(command)?.wait())
}

/// A running child. It is killed when this is dropped.
#[derive(Debug)]
pub struct Child {
    child: std::process::Child,
    command: String,
    stdout: std::fs::File,
    stderr: std::fs::File,
    /// Bytes that came through the pipe of its standard output and have not been read by the test.
    unread: Vec<u8>,
    limit: Duration,
}

impl Child {
    /// Starts a child whose standard output and standard error are captured.
    ///
    /// # Panics
    /// If it cannot be started.
    #[track_caller]
    pub fn start(command: &mut Command) -> Child {
        let child = Child::try_start(command);
        child.unwrap_or_else(|why| panic!("cannot start {command:?}: {why}"))
    }

    pub(crate) fn try_start(command: &mut Command) -> io::Result<Child> {
        let stdout = tempfile::tempfile()?;
        command.stdout(stdout.try_clone()?);
        Child::start_with(command, stdout)
    }

    /// Starts a child whose standard output is a pipe to the test: see [`Child::write_line`] and
    /// [`Child::read_line`].
    ///
    /// # Panics
    /// If it cannot be started.
    #[track_caller]
    pub fn start_piped(command: &mut Command) -> Child {
        Child::start_into(command.stdin(Stdio::piped()), Stdio::piped())
    }

    /// Starts a child whose standard output goes elsewhere; its standard error is captured.
    ///
    /// # Panics
    /// If it cannot be started.
    #[track_caller]
    pub fn start_into(command: &mut Command, stdout: impl Into<Stdio>) -> Child {
        let none = tempfile::tempfile();
        let child = none.and_then(|none| Child::start_with(command.stdout(stdout), none));
        child.unwrap_or_else(|why| panic!("cannot start {command:?}: {why}"))
    }

    fn start_with(command: &mut Command, stdout: std::fs::File) -> io::Result<Child> {
        let stderr = tempfile::tempfile()?;
        let child = command.stderr(stderr.try_clone()?).spawn()?;
        Ok(Child { child, command: format!("{command:?}"), stdout, stderr, unread: Vec::new(), limit: LIMIT })
    }

    /// Sets the limit, which is [`LIMIT`] otherwise. It never reaches beyond the test's own limit.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Child {
        self.limit = limit;
        self
    }

    /// The process, for anything that this type does not offer.
    pub fn process(&mut self) -> &mut std::process::Child {
        &mut self.child
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// If it cannot be sent.
    #[track_caller]
    pub fn send(&self, signal: i32) {
        sys::signals::send(Pid::from_child(&self.child), signal).expect("a signal to a child");
    }

    /// Waits until it has ended or its time is up. Returns whether it has ended. Only
    /// [`Child::wait`] and [`Child::finish`] reap it, so its id stays valid.
    pub fn wait_until_ended(&self) -> bool {
        self.ends_until(self.deadline())
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// As [`run`].
    #[track_caller]
    pub fn wait(self) -> Output {
        let output = self.finish();
        let is_in_time = output.killed.is_none();
        output.expect(is_in_time, "a child that ends in time")
    }

    /// Waits for its end, and that of all processes that can write to the pipe of its standard
    /// output. Kills them when its time is up.
    ///
    /// # Panics
    /// Does not panic because of anything that the child does.
    pub fn finish(self) -> Output {
        self.finish_with_cpu_time().0
    }

    /// As [`Child::finish`], with the CPU time of the child and its descendants, in steps of 10 ms
    /// and without descendants that others reaped.
    pub fn finish_with_cpu_time(mut self) -> (Output, Duration) {
        drop(self.child.stdin.take());
        let deadline = self.deadline();
        let is_in_time = self.read_to_end(deadline) && self.ends_until(deadline);
        let killed = (!is_in_time).then(|| self.kill());
        // Until it is reaped, the kernel shows it.
        let cpu_time = processes::cpu_time(self.id());
        let status = self.child.wait().expect("the end of a child");
        let (mut stdout, stderr) = (content(&mut self.stdout), content(&mut self.stderr));
        stdout.append(&mut self.unread);
        let command = std::mem::take(&mut self.command);
        let output = Output { command, status, killed, stdout: text(&stdout), bytes: stdout, stderr: text(&stderr) };
        (output, cpu_time)
    }

    /// The end of its time if the wait starts now.
    fn deadline(&self) -> Instant {
        Instant::now() + self.limit.min(left())
    }

    /// Waits until the child ends or the deadline passes. Returns whether it has ended.
    fn ends_until(&self, deadline: Instant) -> bool {
        // If there is no descriptor, it has been reaped.
        pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())
            .map_or(true, |end| wait_until_ready(end, deadline))
    }

    /// Reads from the pipe of its standard output, if there is one. Returns false if nothing
    /// arrives before the deadline.
    fn read_available(&mut self, deadline: Instant) -> bool {
        let Some(pipe) = &mut self.child.stdout else { return true };
        if !wait_until_ready(&*pipe, deadline) {
            return false;
        }
        let mut piece = [0; 1 << 14];
        match pipe.read(&mut piece) {
            Ok(0) => self.child.stdout = None,
            Ok(length) => self.unread.extend(&piece[..length]),
            Err(why) => assert_eq!(why.kind(), ErrorKind::Interrupted, "the output of a child: {why}"),
        }
        true
    }

    fn read_to_end(&mut self, deadline: Instant) -> bool {
        while self.child.stdout.is_some() {
            if !self.read_available(deadline) {
                return false;
            }
        }
        true
    }

    /// Kills it with its descendants, including those that only share its pipe, and describes what
    /// they waited for.
    fn kill(&mut self) -> String {
        let is_alive = matches!(self.child.try_wait(), Ok(None));
        let family = if is_alive { processes::tree(self.id()) } else { Vec::new() };
        let writers = self.child.stdout.as_ref().map(processes::writers).unwrap_or_default();
        let others = writers.into_iter().filter(|pid| !family.contains(pid));
        let trees: Vec<u32> = family.first().copied().into_iter().chain(others).collect();
        let description = trees.iter().map(|pid| processes::describe_tree(*pid)).collect();
        trees.into_iter().for_each(processes::kill_tree);
        self.read_to_end(Instant::now() + PIPE_CLOSE_TIME);
        description
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

/// Waits until there is data, an end of file, or the deadline. Returns false for the deadline.
fn wait_until_ready(descriptor: impl AsFd, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&timeout)) {
            Ok(1..) => return true,
            _ if left.is_zero() => return false,
            _ => {}
        }
    }
}

fn content(file: &mut std::fs::File) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    read.expect("the output of a child");
    bytes
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// How a child ended, and its output. [`Display`](fmt::Display) shows all of it.
#[derive(Clone, Debug)]
pub struct Output {
    /// The command.
    pub command: String,
    /// Its exit status.
    pub status: ExitStatus,
    /// The killed processes and where they waited, if its time was up.
    pub killed: Option<String>,
    /// Its standard output.
    pub stdout: String,
    /// The same as bytes, which need not be text.
    pub bytes: Vec<u8>,
    /// Its standard error.
    pub stderr: String,
}

impl Output {
    /// Expects exit code 0.
    ///
    /// # Panics
    /// If it ended otherwise; the message shows status and output. So do the methods below.
    #[track_caller]
    pub fn expect_success(self) -> Output {
        self.expect_exit(0)
    }

    /// Expects this exit code.
    #[track_caller]
    pub fn expect_exit(self, code: i32) -> Output {
        let holds = self.status.code() == Some(code);
        self.expect(holds, &format!("exit code {code}"))
    }

    /// Expects that this signal killed it.
    #[track_caller]
    pub fn expect_signal(self, signal: i32) -> Output {
        let holds = self.status.signal() == Some(signal);
        self.expect(holds, &format!("death by signal {signal}"))
    }

    /// Expects this text in the standard output.
    #[track_caller]
    pub fn expect_stdout(self, text: &str) -> Output {
        let holds = self.stdout.contains(text);
        self.expect(holds, &format!("standard output with {text:?}"))
    }

    /// Expects this text in the standard error.
    #[track_caller]
    pub fn expect_stderr(self, text: &str) -> Output {
        let holds = self.stderr.contains(text);
        self.expect(holds, &format!("standard error with {text:?}"))
    }

    /// Expects that a condition holds, and shows everything if it does not.
    #[track_caller]
    pub fn expect(self, holds: bool, expected: &str) -> Output {
        assert!(holds, "expected {expected}\n{self}");
        self
    }
}

impl fmt::Display for Output {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Output { command, status, killed, stdout, stderr, .. } = self;
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
    /// If the child was not started by [`Child::start_piped`], or has closed its standard input.
    #[track_caller]
    pub fn write_line(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("a child with a pipe to its standard input");
        writeln!(stdin, "{line}").expect("a child that reads");
    }

    /// The next line of the child's standard output, without its end.
    ///
    /// # Panics
    /// If the child was not started by [`Child::start_piped`], has closed its standard output, or
    /// takes longer than the limit.
    #[track_caller]
    pub fn read_line(&mut self) -> String {
        text(&self.read_until(b'\n'))
    }

    /// The standard output of the child up to this byte.
    ///
    /// # Panics
    /// As [`Child::read_line`].
    #[track_caller]
    pub fn read_until(&mut self, end: u8) -> Vec<u8> {
        let deadline = self.deadline();
        loop {
            if let Some(length) = self.unread.iter().position(|byte| *byte == end) {
                let heard = self.unread.drain(..=length).take(length).collect();
                return heard;
            }
            let is_open = self.child.stdout.is_some();
            if !is_open && !self.unread.is_empty() {
                return std::mem::take(&mut self.unread);
            }
            if !is_open || !self.read_available(deadline) {
                let why = if is_open { "printed nothing more in time" } else { "closed its standard output" };
                let state = if is_open { processes::describe_tree(self.id()) } else { String::new() };
                let errors = text(&content(&mut self.stderr));
                panic!("the child {why}\ncommand: {}\n{state}{errors}", self.command);
            }
        }
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

    /// A script that prints a line when it has started: before that, the kernel does not show the
    /// arguments of a process.
    const STOPS: &str = "echo begun; kill -STOP $$";

    #[test]
    #[should_panic(expected = "this went wrong")]
    fn a_child_that_fails_is_shown_with_its_output() {
        run(&mut shell("echo this went wrong >&2; exit 3")).expect_success();
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
    fn a_child_reads_and_writes_lines() {
        let mut child = Child::start_piped(&mut shell("read word; echo you said $word; echo more"));
        child.write_line("hello");
        assert_eq!(child.read_line(), "you said hello");
        assert_eq!(child.wait().expect_success().stdout, "more\n");
    }

    #[test]
    fn a_descendant_that_holds_the_pipe_is_killed_and_shown_when_the_time_is_up() {
        let mut child = Child::start_piped(&mut shell(&format!("sh -c '{STOPS}' & read end")));
        assert_eq!(child.read_line(), "begun");
        child.write_line("");
        child.process().wait().unwrap();
        let output = child.with_limit(Duration::ZERO).finish().expect_exit(0);
        assert!(output.killed.is_some_and(|state| state.contains("begun")));
    }

    #[test]
    #[should_panic(expected = "printed nothing more in time")]
    fn a_silent_child_is_not_waited_for_longer_than_its_limit() {
        Child::start_piped(&mut shell("sleep 1000")).with_limit(Duration::ZERO).read_line();
    }

    #[test]
    fn a_child_that_hangs_is_shown_before_its_test_is_killed() {
        crate::isolated_by(
            |mut test| {
                set_deadline(&mut test, Duration::ZERO);
                crate::expect_pass(&mut test);
            },
            || {
                let mut child = Child::start_piped(&mut shell(STOPS));
                let mut begun = [0; 6];
                child.process().stdout.as_mut().unwrap().read_exact(&mut begun).unwrap();
                let output = child.with_limit(LIMIT).finish();
                assert!(output.killed.is_some_and(|state| state.contains("begun")));
                assert_eq!(limit(), Duration::ZERO);
            },
        );
    }

    #[test]
    fn a_child_may_fill_its_pipe_before_it_is_waited_for() {
        let output = Child::start_piped(&mut shell("head -c 300000 /dev/zero")).wait().expect_success();
        assert_eq!(output.bytes, vec![0; 300_000]);
    }

    #[test]
    fn output_that_is_not_text_is_available_as_bytes() {
        let output = run(&mut shell(r"printf '\377\000'")).expect_success();
        assert_eq!((output.bytes, output.stdout), (vec![255, 0], "\u{fffd}\0".to_owned()));
    }

    #[test]
    fn a_program_that_is_missing_is_an_error() {
        assert_eq!(try_run(&mut command("/no such program")).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn waiting_for_the_end_of_a_child_does_not_reap_it() {
        let child = Child::start(&mut shell("exit 3"));
        assert!(child.wait_until_ended());
        child.send(0);
        child.wait().expect_exit(3);
        assert!(!Child::start(&mut shell("sleep 1000")).with_limit(Duration::ZERO).wait_until_ended());
    }

    #[test]
    fn a_command_is_started_by_another_with_its_arguments_and_variables() {
        let mut echo = shell("echo $WORD $0");
        echo.arg("arguments").env("WORD", "variables");
        assert_eq!(run(&mut through(command("env"), &echo)).expect_success().stdout, "variables arguments\n");
    }
}
