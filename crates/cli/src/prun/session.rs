//! A detached job: its agent is another process of rowlock, in a session of its own.
//!
//! Its standard output is a pipe to the `prun` that the user has called, which ends when the number
//! of the job comes through it: then all ranks have executed. Until then, messages go to the
//! standard error of that `prun`, and the agent ends with it. Afterwards it is on its own, and all
//! output goes to the [spool](crate::spool).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use ::exec::end_as;
use anyhow::{Context, anyhow};
use policy::JobId;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{set_parent_process_death_signal, setsid};
use rustix::stdio::{dup2_stderr, dup2_stdout, stderr, stdout};
use rustix::thread::set_name;
use sys::descriptors::keep_only_streams_in;
use sys::files::Draft;
use sys::process::{RequestsToEnd, end_with_this_thread, own_program};

use crate::output::print;
use crate::spool::{Record, Spool};
use crate::stop::{OrStop, Stop};

/// The variable that tells the agent of a detached job what it is. Ranks do not get it.
pub(super) const VARIABLE: &str = "ROWLOCK_DETACHED";

/// Whether this process is the agent of a detached job.
pub(super) fn is_here() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Starts an agent for the job, and prints the job's number.
pub(super) fn start() -> Result<(), Stop> {
    let mut command = own_program();
    command.args(std::env::args_os().skip(1)).env(VARIABLE, "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    // The job would keep the pipes of a script open.
    keep_only_streams_in(&mut command);
    end_with_this_thread(&mut command, RequestsToEnd::Inherit);
    let mut agent = command.spawn().context("cannot start the job's agent").or_failed()?;
    let mut number = String::new();
    let read = agent.stdout.take().map(|pipe| BufReader::new(pipe).read_line(&mut number));
    if read.is_some_and(|read| read.is_ok()) && number.ends_with('\n') {
        return print(&number);
    }
    let ended = agent.wait().context("cannot wait for the job's agent").or_failed()?;
    if ended.success() {
        return Err(Stop::Failed(anyhow!("the job's agent has ended without a job")));
    }
    end_as(ended)
}

/// The place for the output of a job that is going to start.
pub(super) struct Place {
    spool: Spool,
    files: [Draft; 2],
}

impl Place {
    /// Prepares the place for a job of the table in this folder.
    pub(super) fn prepare(table: &Path) -> Result<Place, Stop> {
        let spool = Spool::create(table).or_failed()?;
        let files = spool.files().context("cannot keep the output of a job").or_failed()?;
        Ok(Place { spool, files })
    }
}

/// The session of a detached job, which this process leads.
pub(super) struct Session {
    spool: Spool,
    job: JobId,
    record: Record,
    /// Until the job has started: its files, and the streams of this process before.
    starting: Option<Starting>,
}

struct Starting {
    files: [Draft; 2],
    report: OwnedFd,
    errors: OwnedFd,
}

impl Session {
    /// Lets the output of this process and of those that it starts go to the spool.
    pub(super) fn new(place: Place, job: JobId, record: Record) -> Result<Session, Stop> {
        let Place { spool, files } = place;
        let prepare = || {
            // It fails only for a leader of a group, which the child of a `prun` is not.
            let _ = setsid();
            // Otherwise, other programs list it as `exe`.
            let _ = set_name(c"rowlock");
            let (report, errors) = (kept(stdout())?, kept(stderr())?);
            dup2_stdout(files[0].file())?;
            dup2_stderr(files[1].file())?;
            io::Result::Ok(Starting { files, report, errors })
        };
        let starting = prepare().context("cannot detach the job").or_failed()?;
        Ok(Session { spool, job, record, starting: Some(starting) })
    }

    /// The job has started: tells its number, after which this process is on its own.
    pub(super) fn begin(&mut self) -> Result<(), Stop> {
        let Some(Starting { files, report, errors }) = self.starting.take() else { return Ok(()) };
        let begin = || {
            self.spool.add(self.job, &self.record, files)?;
            set_parent_process_death_signal(None)?;
            // It fails if the other process has ended, with which this one should have ended.
            writeln!(File::from(report), "{}", self.job)
        };
        begin().context("cannot detach the job").or_failed().inspect_err(|_| {
            self.spool.remove(self.job);
            let _ = dup2_stderr(&errors);
        })
    }

    /// The job has ended.
    pub(super) fn end(self, status: ExitStatus, time: Duration) -> io::Result<()> {
        self.spool.set_ended(self.job, self.record.clone(), status, time)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(starting) = &self.starting {
            // The reason is for the user, who has not been told a number.
            let _ = dup2_stderr(&starting.errors);
        }
    }
}

fn kept(stream: impl AsFd) -> io::Result<OwnedFd> {
    Ok(fcntl_dupfd_cloexec(stream, 3)?)
}
