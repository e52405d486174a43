//! Failures of ranks that their exit codes do not tell: a service for ranks reports them, from a
//! thread of its own, to the thread that supervises the ranks.
//!
//! The supervision ends only when all reporters have ended, so that the outcome of a job does not
//! depend on what comes first, the end of a rank or the report about it. They are told when
//! all ranks have ended. A process that survives its rank, and holds a connection, does not delay
//! that.

use std::io::{self, PipeReader, PipeWriter, pipe};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use rustix::process::{Signal, getpid, kill_process};

/// A failure of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The rank.
    pub rank: u32,
    /// The exit code of the job.
    pub code: u8,
    /// A clause about the cause.
    pub cause: String,
    /// Whether the rank has failed by ending. Then this counts once the rank has ended, and only if
    /// its own exit code tells no failure.
    pub is_of_end: bool,
}

impl Failure {
    /// The rank has called `MPI_Abort`, with an exit code of which the lowest eight bits count.
    pub fn abort(rank: u32, code: i32) -> Failure {
        let cause = format!("rank {rank} has called MPI_Abort ({code})");
        Failure { rank, code: code as u8, cause, is_of_end: false }
    }

    /// The rank has ended without a call of `MPI_Init`, in which another one waits for it.
    pub fn missing(rank: u32, waiting: u32) -> Failure {
        let cause = format!("rank {waiting} waits in MPI_Init for rank {rank}, which has ended without it");
        Failure { rank, code: 1, cause, is_of_end: true }
    }

    /// The rank has ended without a call of `MPI_Finalize`.
    pub fn not_finalized(rank: u32) -> Failure {
        let cause = format!("rank {rank} has ended without MPI_Finalize");
        Failure { rank, code: 1, cause, is_of_end: true }
    }
}

/// Reports failures. The supervision of the ranks lasts as long as this exists.
#[derive(Debug)]
pub struct Reporter {
    reports: Option<Sender<Failure>>,
    end: PipeReader,
}

/// The failures that are reported.
pub struct Failures {
    reports: Receiver<Failure>,
    received: Vec<Failure>,
    /// Told of each rank that ends.
    note_end: Option<Box<dyn FnMut(u32) + Send>>,
    /// It is closed when all ranks have ended.
    are_running: Option<PipeWriter>,
}

impl Failures {
    /// No failures, and no reporter.
    pub fn none() -> Failures {
        Failures { reports: channel().1, received: Vec::new(), note_end: None, are_running: None }
    }

    /// The failures of one reporter, and of those that are cloned from it.
    ///
    /// # Errors
    /// If there is no descriptor left.
    pub fn reported() -> io::Result<(Reporter, Failures)> {
        let ((sender, reports), (end, are_running)) = (channel(), pipe()?);
        let failures = Failures { reports, received: Vec::new(), note_end: None, are_running: Some(are_running) };
        Ok((Reporter { reports: Some(sender), end }, failures))
    }

    /// Lets a function know of each rank that ends. It must not block.
    pub fn tell_ends(&mut self, note_end: impl FnMut(u32) + Send + 'static) {
        self.note_end = Some(Box::new(note_end));
    }

    /// Notes that a rank has ended.
    pub(super) fn note_end(&mut self, rank: u32) {
        if let Some(note_end) = &mut self.note_end {
            note_end(rank);
        }
    }

    /// Receives reports. Returns whether these were the last ones.
    pub(super) fn receive(&mut self) -> bool {
        loop {
            match self.reports.try_recv() {
                Ok(failure) => self.received.push(failure),
                Err(why) => return why == TryRecvError::Disconnected,
            }
        }
    }

    /// Tells the reporters that all ranks have ended.
    pub(super) fn end(&mut self) {
        self.note_end = None;
        self.are_running = None;
    }

    /// The first failure that counts, of this rank or of any. `has_succeeded` says whether a rank
    /// has ended, and told no failure.
    pub(super) fn first(&self, rank: Option<u32>, has_succeeded: impl Fn(u32) -> bool) -> Option<&Failure> {
        let counts = |failure: &&Failure| !failure.is_of_end || has_succeeded(failure.rank);
        self.received.iter().filter(|failure| rank.is_none_or(|rank| rank == failure.rank)).find(counts)
    }
}

impl Reporter {
    /// Reports a failure. This process gets a SIGCHLD, as for the end of a rank.
    pub fn report(&self, failure: Failure) {
        // It fails if nothing supervises the ranks any more.
        let _ = self.reports.as_ref().map(|reports| reports.send(failure));
        wake();
    }

    /// Another reporter of the same failures.
    ///
    /// # Errors
    /// If there is no descriptor left.
    pub fn try_clone(&self) -> io::Result<Reporter> {
        Ok(Reporter { reports: self.reports.clone(), end: self.end.try_clone()? })
    }

    /// A pipe that ends when all ranks have ended.
    pub fn end_of_ranks(&self) -> &PipeReader {
        &self.end
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        // First the end of the channel, then the signal.
        self.reports = None;
        wake();
    }
}

fn wake() {
    // The supervision fetches it. It is allowed to every process.
    let _ = kill_process(getpid(), Signal::CHILD);
}
