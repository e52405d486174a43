//! Runs a program as a child, forwards signals to it, and waits for its end.
//!
//! The child is the keeper of the program, which passes signals on to it and ends as it does (see
//! `sys::containment`).
//!
//! The program stays in the process group of this process, so a signal of the terminal, such as for
//! Ctrl-C or Ctrl-Z, reaches the program as well and is not forwarded. Another process usually
//! sends a signal to this process alone, so it is forwarded. (If it is sent to the whole group, as
//! by `timeout`, the program gets it twice.) When the program is stopped, this process stops too,
//! so that a shell sees a stopped job. When this process continues, so does the program.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use counters::{ProcessReport, Region, RegionError};
use rustix::process::{Signal, getpid, kill_process};
use sys::containment::{Contained, Manner, contain};
use sys::deferred_stops::DeferredStops;
use sys::signals::{BlockedSignals, send};

use crate::invocation::{Invocation, StartError};
use crate::launch::Launch;

/// How a program ended, and the statistics of its waits.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// The time from its start to its end.
    pub elapsed: Duration,
    /// The reports of all processes that had the library: the program and all that it started.
    pub processes: Vec<ProcessReport>,
    /// The number of processes without a report, because there were too many.
    pub rejected: u64,
    /// The number of processes whose report was lost, at least: there was no memory for it, or the
    /// program has overwritten it.
    pub lost: u64,
}

/// Why a program could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// There is no region for the report.
    #[error("there is no place for the statistics of the report: {0}; do without a report")]
    NoRegion(#[from] RegionError),
    /// Its output could not be kept while it was [executed](Launch::execute).
    #[error("cannot keep the output of the program: {0}")]
    Output(#[source] io::Error),
    /// It was stopped because it accessed the terminal while it was [executed](Launch::execute).
    #[error(
        "the program uses the terminal, which is not available to it while it is compared: run a part of it that does not, or \
         redirect its input"
    )]
    Terminal,
    /// It could not be observed.
    #[error("cannot run the program: {0}")]
    Run(#[from] io::Error),
}

impl Launch {
    /// Runs the program and blocks until it ends. No other thread of this process should run.
    ///
    /// # Errors
    /// If it cannot be started or observed.
    pub fn run(&self) -> Result<Ended, RunError> {
        let (region, file) = Region::unnamed()?;
        let (status, elapsed) = self.invocation.run(&mut self.preloading_command(Some(file.path())))?;
        let (processes, rejected, lost) = (region.processes(), region.rejected(), region.lost());
        Ok(Ended { status, elapsed, processes, rejected, lost })
    }
}

impl Invocation {
    /// Runs `command`, made by [`Invocation::command`], as [`Launch::run`] does, with this
    /// process's input and output.
    ///
    /// # Errors
    /// If it cannot be started or observed.
    pub fn run(&self, command: &mut Command) -> Result<(ExitStatus, Duration), RunError> {
        let blocked = BlockedSignals::for_start()?;
        let lifeline = contain(command, Manner::Foreground)?;
        blocked.unblock_in(command);
        let started = Instant::now();
        let deferred = DeferredStops::new()?;
        let mut program = Contained::new(self.spawn(command)?, lifeline);
        drop(deferred);
        let status = forward_signals(&mut program, &blocked)?;
        Ok((status, started.elapsed()))
    }
}

/// Ends this process as the child ended: with the same code or by the same signal.
pub fn end_as(status: ExitStatus) -> ! {
    if let Some(signal) = status.signal() {
        sys::signals::die_of(signal);
    }
    std::process::exit(status.code().unwrap_or(1))
}

/// Forwards signals to the program until it has ended.
fn forward_signals(program: &mut Contained, blocked: &BlockedSignals) -> io::Result<ExitStatus> {
    loop {
        let signal = blocked.next()?;
        if signal.number != Signal::CHILD.as_raw() {
            if signal.should_forward() {
                // Its keeper has not been reaped, so the id is valid.
                let _ = send(program.id(), signal.number);
            }
            continue;
        }
        if let Some(status) = program.process().try_wait()? {
            return Ok(status);
        }
        if program.next_stop().is_some() {
            // SIGCONT, which ends this stop, is blocked like others and then forwarded, so the
            // program continues.
            kill_process(getpid(), Signal::STOP)?;
        }
    }
}
