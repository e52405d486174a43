//! What can go wrong with a run on this machine.

use std::io;
use std::path::PathBuf;

/// Why a run, or what prepares it, did not come about.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A job's program is nowhere to be found.
    #[error("job `{job}`: there is no command `{program}`{}", searched(program))]
    CommandNotFound {
        /// The job.
        job: String,
        /// The program as the scenario names it.
        program: String,
    },
    /// A job's program is there but is none.
    #[error("job `{job}`: `{}` cannot be executed: {why}", path.display())]
    NotExecutable {
        /// The job.
        job: String,
        /// Where the program was found.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// More threads than this machine lets this user have.
    #[error("the jobs need {wanted} threads and processes here, but {limit} leaves room for {room}")]
    TooManyThreads {
        /// How many the jobs need together, or one of them alone where the limit is one of a process.
        wanted: u64,
        /// How many more there may be.
        room: u64,
        /// What sets the limit.
        limit: String,
    },
    /// The machine refused a thread although no limit that can be read forbids it.
    #[error("job `{job}`: thread {number} of {threads} could not be started: {why}")]
    ThreadRefused {
        /// The job.
        job: String,
        /// Which thread, counted from one.
        number: u32,
        /// How many the job has.
        threads: u32,
        /// What the machine said.
        why: String,
    },
    /// The machine does not schedule a job's threads as they are to be.
    #[error("job `{job}`: `{request}` is refused here: {reason}")]
    Scheduling {
        /// The job.
        job: String,
        /// What was asked for, as a scenario writes it.
        request: String,
        /// Why not, and what it takes.
        reason: String,
    },
    /// No job ever ends.
    #[error("all jobs are endless, so the run would never end: give at least one of them `work`")]
    Endless,
    /// A job's process could not be started.
    #[error("job `{job}`: cannot start `{}` as its process: {source}", program.display())]
    Start {
        /// The job.
        job: String,
        /// The program that was to carry the job.
        program: PathBuf,
        /// What the machine said.
        source: io::Error,
    },
    /// A command ended badly.
    #[error("job `{job}`: `{command}` failed with {status}{}", last_words(stderr))]
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
    /// A job's process met an error.
    #[error("job `{job}`: {message}")]
    Job {
        /// The job.
        job: String,
        /// What it said.
        message: String,
    },
    /// The caller asked to end.
    #[error("cancelled")]
    Cancelled,
    /// This machine's costs could not be measured.
    #[error("this machine cannot be calibrated: {0}")]
    Calibration(String),
    /// The machine failed at something that it can do.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the machine said.
        source: io::Error,
    },
}

impl Error {
    /// Whether the scenario asks for what this machine does not have, rather than that something failed on the way.
    pub fn is_input(&self) -> bool {
        match self {
            // EAGAIN: a limit of processes that could not be read beforehand.
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

    /// The error of something tried with the machine, to be told `what` it was.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { what: what.into(), source }
    }
}

fn searched(program: &str) -> &'static str {
    if program.contains('/') { "" } else { " in any folder of PATH" }
}

fn last_words(stderr: &str) -> String {
    match stderr.trim_end() {
        "" => "; it wrote nothing to its standard error".to_owned(),
        text => {
            /// More would push what matters off the screen.
            const LINES: usize = 20;
            let lines: Vec<&str> = text.lines().collect();
            let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
            // Whatever a program writes, it is not to write to the terminal.
            let shown = |c: char| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c };
            format!("; the end of its standard error:\n{}", last.chars().map(shown).collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_few_and_do_not_reach_the_terminal() {
        assert!(last_words(" \n").contains("nothing"));
        let many: String = (0..100).map(|line| format!("line {line}\x1b[2J\n")).collect();
        let told = last_words(&many);
        assert!(
            told.ends_with("line 99\u{fffd}[2J") && !told.contains("line 79") && told.contains("line 80"),
            "{told}"
        );
    }
}
