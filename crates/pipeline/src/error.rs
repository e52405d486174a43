//! The errors of a run.

use std::error;
use std::fmt;
use std::io;

use crate::report::RunReport;

/// Why a program of pipelines did not complete.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be built as described. No stage was called.
    #[error(transparent)]
    Structure(#[from] BuildError),
    /// There is no memory for the buffers. No stage was called.
    #[error(
        "no memory for {buffers} buffers of {block} bytes in pipeline '{pipeline}': {why} (use fewer or smaller ones)"
    )]
    Memory {
        /// The pipeline.
        pipeline: String,
        /// The number of buffers.
        buffers: usize,
        /// The size of each.
        block: usize,
        /// The kernel's error, which is part of the message.
        why: io::Error,
    },
    /// It ended early.
    #[error(transparent)]
    Failed(#[from] Box<Failure>),
}

/// Why pipelines cannot be built as described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} ({hint})")]
pub struct BuildError {
    /// The problem and its place.
    pub what: String,
    /// How to fix it.
    pub hint: String,
}

impl BuildError {
    pub(crate) fn new(what: impl Into<String>, hint: impl Into<String>) -> BuildError {
        BuildError { what: what.into(), hint: hint.into() }
    }
}

/// A run that ended early. All stages have been cleaned up, and all buffers are free.
pub struct Failure {
    /// The stage that failed first. `None` if the cause is not a stage.
    pub stage: Option<String>,
    /// The number of the buffer at which it failed.
    pub round: Option<u64>,
    /// The first cause.
    pub cause: Cause,
    /// Later failures, with the names of their stages.
    pub others: Vec<(String, Cause)>,
    /// The report of the run until its end.
    pub report: Box<RunReport>,
}

/// Why a run ended.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// A stage returned an error.
    #[error(transparent)]
    Failed(Box<dyn error::Error + Send + Sync>),
    /// A stage panicked, with this message.
    #[error("panicked: {0}")]
    Panicked(String),
    /// A thread could not be started.
    #[error("its thread could not be started: {0}")]
    Thread(io::Error),
    /// The run was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// A deadlock: all threads waited for each other. Describes what each one waited for.
    #[error("stuck: {} (give it more buffers, or let its threads run the stages in another order)", .0.join("; "))]
    Stuck(Vec<String>),
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.stage, self.round) {
            (Some(stage), Some(round)) => write!(out, "stage '{stage}', buffer {round}: ")?,
            (Some(stage), None) => write!(out, "stage '{stage}': ")?,
            (None, _) => {}
        }
        write!(out, "{}", self.cause)?;
        for (stage, cause) in &self.others {
            write!(out, "; then stage '{stage}': {cause}")?;
        }
        Ok(())
    }
}

/// Omits the report, which is too long for a `main` that returns this error.
impl fmt::Debug for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { stage, round, cause, others, report: _ } = self;
        let mut fields = out.debug_struct("Failure");
        fields.field("stage", stage).field("round", round).field("cause", cause).field("others", others);
        fields.finish_non_exhaustive()
    }
}

impl error::Error for Failure {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        // The message includes the cause itself, so its source comes next.
        self.cause.source()
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn messages_are_brief_and_name_each_cause_once() {
        let why = || io::Error::from_raw_os_error(11);
        let memory = Error::Memory { pipeline: "sort".to_owned(), buffers: 8, block: 4096, why: why() };
        let cause = Cause::Thread(why());
        let report = Box::new(RunReport { program: "long".to_owned(), ..RunReport::default() });
        let thread = Failure { stage: Some("sort".to_owned()), round: None, cause, others: Vec::new(), report };
        assert!(!format!("{thread:?}").contains("long"), "{thread:?}");
        for error in [memory, Error::from(Box::new(thread))] {
            assert!(error.to_string().contains("(os error 11)") && error.source().is_none(), "{error}");
        }
    }
}
