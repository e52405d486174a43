//! Errors of runs on this machine.

use std::io;
use std::path::PathBuf;

/// Why a run, or its preparation, failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A job's program does not exist.
    #[error("job `{job}`: there is no command `{program}`{}", search_note(program))]
    CommandNotFound {
        /// The job.
        job: String,
        /// The program as the scenario names it.
        program: String,
    },
    /// A job's program exists but cannot be executed.
    #[error("job `{job}`: `{}` cannot be executed: {why}", path.display())]
    NotExecutable {
        /// The job.
        job: String,
        /// The path of the program.
        path: PathBuf,
        /// The defect.
        why: &'static str,
    },
    /// The jobs need more threads than this machine allows this user.
    #[error("the jobs need {wanted} threads and processes here, but {limit} leaves room for {room}")]
    TooManyThreads {
        /// The number that the jobs need together, or that one of them needs if the limit is per
        /// process.
        wanted: u64,
        /// How many more threads the limit allows.
        room: u64,
        /// The name of the limit.
        limit: String,
    },
    /// The kernel refused a thread although no readable limit forbids it.
    #[error("job `{job}`: thread {number} of {threads} could not be started: {why}")]
    ThreadRefused {
        /// The job.
        job: String,
        /// The number of the thread, counted from one.
        number: u32,
        /// The number of the job's threads.
        threads: u32,
        /// The kernel's error.
        why: String,
    },
    /// The kernel refused the scheduling that a job asks for.
    #[error("job `{job}`: `{request}` is refused here: {reason}")]
    Scheduling {
        /// The job.
        job: String,
        /// The request, as a scenario writes it.
        request: String,
        /// Why it was refused, and what it needs.
        reason: String,
    },
    /// All jobs are endless.
    #[error("all jobs are endless, so the run would never end: give at least one of them `work`")]
    Endless,
    /// A job's process could not be started.
    #[error("job `{job}`: cannot start `{}` as its process: {source}", program.display())]
    Start {
        /// The job.
        job: String,
        /// The program that should have executed the job.
        program: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A command failed.
    #[error("job `{job}`: `{command}` failed with {status}{}", end_of_stderr(stderr))]
    CommandFailed {
        /// The job.
        job: String,
        /// The command line.
        command: String,
        /// Its exit status or signal, in words.
        status: String,
        /// The last lines that it wrote to its standard error.
        stderr: String,
    },
    /// A job's process ended before the job did.
    #[error("job `{job}`: its process ended before the job did, with {status}")]
    Died {
        /// The job.
        job: String,
        /// Its exit status or signal, in words.
        status: String,
    },
    /// A job's process reported an error.
    #[error("job `{job}`: {message}")]
    Job {
        /// The job.
        job: String,
        /// The report.
        message: String,
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
        match self {
            // EAGAIN: a process limit that could not be read beforehand.
            Error::Start { source, .. } => source.kind() == io::ErrorKind::WouldBlock,
            Error::CommandNotFound { .. }
            | Error::NotExecutable { .. }
            | Error::TooManyThreads { .. }
            | Error::ThreadRefused { .. }
            | Error::Scheduling { .. }
            | Error::Endless => true,
            Error::CommandFailed { .. }
            | Error::Died { .. }
            | Error::Job { .. }
            | Error::Cancelled
            | Error::Calibration(_)
            | Error::Io { .. } => false,
        }
    }

    /// Makes an error of a failed system call that attempted `what`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { what: what.into(), source }
    }
}

fn search_note(program: &str) -> &'static str {
    if program.contains('/') { "" } else { " in any folder of PATH" }
}

fn end_of_stderr(stderr: &str) -> String {
    match stderr.trim_end() {
        "" => "; it wrote nothing to its standard error".to_owned(),
        text => {
            /// More lines would push the message off the screen.
            const LINES: usize = 20;
            let lines: Vec<&str> = text.lines().collect();
            let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
            // Control characters must not reach the terminal.
            let shown = |c: char| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c };
            format!("; the end of its standard error:\n{}", last.chars().map(shown).collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_standard_error_is_short_and_without_control_characters() {
        assert!(end_of_stderr(" \n").contains("nothing"));
        let many: String = (0..100).map(|line| format!("line {line}\x1b[2J\n")).collect();
        let shown = end_of_stderr(&many);
        assert!(
            shown.ends_with("line 99\u{fffd}[2J") && !shown.contains("line 79") && shown.contains("line 80"),
            "{shown}"
        );
    }
}
