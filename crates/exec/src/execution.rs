//! One run of a program without input: its output is kept, and its end and its times are measured.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use sha2::{Digest, Sha256};
use sys::containment::{Contained, Manner, contain};
use sys::files::temporary_file;
use sys::process::descendants_usage;

use crate::invocation::Invocation;
use crate::run::RunError;

/// The time between two checks for cancellation and the time limit.
const CANCEL_CHECK: Duration = Duration::from_millis(50);
/// The number of bytes at the end of standard error that are kept.
pub(crate) const STDERR_TAIL: u64 = 2048;

/// The result of one run of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// Its exit status.
    pub status: ExitStatus,
    /// The time from its start to its end.
    pub elapsed: Duration,
    /// CPU time in user mode of the program and all of its descendants. If this process waits for
    /// other children meanwhile, their time is included.
    pub user: Duration,
    /// CPU time in the kernel, likewise.
    pub system: Duration,
    /// The SHA-256 hash of its standard output.
    pub stdout_sha256: String,
    /// The length of its standard output.
    pub stdout_bytes: u64,
    /// The end of its standard error.
    pub stderr: String,
}

impl Execution {
    /// How it ended, as the rest of a sentence: its status, and the last line of its standard
    /// error, if there is one.
    pub fn ending(&self) -> String {
        let last = self.stderr.lines().rev().find(|line| !line.trim().is_empty());
        let said = last.map_or(String::new(), |last| format!(", and last said: {}", last.trim()));
        format!("{}{said}", self.status)
    }
}

/// Limits of a program's run.
#[derive(Clone, Copy, Debug)]
pub struct RunLimits<'a> {
    /// Ends the program once this is true.
    pub cancel: &'a AtomicBool,
    /// The longest time that the program may run.
    pub limit: Option<Duration>,
}

/// Why a program was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// The run was cancelled.
    Cancelled,
    /// It ran longer than the limit.
    TimedOut,
}

impl Invocation {
    /// Runs the program to its end with `command`, made by [`Invocation::command`]. The program has
    /// an empty standard input and its own process group. Its output is not shown. Blocks until it
    /// ends, or is interrupted and ended. Nothing that it starts survives it.
    ///
    /// # Errors
    /// If it cannot be started or observed. A program that fails is not an error.
    pub fn execute(
        &self,
        command: &mut Command,
        limits: RunLimits<'_>,
    ) -> Result<Result<Execution, Interruption>, RunError> {
        // Files need no reader during the run, unlike pipes.
        let outputs = || Ok::<_, io::Error>([temporary_file()?, temporary_file()?]);
        let [mut stdout, mut stderr] = outputs().map_err(RunError::Output)?;
        command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
        let lifeline = contain(command, Manner::Background)?;
        let (started, before) = (Instant::now(), descendants_usage());
        let mut program = Contained::new(self.spawn(command)?, lifeline);
        let status = match wait_for_end(&mut program, limits)? {
            Ok(status) => status,
            Err(interruption) => return Ok(Err(interruption)),
        };
        let elapsed = started.elapsed();
        let used = descendants_usage().since(before);
        let (user, system) = (used.cpu.saturating_sub(used.system), used.system);
        let (stdout_sha256, stdout_bytes) = stdout.rewind().and_then(|()| hash(stdout)).map_err(RunError::Output)?;
        let stderr = end_of_stderr(&mut stderr).map_err(RunError::Output)?;
        Ok(Ok(Execution { status, elapsed, user, system, stdout_sha256, stdout_bytes, stderr }))
    }
}

/// Waits until the program ends, and ends it if it is interrupted.
fn wait_for_end(program: &mut Contained, limits: RunLimits<'_>) -> Result<Result<ExitStatus, Interruption>, RunError> {
    let started = Instant::now();
    let interruption = || match limits.limit {
        _ if limits.cancel.load(Relaxed) => Some(Interruption::Cancelled),
        Some(limit) if started.elapsed() > limit => Some(Interruption::TimedOut),
        _ => None,
    };
    let mut ended_for = None;
    loop {
        if let Some(status) = program.wait_for(CANCEL_CHECK)? {
            let is_cancelled = limits.cancel.load(Relaxed).then_some(Interruption::Cancelled);
            return Ok(ended_for.or(is_cancelled).map_or(Ok(status), Err));
        }
        if is_stopped_by_terminal(program) {
            return Err(RunError::Terminal);
        }
        ended_for = ended_for.or_else(|| interruption().inspect(|_| program.end()));
    }
}

/// Whether a program was stopped because it accessed its terminal from the background.
fn is_stopped_by_terminal(program: &Contained) -> bool {
    std::iter::from_fn(|| program.next_stop())
        .any(|signal| [Signal::TTIN, Signal::TTOU].map(Signal::as_raw).contains(&signal))
}

/// The SHA-256 hash and the number of the bytes that a reader returns.
fn hash(mut content: impl Read) -> io::Result<(String, u64)> {
    let (mut hasher, mut block, mut length) = (Sha256::new(), Vec::new(), 0);
    // `read_to_end` repeats reads that a signal interrupts, unlike `read`.
    while content.by_ref().take(1 << 16).read_to_end(&mut block)? > 0 {
        hasher.update(&block);
        length += block.len() as u64;
        block.clear();
    }
    Ok((crate::hex(&hasher.finalize()), length))
}

fn end_of_stderr(file: &mut File) -> io::Result<String> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(STDERR_TAIL)))?;
    let mut bytes = Vec::new();
    file.take(STDERR_TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, limits: RunLimits<'_>) -> Result<Execution, Interruption> {
        let invocation = Invocation::new("sh".as_ref(), &["-c".into(), script.into()]);
        invocation.execute(&mut invocation.command(), limits).unwrap()
    }

    #[test]
    fn only_a_program_that_takes_too_long_is_ended() {
        let cancel = AtomicBool::new(false);
        let limits = |limit| RunLimits { cancel: &cancel, limit: Some(limit) };
        assert_eq!(run("exec sleep 600", limits(Duration::ZERO)), Err(Interruption::TimedOut));
        assert_eq!(run("exit 3", limits(Duration::MAX)).unwrap().status.code(), Some(3));
    }

    #[test]
    fn reads_that_a_signal_interrupts_are_repeated() {
        struct Interrupted(bool, &'static [u8]);
        impl Read for Interrupted {
            fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
                self.0 = !self.0;
                if self.0 { Err(io::ErrorKind::Interrupted.into()) } else { self.1.read(bytes) }
            }
        }
        let (hash, length) = hash(Interrupted(false, b"abc")).unwrap();
        assert_eq!((&hash[..8], length), ("ba7816bf", 3));
    }

    #[test]
    fn cancellation_precedes_the_time_limit() {
        let cancel = AtomicBool::new(true);
        assert_eq!(
            run("exec sleep 600", RunLimits { cancel: &cancel, limit: Some(Duration::ZERO) }),
            Err(Interruption::Cancelled)
        );
    }
}
