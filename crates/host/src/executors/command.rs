//! The process of a `command` job: it starts the command, measures it, and leaves nothing of it behind.
//!
//! A command may start processes of its own, and those may turn away from their parent, as daemons do. The supervisor
//! adopts such orphans, so whatever the command has started descends from the supervisor and can be found in `/proc` and
//! killed. For that it must outlive the run, if only for a moment: once there is a command, it is the end of its input
//! that tells it that the run is gone, and not the kernel, which could only kill it.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use policy::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, pidfd_send_signal};
use scenario::result::JobOutcome;
use sys::process::{RequestsToEnd, Usage, adopt_orphans, descendants_usage, end_with_this_thread, survive_the_parent};

use crate::procfs::descendants;
use crate::protocol::{Failure, Reply, Request};
use crate::protocol::{RequestReader, reply};
use crate::units::span;

/// How much of the end of a command's standard error is kept for the message, should it fail.
const LAST_WORDS: usize = 2048;

/// How often orphans that have ended are buried while the command runs.
const REAPING: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// How long descendants may take to die of SIGKILL. Only one that the kernel holds in the middle of a system call, or
/// that belongs to another user, takes longer than a moment.
const DYING: Duration = Duration::from_secs(5);

/// Supervises one job. Returns when there is nothing more to do; no descendant is left then.
pub(crate) fn serve(
    job: &str,
    argv: &[String],
    keep_running: bool,
    mut requests: RequestReader,
) -> Result<(), Failure> {
    adopt_orphans().map_err(Failure::io("cannot adopt orphans"))?;
    reply(&Reply::Ready { threads: Vec::new() }).map_err(Failure::io("cannot reply"))?;
    let Some(Request::Go) = hear(&mut requests)? else { return Ok(()) };
    survive_the_parent().map_err(Failure::io("cannot survive the run"))?;

    let mut told = false;
    while keep_running || !told {
        let ended = execute(argv, &mut requests);
        kill_descendants()?;
        let Some(Ended { status, completion, stderr, before }) = ended? else { return Ok(()) };
        if !status.success() {
            return Err(Failure::CommandFailed { status: status.to_string(), stderr });
        }
        let usage = descendants_usage().since(before);
        if !told {
            reply(&Reply::Finished(outcome(job, completion, usage))).map_err(Failure::io("cannot reply"))?;
            told = true;
        }
    }
    // The run ends its jobs in its own time.
    while hear(&mut requests)?.is_some_and(|request| request != Request::Stop) {}
    Ok(())
}

fn hear(requests: &mut RequestReader) -> Result<Option<Request>, Failure> {
    requests.wait().map_err(Failure::io("cannot hear the run"))
}

fn outcome(job: &str, completion: Span, usage: Usage) -> JobOutcome {
    JobOutcome {
        job: job.to_owned(),
        completion_ns: Some(completion),
        cpu_ns: Some(span(usage.cpu)),
        voluntary_switches: Some(usage.voluntary_switches),
        involuntary_switches: Some(usage.involuntary_switches),
        ..JobOutcome::default()
    }
}

/// A command that has ended; its descendants may still run.
struct Ended {
    status: ExitStatus,
    completion: Span,
    stderr: String,
    /// What earlier commands had used.
    before: Usage,
}

/// Runs the command once, to its end, or until the run wants no more of it: then nothing comes out.
fn execute(argv: &[String], requests: &mut RequestReader) -> Result<Option<Ended>, Failure> {
    let failed = |what: &str| Failure::io(format!("{what} `{}`", argv.join(" ")));
    let Some((program, arguments)) = argv.split_first() else {
        return Err(Failure::Other { message: "a command line of no words".into() });
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    end_with_this_thread(&mut command, RequestsToEnd::Obey);

    let (before, started) = (descendants_usage(), Instant::now());
    let mut child = command.spawn().map_err(failed("cannot start"))?;
    let mut stderr = child.stderr.take().map(Tail::new).transpose().map_err(failed("cannot listen to"))?;
    let pid = Pid::from_child(&child);
    let end = pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from).map_err(failed("cannot watch"))?;
    loop {
        let told = watch(&end, requests, stderr.as_ref()).map_err(failed("cannot watch"))?;
        let status = bury(pid).map_err(failed("cannot wait for"))?;
        let completion = span(started.elapsed());
        // After the burial: whatever the command said, it has said by now.
        if let Some(tail) = &mut stderr {
            tail.listen();
        }
        if let Some(status) = status {
            let stderr = stderr.map(Tail::into_text).unwrap_or_default();
            return Ok(Some(Ended { status, completion, stderr, before }));
        }
        if told && ends(requests).map_err(failed("cannot hear the run about"))? {
            return Ok(None);
        }
    }
}

/// Sleeps until the command ends, the run says something or the command does; whether it was the run.
fn watch(end: &OwnedFd, requests: &RequestReader, stderr: Option<&Tail>) -> io::Result<bool> {
    let mut watched = vec![PollFd::new(end, PollFlags::IN), PollFd::new(requests.descriptor(), PollFlags::IN)];
    watched.extend(stderr.filter(|tail| tail.open).map(|tail| PollFd::new(&tail.pipe, PollFlags::IN)));
    match poll(&mut watched, Some(&REAPING)) {
        Ok(_) | Err(Errno::INTR) => Ok(!watched[1].revents().is_empty()),
        Err(why) => Err(why.into()),
    }
}

/// Whether the run wants no more of the command, after it has said something: it said so, or it is gone.
fn ends(requests: &mut RequestReader) -> io::Result<bool> {
    let gone = !requests.fill()?;
    let mut stop = false;
    while let Some(request) = requests.pop() {
        stop |= request? == Request::Stop;
    }
    Ok(gone || stop)
}

/// Buries all children that have ended, orphans too. How the child `of_interest` ended, if it was among them.
fn bury(of_interest: Pid) -> io::Result<Option<ExitStatus>> {
    let mut found = None;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == of_interest => found = Some(ExitStatus::from_raw(status.as_raw())),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) | Err(Errno::CHILD) => return Ok(found),
            Err(why) => return Err(why.into()),
        }
    }
}

/// Kills and buries all descendants. They may go on multiplying meanwhile, so it repeats until there are none.
fn kill_descendants() -> Result<(), Failure> {
    let own = getpid().as_raw_nonzero().get();
    let started = Instant::now();
    loop {
        // Every descendant is a child or descends from one, so none is left when there is no child.
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => continue,
            Err(Errno::CHILD) => return Ok(()),
            Ok(None) => {}
            Err(why) => return Err(Failure::io("cannot wait for what the command left")(why)),
        }
        // A descriptor holds on to whoever has the id by then; a second look tells whether that is still a descendant.
        // Where there is none the process is gone already.
        let held = descendants(own).into_iter().filter_map(|id| {
            let process = pidfd_open(Pid::from_raw(id)?, PidfdFlags::empty()).ok()?;
            Some((id, process))
        });
        let held: Vec<_> = held.collect();
        let left = descendants(own);
        for (_, process) in held.iter().filter(|(id, _)| left.contains(id)) {
            // One that cannot be killed is still there in the next round.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
        if started.elapsed() > DYING {
            let message = format!("the command has left processes that cannot be killed: {left:?}");
            return Err(Failure::Other { message });
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The end of what comes through a pipe.
struct Tail {
    pipe: ChildStderr,
    bytes: VecDeque<u8>,
    /// Whether anybody has the other end of the pipe.
    open: bool,
}

impl Tail {
    fn new(pipe: ChildStderr) -> io::Result<Tail> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Tail { pipe, bytes: VecDeque::new(), open: true })
    }

    /// Takes in what is there.
    fn listen(&mut self) {
        let mut bytes = [0; 4096];
        // As much as a pipe holds, and no more: somebody may write for ever.
        for _ in 0..16 {
            match self.pipe.read(&mut bytes) {
                Ok(0) => self.open = false,
                Ok(length) => {
                    self.bytes.extend(&bytes[..length]);
                    self.bytes.drain(..self.bytes.len().saturating_sub(LAST_WORDS));
                    continue;
                }
                Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => self.open = false,
            }
            return;
        }
    }

    /// The last lines, whole ones unless there is only one.
    fn into_text(self) -> String {
        let cut = self.bytes.len() == LAST_WORDS;
        let text = String::from_utf8_lossy(&Vec::from(self.bytes)).into_owned();
        match text.split_once('\n') {
            Some((_, lines)) if cut && !lines.is_empty() => lines.to_owned(),
            _ => text,
        }
    }
}
