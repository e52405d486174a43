//! One run of a program, out of the way: nothing to read, what it prints kept aside, its end and its time known.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid};
use sha2::{Digest, Sha256};
use sys::process::{RequestsToEnd, descendants_usage, end_with_this_thread};

use crate::invocation::{Invocation, StartError};

/// How often it is looked whether to stop.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// How long a program is asked to end before it is made to.
const GRACE: Duration = Duration::from_secs(2);
/// How much of the end of what a program says on standard error is kept.
pub(crate) const LAST_WORDS: u64 = 2048;

/// What became of a program in one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// How it ended.
    pub status: ExitStatus,
    /// From its start to its end.
    pub elapsed: Duration,
    /// CPU time outside of the kernel of it and of its children that it has waited for. Where this process waits for other children meanwhile,
    /// theirs is in it.
    pub user: Duration,
    /// CPU time in the kernel, likewise.
    pub system: Duration,
    /// What it printed on standard output, as SHA-256.
    pub stdout_sha256: String,
    /// How much that was.
    pub stdout_bytes: u64,
    /// The end of what it said on standard error.
    pub stderr: String,
}

/// How long a program may run.
#[derive(Clone, Copy, Debug)]
pub struct Until<'a> {
    /// Until this becomes true.
    pub cancel: &'a AtomicBool,
    /// And no longer than this.
    pub limit: Option<Duration>,
}

/// Why a program did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It was to stop.
    Cancelled,
    /// It took too long.
    Overdue,
}

/// Why a program could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// It could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It has been stopped because it asked for the terminal.
    #[error(
        "the program wants to speak with the terminal, which is not its own while it is compared: run a part of it that does not, or \
         redirect what it asks"
    )]
    Terminal,
    /// It could not be measured.
    #[error("cannot run the program: {0}")]
    Run(#[from] io::Error),
}

impl Invocation {
    /// Runs the program to its end, as `command`, which was made of [`Invocation::command`]. Its standard input is empty, and it has a
    /// process group of its own; its output is not shown. Blocks until its end; what is cut short is ended with all of its group.
    ///
    /// # Errors
    /// When it cannot be started or watched. That it fails is none.
    pub fn execute(&self, command: &mut Command, until: Until<'_>) -> Result<Result<Execution, Cut>, ExecuteError> {
        // Files rather than pipes, so that nobody has to run meanwhile to empty them.
        let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?).process_group(0);
        end_with_this_thread(command, RequestsToEnd::Obey);
        let (started, before) = (Instant::now(), descendants_usage());
        let mut child = self.spawn(command)?;
        let status = match outlast(&mut child, until)? {
            Ok(status) => status,
            Err(cut) => return Ok(Err(cut)),
        };
        let elapsed = started.elapsed();
        let used = descendants_usage().since(before);
        let (stdout_sha256, stdout_bytes) = hash(&mut stdout)?;
        let (user, system) = (used.cpu.saturating_sub(used.system), used.system);
        Ok(Ok(Execution {
            status,
            elapsed,
            user,
            system,
            stdout_sha256,
            stdout_bytes,
            stderr: last_words(&mut stderr)?,
        }))
    }
}

/// Waits until the child ends; or ends its group, and nothing comes out.
fn outlast(child: &mut Child, until: Until<'_>) -> Result<Result<ExitStatus, Cut>, ExecuteError> {
    let group = Pid::from_child(child);
    let end = pidfd_open(group, PidfdFlags::empty()).map_err(io::Error::from)?;
    let started = Instant::now();
    let cut = || match until.limit {
        _ if until.cancel.load(Relaxed) => Some(Cut::Cancelled),
        Some(limit) if started.elapsed() > limit => Some(Cut::Overdue),
        _ => None,
    };
    let mut asked: Option<(Instant, Cut)> = None;
    loop {
        match poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&LOOK)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(why) => return Err(io::Error::from(why).into()),
        }
        if let Some(status) = child.try_wait()? {
            let Some(cut) = asked.map(|(_, cut)| cut).or_else(|| cut().filter(|&cut| cut == Cut::Cancelled)) else {
                return Ok(Ok(status));
            };
            // What is left of its group has had its chance.
            let _ = kill_process_group(group, Signal::KILL);
            return Ok(Err(cut));
        }
        if asked.is_none() && wants_the_terminal(group)? {
            let _ = kill_process_group(group, Signal::KILL);
            child.wait()?;
            return Err(ExecuteError::Terminal);
        }
        // Where there is nobody left to be told, the child is about to be found ended.
        let _ = match (asked, cut()) {
            (None, Some(cut)) => {
                asked = Some((Instant::now(), cut));
                kill_process_group(group, Signal::TERM)
            }
            (Some((asked, _)), _) if asked.elapsed() > GRACE => kill_process_group(group, Signal::KILL),
            _ => Ok(()),
        };
    }
}

/// Whether a child was stopped because it is in the background of its terminal, and did what only the foreground may.
fn wants_the_terminal(child: Pid) -> io::Result<bool> {
    let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let stopped_by = waitid(WaitId::Pid(child), options)?.and_then(|status| status.stopping_signal());
    Ok([Signal::TTIN, Signal::TTOU].iter().any(|signal| stopped_by == Some(signal.as_raw())))
}

fn hash(file: &mut File) -> io::Result<(String, u64)> {
    file.rewind()?;
    let mut hasher = Sha256::new();
    let mut bytes = vec![0; 1 << 16];
    let mut length = 0;
    loop {
        match file.read(&mut bytes)? {
            0 => break,
            read => {
                hasher.update(&bytes[..read]);
                length += read as u64;
            }
        }
    }
    Ok((hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect(), length))
}

fn last_words(file: &mut File) -> io::Result<String> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_WORDS)))?;
    let mut bytes = Vec::new();
    file.take(LAST_WORDS).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, until: Until<'_>) -> Result<Execution, Cut> {
        let invocation = Invocation::new("sh".as_ref(), &["-c".into(), script.into()]);
        invocation.execute(&mut invocation.command(), until).unwrap()
    }

    #[test]
    fn what_takes_too_long_is_ended_and_what_does_not_is_not() {
        let cancel = AtomicBool::new(false);
        let until = |limit| Until { cancel: &cancel, limit: Some(limit) };
        assert_eq!(run("exec sleep 600", until(Duration::ZERO)), Err(Cut::Overdue));
        assert_eq!(run("exit 3", until(Duration::MAX)).unwrap().status.code(), Some(3));
    }

    #[test]
    fn who_is_told_to_stop_is_not_overdue() {
        let cancel = AtomicBool::new(true);
        assert_eq!(run("exec sleep 600", Until { cancel: &cancel, limit: Some(Duration::ZERO) }), Err(Cut::Cancelled));
    }
}
