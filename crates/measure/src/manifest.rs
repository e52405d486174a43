//! The manifest: the command, the machine and how the experiment ended.

use std::fs::File;
use std::io::{self, Read};

use scenario::Scenario;
use scenario::result::World;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::runner::RunnerError;
use crate::timestamp::Timestamp;

/// The manifest of one experiment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Manifest {
    /// The version of rowlock.
    pub rowlock_version: &'static str,
    /// What identifies the program: SHA-256 of its file, in hexadecimal digits. `None` if the study
    /// may be continued by another build of the same version.
    pub program_sha256: Option<String>,
    /// The study: `run`, or the name of a paper's figure.
    pub study: String,
    /// The command line.
    pub arguments: Vec<String>,
    /// When it began, in UTC.
    pub started: String,
    /// How it ended.
    pub ending: Ending,
    /// The error that ended it, if any.
    pub error: Option<String>,
    /// The number of planned runs.
    pub planned_runs: u64,
    /// The number of runs that were made.
    pub runs: u64,
    /// The worlds.
    pub worlds: Vec<World>,
    /// The seed of the first repetition.
    pub seed: u64,
    /// The planned number of repetitions of each arm.
    pub repeat: u32,
    /// The scenario; `None` if the study has none.
    pub scenario: Option<ScenarioFile>,
    /// The study's own settings; `None` if the scenario has them all.
    pub settings: Option<Value>,
    /// The machine. Simulations depend on it only if the scenario is like the host.
    pub machine: Option<host::Machine>,
    /// Its calibrated costs; `None` if they were not needed.
    pub calibration: Option<host::HostCalibration>,
}

impl Manifest {
    /// The manifest of a study that this process begins in these worlds, without scenario, runs and
    /// calibration.
    pub fn begin(study: &str, worlds: &[World], started: Timestamp) -> Manifest {
        Manifest {
            rowlock_version: env!("CARGO_PKG_VERSION"),
            study: study.to_owned(),
            arguments: std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect(),
            started: started.rfc3339(),
            worlds: worlds.to_vec(),
            machine: host::Machine::current().ok(),
            ..Manifest::default()
        }
    }

    /// Records which program makes the runs: only the same one may continue the experiment.
    ///
    /// # Errors
    /// If the program's file cannot be read.
    pub fn identify_program(&mut self) -> io::Result<()> {
        let (mut program, mut hash) = (File::open("/proc/self/exe")?, Sha256::new());
        let mut piece = vec![0; 1 << 20];
        loop {
            match program.read(&mut piece)? {
                0 => break,
                length => hash.update(&piece[..length]),
            }
        }
        self.program_sha256 = Some(digits(&hash.finalize()));
        Ok(())
    }

    /// Why this experiment cannot continue the one with the manifest `earlier`: a property that
    /// differs. `None` if it can. Studies compare their own settings.
    pub fn difference(&self, earlier: &Value) -> Option<&'static str> {
        let own = serde_json::to_value(self).unwrap_or_default();
        let mut fields = vec![
            ("/rowlock_version", "version of rowlock"),
            ("/study", "study"),
            ("/worlds", "choice of worlds"),
            ("/seed", "seed"),
            ("/scenario/ran_sha256", "scenario"),
        ];
        if self.program_sha256.is_some() {
            fields.push(("/program_sha256", "build of rowlock"));
        }
        if self.worlds.contains(&World::Host) {
            fields.push(("/machine", "machine"));
        }
        fields.into_iter().find(|(field, _)| own.pointer(field) != earlier.pointer(field)).map(|(_, what)| what)
    }
}

/// A scenario file.
#[derive(Clone, Debug, Serialize)]
pub struct ScenarioFile {
    /// Its name.
    pub file: String,
    /// SHA-256 of its content, in hexadecimal digits.
    pub sha256: String,
    /// SHA-256 of the scenario as changed by the command line, without the number of repetitions.
    pub ran_sha256: String,
    /// Its content.
    pub text: String,
}

/// How an experiment ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// It is still running, or it was killed.
    #[default]
    Unfinished,
    /// All runs were made.
    Complete,
    /// It was interrupted.
    Interrupted,
    /// A run failed.
    Failed,
}

impl Ending {
    /// The ending that `error` means.
    pub fn of(error: Option<&RunnerError>) -> Ending {
        match error {
            None => Ending::Complete,
            Some(error) if error.is_cancelled() => Ending::Interrupted,
            Some(_) => Ending::Failed,
        }
    }
}

impl ScenarioFile {
    /// The file with its hash and that of the scenario.
    pub fn new(file: &str, content: &[u8], scenario: &Scenario) -> ScenarioFile {
        let mut ran = scenario.clone();
        ran.experiment.repeat = 1;
        ScenarioFile {
            file: file.to_owned(),
            sha256: sha256(content),
            ran_sha256: sha256(ran.to_toml().as_bytes()),
            text: String::from_utf8_lossy(content).into_owned(),
        }
    }
}

fn sha256(content: &[u8]) -> String {
    digits(&Sha256::digest(content))
}

fn digits(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_sha256sum() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn only_the_same_program_continues_an_experiment_that_has_recorded_it() {
        let mut own = Manifest::default();
        own.identify_program().unwrap();
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(own.program_sha256, Some(sha256(&program)));
        let earlier = |program: Option<String>| {
            serde_json::to_value(Manifest { program_sha256: program, ..Manifest::default() }).unwrap()
        };
        assert_eq!(own.difference(&earlier(own.program_sha256.clone())), None);
        for other in [None, Some(sha256(b"abc"))] {
            assert_eq!(own.difference(&earlier(other)), Some("build of rowlock"));
        }
        assert_eq!(Manifest::default().difference(&earlier(own.program_sha256.clone())), None);
    }
}
