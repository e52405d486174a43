//! Errors of runs on this machine.

use std::io;

/// Why a run, or its preparation, failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A job asks for something that this machine lacks or refuses: a command, scheduling, threads.
    #[error("job `{job}`: {why}")]
    Refused {
        /// The job.
        job: String,
        /// The request, the reason, and the requirement, in a sentence.
        why: String,
    },
    /// The jobs need more threads than this machine allows this user.
    #[error("the jobs need {wanted} threads and processes here, but {limit} leaves room for {room}")]
    TooManyThreads {
        /// The number that the jobs need together, or that one of them needs if the limit is per
        /// process.
        wanted: u64,
        /// The number of further threads that the limit allows.
        room: u64,
        /// The name of the limit.
        limit: String,
    },
    /// All jobs are endless.
    #[error("all jobs are endless, so the run would never end: give at least one of them `work`")]
    Endless,
    /// The jobs are to share cells in a way that this machine does not have.
    #[error("only the simulator has {0}; add `--world sim`")]
    OnlySimulated(String),
    /// Jobs cannot be lowered in the turns of others.
    #[error(transparent)]
    CannotLower(Box<dyn std::error::Error + Send + Sync>),
    /// The table of turns cannot be used.
    #[error(transparent)]
    Turns(Box<dyn std::error::Error + Send + Sync>),
    /// A job, its command or its process failed.
    #[error("job `{job}`: {why}")]
    Failed {
        /// The job.
        job: String,
        /// The reason, in a sentence.
        why: String,
    },
    /// The caller cancelled the run.
    #[error("cancelled")]
    Cancelled,
    /// This machine's costs could not be measured.
    #[error("this machine cannot be calibrated: {0}")]
    Calibration(String),
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// The attempted action.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
}

impl Error {
    /// Whether the scenario asks for something that this machine lacks, as opposed to a failure
    /// during the run.
    pub fn is_input(&self) -> bool {
        use Error::{CannotLower, Endless, OnlySimulated, Refused, TooManyThreads};
        matches!(self, Refused { .. } | TooManyThreads { .. } | Endless | OnlySimulated(_) | CannotLower(_))
    }

    /// Makes an error of a job.
    pub(crate) fn of_job(job: &str, why: String, is_input: bool) -> Error {
        let job = job.to_owned();
        if is_input { Error::Refused { job, why } } else { Error::Failed { job, why } }
    }

    /// Makes an error of a failed system call that attempted `what`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { what: what.into(), source }
    }
}
