//! Reasons why a command ends early, with their exit codes.

use std::process::{ExitCode, ExitStatus};

use exec::{RunError, StartError};
use measure::folder;
use measure::manifest::Ending;
use measure::world::Failure;

use crate::output::{print_coloured, print_message};

/// A reason to end early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// An operation failed.
    Failed(anyhow::Error),
    /// The request is invalid: arguments, files, or a scenario that does not fit this machine.
    Input(anyhow::Error),
    /// The arguments are invalid, or ask for help.
    Refused(clap::Error),
    /// The input is invalid. The text is a complete message.
    Diagnosed(String),
    /// A signal with this number requested the end.
    Interrupted(u8),
    /// A program could not be started. Shells would exit with this code.
    NotStarted(anyhow::Error, u8),
    /// The end with this code, for which another process of the job says why.
    Silent(u8),
}

impl Stop {
    /// The ending and the error for the manifest of an experiment.
    pub(crate) fn ending(&self) -> (Ending, Option<String>) {
        match self {
            Stop::Interrupted(_) => (Ending::Interrupted, None),
            stop => (Ending::Failed, stop.message()),
        }
    }

    /// Prints the message on standard error and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        match (&self, self.message()) {
            // Nothing can be said about an error of standard error.
            (Stop::Refused(refusal), _) => drop(refusal.print()),
            (Stop::Diagnosed(_), Some(text)) => print_coloured(text.trim_end()),
            (_, Some(message)) => print_message(format_args!("error: {message}")),
            (_, None) => {}
        }
        ExitCode::from(self.code())
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Stop::Failed(_) => 1,
            Stop::Refused(refusal) => refusal.exit_code() as u8,
            Stop::Input(_) | Stop::Diagnosed(_) => 2,
            Stop::NotStarted(_, code) | Stop::Silent(code) => *code,
            // The exit code of shells for a program that was ended by a signal.
            Stop::Interrupted(signal) => 128_u8.saturating_add(*signal),
        }
    }

    fn message(&self) -> Option<String> {
        match self {
            Stop::Failed(error) | Stop::Input(error) | Stop::NotStarted(error, _) => Some(message(error)),
            Stop::Diagnosed(text) => Some(text.clone()),
            Stop::Refused(_) | Stop::Interrupted(_) | Stop::Silent(_) => None,
        }
    }
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Stop {
        Stop::Failed(error)
    }
}

impl From<folder::FolderError> for Stop {
    fn from(error: folder::FolderError) -> Stop {
        if error.is_input() { Stop::Input(error.into()) } else { Stop::Failed(error.into()) }
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        match failure {
            Failure::Input(_) => Stop::Input(failure.into()),
            Failure::Failed(_) | Failure::Cancelled => Stop::Failed(failure.into()),
        }
    }
}

impl From<StartError> for Stop {
    fn from(error: StartError) -> Stop {
        let code = error.exit_code();
        Stop::NotStarted(error.into(), code)
    }
}

impl From<RunError> for Stop {
    fn from(error: RunError) -> Stop {
        match error {
            RunError::Start(error) => error.into(),
            error => Stop::Failed(error.into()),
        }
    }
}

/// Turns an error into a reason to end.
pub(crate) trait OrStop<T> {
    /// The operation failed.
    fn or_failed(self) -> Result<T, Stop>;
    /// The request is invalid.
    fn or_input(self) -> Result<T, Stop>;
}

impl<T, E: Into<anyhow::Error>> OrStop<T> for Result<T, E> {
    fn or_failed(self) -> Result<T, Stop> {
        self.map_err(|error| Stop::Failed(error.into()))
    }

    fn or_input(self) -> Result<T, Stop> {
        self.map_err(|error| Stop::Input(error.into()))
    }
}

/// Ends this process as its program did, after a report on it. A missing report is a failure even
/// if the program succeeded.
pub(crate) fn end_as(status: ExitStatus, reported: Result<(), Stop>) -> Result<(), Stop> {
    match reported {
        Err(stop) if status.success() => return Err(stop),
        Err(stop) => drop(stop.report()),
        Ok(()) => {}
    }
    exec::end_as(status)
}

/// The error with its causes. Some errors of the libraries contain their causes, which are not
/// repeated.
fn message(error: &anyhow::Error) -> String {
    let mut message = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !message.contains(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};

    #[test]
    fn causes_are_shown_once() {
        let cause = || Err::<(), _>(anyhow!("the oar broke"));
        assert_eq!(message(&cause().context("cannot row").unwrap_err()), "cannot row: the oar broke");
        let shown = cause().context("cannot row: the oar broke; take another").unwrap_err();
        assert_eq!(message(&shown), "cannot row: the oar broke; take another");
    }
}
