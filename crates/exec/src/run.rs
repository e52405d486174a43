//! A program that is watched: it runs as a child, everything that is meant for it reaches it, and its end is known.
//!
//! The child stays in the process group that this process is in, so the terminal speaks to both: what the kernel sends at somebody's
//! Ctrl-C or Ctrl-Z reaches the child without us, and is not passed on. What another process sends is sent to one number, mostly ours,
//! and is. (Who sends it to the whole group, as `timeout` does, sends it to the child twice.) When the child stops, whoever has stopped it,
//! this process stops too, so that a shell sees a job that is stopped; and when that goes on, the child is told to.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use counters::{ProcessReport, RegionError};
use rustix::io::Errno;
use rustix::process::{Pid, Signal as Number, WaitOptions, getpid, kill_process, waitpid};
use sys::signals::{BlockedSignals, Signal, real_time};

use crate::book::OwnBook;
use crate::invocation::{Invocation, StartError};
use crate::launch::Launch;

/// What a terminal sends to all of its processes.
const OF_TERMINALS: [Number; 7] =
    [Number::INT, Number::QUIT, Number::HUP, Number::TSTP, Number::TTIN, Number::TTOU, Number::WINCH];
/// What else is passed on. Errors of this process itself are not, nor what the kernel says of its own resources.
const OTHERS: [Number; 11] = [
    Number::TERM,
    Number::USR1,
    Number::USR2,
    Number::CONT,
    Number::ALARM,
    Number::VTALARM,
    Number::PROF,
    Number::ABORT,
    Number::IO,
    Number::POWER,
    Number::URG,
];

/// How a program ended, and what its waits came to.
#[derive(Clone, Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// From its start to its end.
    pub elapsed: Duration,
    /// What the processes did that had the library: its own, and all that it has started.
    pub entries: Vec<ProcessReport>,
    /// How many processes are not among them because there were so many.
    pub turned_away: u64,
}

/// Why a program could not be watched.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// There is no book for the report.
    #[error(
        "there is no place for what the report is made of, neither in /dev/shm nor in {folder}: {0}; let TMPDIR name a folder to write to, or do \
         without a report",
        folder = std::env::temp_dir().display()
    )]
    Book(#[from] RegionError),
    /// It could not be watched.
    #[error("cannot watch the program: {0}")]
    Watch(#[from] io::Error),
}

impl Launch {
    /// Runs the program to its end. Blocks until then; no other thread of this process should run.
    ///
    /// # Errors
    /// When it cannot be started or watched.
    pub fn run(&self) -> Result<Ended, RunError> {
        let own = OwnBook::create()?;
        let (status, elapsed) = self.invocation.run(&mut self.helped(Some(&own.path)))?;
        Ok(Ended { status, elapsed, entries: own.book.processes(), turned_away: own.book.rejected() })
    }
}

impl Invocation {
    /// Runs `command`, which was made of this, to its end, as [`Launch::run`] does, with its input and output as they are for this process.
    ///
    /// # Errors
    /// When it cannot be started or watched.
    pub fn run(&self, command: &mut Command) -> Result<(ExitStatus, Duration), RunError> {
        let passed: Vec<i32> = OF_TERMINALS.iter().chain(&OTHERS).map(|number| number.as_raw()).collect();
        let held: Vec<i32> = passed.into_iter().chain(real_time()).chain([Number::CHILD.as_raw()]).collect();
        let held = BlockedSignals::new(&held)?;
        held.unblock_in(command);
        let started = Instant::now();
        let child = self.spawn(command)?;
        let status = watch(Pid::from_child(&child), &held)?;
        Ok((status, started.elapsed()))
    }
}

/// Ends this process as the child ended: with the same code, or by the same signal.
pub fn end_as(status: ExitStatus) -> ! {
    if let Some(signal) = status.signal() {
        sys::signals::die_of(signal);
    }
    std::process::exit(status.code().unwrap_or(1))
}

/// Passes signals to the child until it has ended.
fn watch(child: Pid, held: &BlockedSignals) -> io::Result<ExitStatus> {
    loop {
        let signal = held.next()?;
        if signal.number == Number::CHILD.as_raw() {
            if let Some(status) = news_of(child)? {
                return Ok(status);
            }
        } else if is_passed_on(signal) {
            // It has not been waited for, so the number is still its own. If it runs with other rights by now, who sent the
            // signal could not have sent it to the program either.
            let _ = sys::signals::send(child, signal.number);
        }
    }
}

/// Whether the child does not know of it yet.
fn is_passed_on(Signal { number, from_kernel }: Signal) -> bool {
    let is_of_terminals = OF_TERMINALS.iter().any(|of_terminals| of_terminals.as_raw() == number);
    // An alarm that was set before this program was executed is the only thing else that the kernel sends on its own.
    !(from_kernel && is_of_terminals)
}

/// How the child has ended, if it has. Stops with it if it has stopped.
fn news_of(child: Pid) -> io::Result<Option<ExitStatus>> {
    loop {
        match waitpid(Some(child), WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            Ok(Some((_, status))) if status.stopped() => {
                // The signal that ends this is held back like others, and then passed on: that makes the child go on, once.
                kill_process(getpid(), Number::STOP)?;
            }
            Ok(Some((_, status))) => return Ok(Some(ExitStatus::from_raw(status.as_raw()))),
            Ok(None) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_terminal_says_to_all_is_not_said_again() {
        let signal = |number: Number, from_kernel| Signal { number: number.as_raw(), from_kernel };
        assert!(!is_passed_on(signal(Number::INT, true)) && is_passed_on(signal(Number::INT, false)));
        assert!(is_passed_on(signal(Number::ALARM, true)) && is_passed_on(signal(Number::TERM, false)));
    }
}
