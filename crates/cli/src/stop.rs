//! Reasons why a command ends early, with their exit codes.

use std::process::ExitCode;

use measure::manifest::Ending;

use crate::output::tell;

/// A reason to end early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// An operation failed.
    Failed(anyhow::Error),
    /// The request is invalid: arguments, files, or a scenario that does not fit this machine.
    Input(anyhow::Error),
    /// The input is invalid. The text is a complete message.
    Diagnosed(String),
    /// A signal with this number requested the end.
    Interrupted(u8),
    /// A program could not be started. Shells would exit with this code.
    NotStarted(anyhow::Error, u8),
}

impl Stop {
    /// The ending and the error for the manifest of an experiment.
    pub(crate) fn ending(&self) -> (Ending, Option<String>) {
        match self {
            Stop::Interrupted(_) => (Ending::Interrupted, None),
            Stop::Diagnosed(text) => (Ending::Failed, Some(text.clone())),
            Stop::Failed(error) | Stop::Input(error) | Stop::NotStarted(error, _) => {
                (Ending::Failed, Some(message(error)))
            }
        }
    }

    /// Prints the message on standard error and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Stop::Failed(error) => {
                tell(format_args!("error: {}", message(&error)));
                ExitCode::from(1)
            }
            Stop::Input(error) => {
                tell(format_args!("error: {}", message(&error)));
                ExitCode::from(2)
            }
            Stop::Diagnosed(text) => {
                tell(text.trim_end());
                ExitCode::from(2)
            }
            Stop::NotStarted(error, code) => {
                tell(format_args!("error: {}", message(&error)));
                ExitCode::from(code)
            }
            // The exit code of shells for a program that was ended by a signal.
            Stop::Interrupted(signal) => ExitCode::from(128_u8.saturating_add(signal)),
        }
    }
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
