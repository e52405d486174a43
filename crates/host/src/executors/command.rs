//! The executor of a `command` job: starts the command, measures it, and ends all of its processes
//! with it.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::process::{ChildStderr, Command, ExitStatus, Stdio};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, pidfd_open};
use sys::containment::{Contained, Manner};
use sys::process::{Usage, descendants_usage};

use super::{begun, next_request, outcome, reply_ready};
use crate::protocol::{Failure, Reply, Request, RequestReader, reply};

/// The number of bytes at the end of a command's standard error that are kept in case it fails.
const STDERR_TAIL: usize = 2048;

/// Runs one job. When it returns, no descendant is left.
pub(crate) fn serve(
    job: &str,
    argv: &[String],
    keep_running: bool,
    mut requests: RequestReader,
) -> Result<(), Failure> {
    reply_ready(Vec::new())?;
    let Some(Request::Go(at)) = next_request(&mut requests)? else { return Ok(()) };
    let started = begun(at);
    let mut replied = false;
    while keep_running || !replied {
        let Some(Ended { status, ended, stderr, before }) = execute(argv, &mut requests)? else { return Ok(()) };
        if !status.success() {
            let (command, stderr) = (shortened(argv.join(" ")), end_of_stderr(&stderr));
            return Err(format!("`{command}` failed with {status}{stderr}").into());
        }
        let usage = descendants_usage().since(before);
        if !replied {
            let completion = ended.saturating_duration_since(started);
            reply(&Reply::Finished(outcome(job, Some(completion.into()), usage).into()))
                .map_err(Failure::io("cannot reply"))?;
            replied = true;
        }
    }
    // The run decides when its jobs end.
    while next_request(&mut requests)?.is_some_and(|request| request != Request::Stop) {}
    Ok(())
}

/// A command that has ended.
struct Ended {
    status: ExitStatus,
    ended: Instant,
    stderr: String,
    /// The usage of earlier commands.
    before: Usage,
}

/// Runs the command once. Returns `None` if the run ends the job before the command ends.
fn execute(argv: &[String], requests: &mut RequestReader) -> Result<Option<Ended>, Failure> {
    let failed = |what: &str| Failure::io(format!("{what} `{}`", argv.join(" ")));
    let Some((program, arguments)) = argv.split_first() else {
        return Err("the command line is empty".to_owned().into());
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());

    let before = descendants_usage();
    let mut contained = Contained::start(&mut command, Manner::Background).map_err(failed("cannot start"))?;
    let mut stderr =
        contained.process().stderr.take().map(Tail::new).transpose().map_err(failed("cannot read from"))?;
    loop {
        let request_arrived = wait_for_any(&contained, requests, stderr.as_ref()).map_err(failed("cannot wait for"))?;
        let status = contained.process().try_wait().map_err(failed("cannot wait for"))?;
        let ended = Instant::now();
        // The command has ended, so the pipe contains everything that it wrote.
        if let Some(tail) = &mut stderr {
            tail.read_available();
        }
        if let Some(status) = status {
            let stderr = stderr.map(Tail::into_text).unwrap_or_default();
            return Ok(Some(Ended { status, ended, stderr, before }));
        }
        if request_arrived && should_end(requests).map_err(failed("cannot read from the run about"))? {
            return Ok(None);
        }
    }
}

/// Sleeps until the command ends, or the run or the command writes something. Returns whether the
/// run has written.
fn wait_for_any(command: &Contained, requests: &RequestReader, stderr: Option<&Tail>) -> io::Result<bool> {
    let end = pidfd_open(command.id(), PidfdFlags::empty())?;
    let mut watched = vec![PollFd::new(&end, PollFlags::IN), PollFd::new(requests.descriptor(), PollFlags::IN)];
    watched.extend(stderr.filter(|tail| tail.open).map(|tail| PollFd::new(&tail.pipe, PollFlags::IN)));
    match poll(&mut watched, None) {
        Ok(_) | Err(Errno::INTR) => Ok(!watched[1].revents().is_empty()),
        Err(why) => Err(why.into()),
    }
}

/// Whether the run asks to stop or is gone. Call it after the run wrote something.
fn should_end(requests: &mut RequestReader) -> io::Result<bool> {
    let gone = !requests.fill()?;
    let mut stop = false;
    while let Some(request) = requests.pop() {
        stop |= request? == Request::Stop;
    }
    Ok(gone || stop)
}

/// The end of the data from a pipe.
struct Tail {
    pipe: ChildStderr,
    bytes: VecDeque<u8>,
    /// Whether the pipe still has a writer.
    open: bool,
}

impl Tail {
    fn new(pipe: ChildStderr) -> io::Result<Tail> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Tail { pipe, bytes: VecDeque::new(), open: true })
    }

    /// Reads the available data.
    fn read_available(&mut self) {
        let mut bytes = [0; 4096];
        // At most one pipe capacity: a process could write forever.
        for _ in 0..16 {
            match self.pipe.read(&mut bytes) {
                Ok(0) => self.open = false,
                Ok(length) => {
                    self.bytes.extend(&bytes[..length]);
                    self.bytes.drain(..self.bytes.len().saturating_sub(STDERR_TAIL));
                    continue;
                }
                Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => self.open = false,
            }
            return;
        }
    }

    /// The last lines. They are complete, unless there is only one.
    fn into_text(self) -> String {
        let truncated = self.bytes.len() == STDERR_TAIL;
        let text = String::from_utf8_lossy(&Vec::from(self.bytes)).into_owned();
        match text.split_once('\n') {
            Some((_, lines)) if truncated && !lines.is_empty() => lines.to_owned(),
            _ => text,
        }
    }
}

/// A command line, shortened to what is needed to recognize it.
fn shortened(command: String) -> String {
    const LONGEST: usize = 200;
    match command.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{} ...", &command[..end]),
        None => command,
    }
}

/// The end of the standard error of a failed command, as the rest of a sentence.
fn end_of_stderr(stderr: &str) -> String {
    match stderr.trim_end() {
        "" => "; it wrote nothing to its standard error".to_owned(),
        text => {
            /// More lines would push the message off the screen.
            const LINES: usize = 20;
            let lines: Vec<&str> = text.lines().collect();
            format!("; the end of its standard error:\n  {}", lines[lines.len().saturating_sub(LINES)..].join("\n  "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_standard_error_is_short() {
        assert!(end_of_stderr(" \n").contains("nothing"));
        let many: String = (0..100).map(|line| format!("line {line}\n")).collect();
        let shown = end_of_stderr(&many);
        assert!(
            shown.ends_with("line 99") && !shown.contains("line 79") && shown.contains("\n  line 80\n  line 81\n"),
            "{shown}"
        );
    }
}
