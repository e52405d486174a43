//! The protocol between a run and the processes of its jobs.
//!
//! They exchange JSON values, one per line, on the jobs' standard input and output. The end of a
//! job's input means that the run is gone.
//!
//! ```text
//!   run                                     job
//!    | -- Order ---------------------------> |    the job's task
//!    | <--------------------------- Ready -- |    every thread waits at the gate
//!    | -- Go ------------------------------> |    with the time
//!    | -- Count ---------------------------> |    endless jobs: count from here
//!    | <-------- Recorded, if requested ---- |
//!    | <-------- EventLog, if requested ---- |    many times
//!    | <------------------------ Finished -- |    or Failed, at any time
//!    | -- Stop ----------------------------> |    endless jobs finish
//!    | <-------------------------- CutOff -- |    jobs with rounds, if they are not finished yet
//! ```
//!
//! The process of a `message` job starts one for each rank, and is the run to them.

use std::ffi::OsString;
use std::io::{self, Write, stdout};
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use policy::Span;
use policy::record::RecordedStep;
use policy::waiting::Costs;
use scenario::Job;
use scenario::result::JobOutcome;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::event_log::EventLog;
use crate::workload::Rate;

/// The argument that makes the program the process of a job.
pub(crate) const JOB: &str = "__job";

/// Reads a job's requests from its standard input.
pub(crate) type RequestReader = MessageReader<BorrowedFd<'static>, Request>;

/// The task of a job's process: the job, and the figures of this machine that it needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The job. Its name has the number of the copy.
    pub(crate) job: Job,
    pub(crate) seed: u64,
    /// Draws are rounded down to a multiple of this.
    pub(crate) step: Span,
    /// The costs for waiting rules.
    pub(crate) costs: Costs,
    /// The number of CPUs for waiting rules.
    pub(crate) cpus: u32,
    /// The number of requests that the device of a pipeline serves at a time.
    pub(crate) device_depth: u32,
    /// The speed of computation.
    pub(crate) rate: Rate,
    /// Whether it continues after its end until it is told to stop.
    pub(crate) keep_running: bool,
    /// The record to make.
    pub(crate) recording: Recording,
    /// The rank of the job that the process is. `None` for the process of the whole job.
    pub(crate) rank: Option<Rank>,
}

/// A rank of a `message` job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rank {
    pub(crate) number: u32,
    /// The number of all ranks.
    pub(crate) ranks: u32,
    /// The path of the memory that they share.
    pub(crate) memory: PathBuf,
}

impl Rank {
    /// The variables by which its process finds the others.
    pub(crate) fn environment(&self) -> impl Iterator<Item = (&'static str, OsString)> {
        message::environment::of_rank(self.number, self.ranks, Some(&self.memory))
    }
}

/// The record of a run besides its outcome. Recording takes time, which the outcome includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Recording {
    /// None, so the outcome is representative.
    Nothing,
    /// The questions to each job's waiting rule and the decisions.
    Decisions,
    /// The events of every thread.
    Events,
}

/// A request to a running job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// The job begins, and its completion time counts from this time on `CLOCK_MONOTONIC`: it may
    /// be the turn of others when it reads this.
    Go(policy::Instant),
    Count,
    Stop,
}

/// A reply of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The job is prepared: the ids of its process and of its computing threads.
    Ready {
        process: u32,
        threads: Vec<i32>,
    },
    /// The questions to its waiting rule and the decisions, before it finishes.
    Recorded(Vec<RecordedStep>),
    /// The spins of a rank, before it finishes.
    Spun(Spins),
    /// A piece of a thread's event log, before the job finishes.
    EventLog(EventLog),
    Finished(Box<JobOutcome>),
    /// The run ends before the job: the outcome so far, and how long the job has run.
    CutOff(Box<JobOutcome>, Span),
    Failed(Failure),
}

/// How often threads spun while they waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spins {
    pub(crate) all: u64,
    pub(crate) successful: u64,
}

/// Why a job failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) message: String,
    /// Whether the scenario asks for something that this machine lacks.
    pub(crate) is_input: bool,
}

impl Failure {
    /// Makes a failure of a failed system call that attempted `what`.
    pub(crate) fn io<E: std::fmt::Display>(what: impl Into<String>) -> impl FnOnce(E) -> Failure {
        let what = what.into();
        move |why| Failure::from(format!("{what}: {why}"))
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure { message, is_input: false }
    }
}

/// Writes one value as a line.
pub(crate) fn send<T: Serialize>(mut to: impl Write, value: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Sends a reply from the process of a job to the run.
pub(crate) fn reply(reply: &Reply) -> io::Result<()> {
    send(stdout().lock(), reply)
}

/// Reads values from a pipe, one per line.
///
/// It reads the descriptor itself, without a buffer that `poll` does not know about.
#[derive(Debug)]
pub(crate) struct MessageReader<F, T> {
    from: F,
    pending: Vec<u8>,
    values: PhantomData<T>,
}

impl<F: AsFd, T: DeserializeOwned> MessageReader<F, T> {
    pub(crate) fn new(from: F) -> MessageReader<F, T> {
        MessageReader { from, pending: Vec::new(), values: PhantomData }
    }

    /// The descriptor, for `poll` while [`MessageReader::pop`] returns `None`.
    pub(crate) fn descriptor(&self) -> &F {
        &self.from
    }

    /// Reads the available data, and waits if there is none. Returns false at the end of the pipe.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 4096];
        let length = rustix::io::retry_on_intr(|| rustix::io::read(&self.from, &mut bytes))?;
        self.pending.extend_from_slice(&bytes[..length]);
        Ok(length > 0)
    }

    /// Removes the next complete line and parses it.
    pub(crate) fn pop(&mut self) -> Option<io::Result<T>> {
        let end = self.pending.iter().position(|&byte| byte == b'\n')?;
        let line: Vec<u8> = self.pending.drain(..=end).collect();
        Some(serde_json::from_slice(&line).map_err(io::Error::from))
    }

    /// Waits for the next value. Returns `None` at the end of the pipe.
    pub(crate) fn wait(&mut self) -> io::Result<Option<T>> {
        loop {
            if let Some(value) = self.pop() {
                return value.map(Some);
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use policy::waiting::WaitingRule;
    use scenario::{Compute, Distribution, Empirical, JobKind};

    use super::*;

    fn order() -> Order {
        let weights = vec![5_320.0 / 1.12816, 0.1 + 0.2];
        let values = Empirical::new([3, 5].map(Span::from_micros).to_vec(), Some(weights)).unwrap();
        let compute = Compute::Drawn(Distribution::Empirical(values));
        let waiting = "2cs+".parse::<WaitingRule>().unwrap();
        Order {
            job: Job::new(
                "a \"name\"\nin two lines",
                1,
                JobKind::Barrier { threads: 3, compute, rounds: 8_000, waiting },
            ),
            seed: 7,
            step: Span::from_nanos(1),
            costs: Costs { cs: Span::from_micros(18), margin: Span::from_micros(9), ..Costs::default() },
            cpus: 2,
            device_depth: 1,
            rate: Rate { iteration_ps: 2_345, start_ps: 31_000 },
            keep_running: true,
            recording: Recording::Decisions,
            rank: Some(Rank { number: 1, ranks: 2, memory: "/proc/1/fd/3".into() }),
        }
    }

    #[test]
    fn values_arrive_unchanged_when_a_pipe_splits_them() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut bytes = Vec::new();
        send(&mut bytes, &order()).unwrap();
        send(&mut bytes, &order()).unwrap();
        let mut reader = MessageReader::<_, Order>::new(reader);
        let (head, tail) = bytes.split_at(100);
        writer.write_all(head).unwrap();
        assert!(reader.fill().unwrap());
        assert!(reader.pop().is_none());
        writer.write_all(tail).unwrap();
        drop(writer);
        // Exactly: a rounded weight would lead to other random numbers.
        assert_eq!(reader.wait().unwrap(), Some(order()));
        assert_eq!(reader.wait().unwrap(), Some(order()));
        assert_eq!(reader.wait().unwrap(), None);
    }

    #[test]
    fn an_invalid_line_is_an_error() {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"{\"job\": 3}\n").unwrap();
        assert!(MessageReader::<_, Order>::new(reader).wait().is_err());
    }
}
