//! Why a command ends before it is done, and the exit code that says so.

use std::process::ExitCode;

use measure::manifest::Ending;

use crate::output::tell;

/// An early end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Something was tried and failed.
    Failed(anyhow::Error),
    /// What was asked for cannot be: arguments, files, or a scenario that does not fit this machine.
    Input(anyhow::Error),
    /// The input is bad, and the text, which is complete in itself, says where.
    Diagnosed(String),
    /// A signal of this number asked to stop.
    Interrupted(u8),
    /// A program could not be started, and shells would end with this code.
    NotStarted(anyhow::Error, u8),
}

impl Stop {
    /// What the manifest of an experiment says of this end.
    pub(crate) fn ending(&self) -> (Ending, Option<String>) {
        match self {
            Stop::Interrupted(_) => (Ending::Interrupted, None),
            Stop::Diagnosed(text) => (Ending::Failed, Some(text.clone())),
            Stop::Failed(error) | Stop::Input(error) | Stop::NotStarted(error, _) => {
                (Ending::Failed, Some(message(error)))
            }
        }
    }

    /// Says on standard error what is to be said.
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
            // As a shell reports a program that a signal ended.
            Stop::Interrupted(signal) => ExitCode::from(128_u8.saturating_add(signal)),
        }
    }
}

/// The error and its causes. The libraries' errors tell their causes themselves, and once is enough.
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
    fn causes_are_told_once() {
        let cause = || Err::<(), _>(anyhow!("the oar broke"));
        assert_eq!(message(&cause().context("cannot row").unwrap_err()), "cannot row: the oar broke");
        let told = cause().context("cannot row: the oar broke; take another").unwrap_err();
        assert_eq!(message(&told), "cannot row: the oar broke; take another");
    }
}
