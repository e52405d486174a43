//! Why a command ends before it is done, and the exit code that says so.

use std::process::ExitCode;

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
}

impl Stop {
    /// Says on standard error what is to be said.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Stop::Failed(error) => {
                eprintln!("error: {error:#}");
                ExitCode::from(1)
            }
            Stop::Input(error) => {
                eprintln!("error: {error:#}");
                ExitCode::from(2)
            }
            Stop::Diagnosed(text) => {
                eprintln!("{}", text.trim_end());
                ExitCode::from(2)
            }
            // As a shell reports a program that a signal ended.
            Stop::Interrupted(signal) => ExitCode::from(128_u8.saturating_add(signal)),
        }
    }
}
