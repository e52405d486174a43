//! The manifest: what was run, by what, on what, and how it ended; enough to run it again and to judge its results.

use scenario::result::World;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::runner::Error;

/// What the caller knows and the laboratory does not.
#[derive(Clone, Debug)]
pub struct Provenance {
    /// The command line.
    pub arguments: Vec<String>,
    /// The name of the scenario file.
    pub file: String,
    /// Its content.
    pub content: Vec<u8>,
    /// The machine's costs as calibrated, with their spread, where they were needed.
    pub calibration: Option<host::HostCalibration>,
    /// When it began.
    pub started: crate::timestamp::Timestamp,
}

/// The manifest of one experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Manifest {
    /// The version of rowlock.
    pub rowlock_version: &'static str,
    /// The command line.
    pub arguments: Vec<String>,
    /// When it began, in UTC.
    pub started: String,
    /// How it ended.
    pub ending: Ending,
    /// What went wrong, where something did.
    pub error: Option<String>,
    /// How many runs were planned.
    pub planned_runs: u64,
    /// How many were made.
    pub runs: u64,
    /// The worlds.
    pub worlds: Vec<World>,
    /// The seed of the first repetition.
    pub seed: u64,
    /// How many repetitions each arm was to have.
    pub repeat: u32,
    /// The scenario.
    pub scenario: ScenarioFile,
    /// The machine that this ran on; the simulator's results do not depend on it unless the scenario is like it.
    pub machine: Option<host::Machine>,
    /// Its costs, where they were needed.
    pub calibration: Option<host::HostCalibration>,
}

/// A scenario file as it was read.
#[derive(Clone, Debug, Serialize)]
pub struct ScenarioFile {
    /// Its name.
    pub file: String,
    /// SHA-256 of its content, in hexadecimal digits.
    pub sha256: String,
    /// Its content.
    pub text: String,
}

/// How an experiment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// It has not: it is under way, or it was killed.
    Unfinished,
    /// All runs were made.
    Complete,
    /// It was asked to stop.
    Interrupted,
    /// A run failed.
    Failed,
}

impl Ending {
    /// The ending that `error` means.
    pub fn of(error: Option<&Error>) -> Ending {
        match error {
            None => Ending::Complete,
            Some(error) if error.is_cancelled() => Ending::Interrupted,
            Some(_) => Ending::Failed,
        }
    }
}

impl ScenarioFile {
    /// The file with its hash.
    pub fn new(file: &str, content: &[u8]) -> ScenarioFile {
        let sha256 = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
        ScenarioFile { file: file.to_owned(), sha256, text: String::from_utf8_lossy(content).into_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_sha256sum() {
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(ScenarioFile::new("abc.toml", b"abc").sha256, known);
    }
}
