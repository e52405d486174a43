//! What can go wrong, said for people.

use std::error;
use std::fmt;
use std::io;

use crate::report::RunReport;

/// Why a program of pipelines did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be built as described; nothing was begun.
    #[error(transparent)]
    Structure(#[from] BuildError),
    /// There is no memory for the buffers; nothing was begun.
    #[error(
        "no memory for {buffers} buffers of {block} bytes in pipeline '{pipeline}': {why} (fewer or smaller ones?)"
    )]
    Memory {
        /// Of which pipeline.
        pipeline: String,
        /// How many buffers.
        buffers: usize,
        /// How large each.
        block: usize,
        /// The kernel's reason, which the text has.
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
    /// What is wrong, and where.
    pub what: String,
    /// What to do.
    pub hint: String,
}

impl BuildError {
    pub(crate) fn new(what: impl Into<String>, hint: impl Into<String>) -> BuildError {
        BuildError { what: what.into(), hint: hint.into() }
    }
}

/// A run that ended early: all stages have been cleaned up, all buffers are back.
pub struct Failure {
    /// The stage that it began with; none where it came from outside.
    pub stage: Option<String>,
    /// The buffer's number at which it began.
    pub round: Option<u64>,
    /// What happened there.
    pub cause: Cause,
    /// What went wrong after that, as the other stages were ended, each with its stage's name.
    pub others: Vec<(String, Cause)>,
    /// How far the run had come.
    pub report: Box<RunReport>,
}

/// What happened in a stage.
#[derive(Debug)]
pub enum Cause {
    /// It returned an error.
    Failed(Box<dyn error::Error + Send + Sync>),
    /// It panicked, with this message.
    Panicked(String),
    /// Its thread could not be started.
    Thread(io::Error),
    /// Nothing: the run was cancelled.
    Cancelled,
    /// Nothing: all threads wait for each other for ever. Says for each that waits what it waits for.
    Stuck(Vec<String>),
}

impl fmt::Display for Cause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Failed(why) => write!(out, "{why}"),
            Cause::Panicked(message) => write!(out, "panicked: {message}"),
            Cause::Thread(why) => write!(out, "its thread could not be started: {why}"),
            Cause::Cancelled => write!(out, "cancelled"),
            Cause::Stuck(waits) => write!(
                out,
                "stuck: {} (give it more buffers, or let its threads run the stages in another order)",
                waits.join("; ")
            ),
        }
    }
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

/// Without the report, which is long: who returns this from `main` wants to see what happened.
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
        match &self.cause {
            // The error itself is what is shown; its source is the next.
            Cause::Failed(why) => why.source(),
            Cause::Thread(why) => why.source(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn what_an_error_says_is_said_once_and_briefly() {
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
