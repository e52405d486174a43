//! The folder of results: each run as soon as it is there, so that an interrupted table can be gone on with.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pipeline::RunReport;
use serde::{Deserialize, Serialize};

use super::arms::Variant;
use super::prediction::PipelineReports;
use super::runs::{self, Observation};
use super::simulated::ScenarioFile;

/// The runs, one a row.
pub const RUNS: &str = "runs.csv";
/// What was run, on what.
pub const SETTINGS: &str = "settings.json";
/// What came out, as `--format json` prints it.
pub const REPORT: &str = "report.json";

/// What was run, on what: runs are pooled only where it is the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The version of rowlock.
    pub rowlock_version: String,
    /// The machine.
    pub machine: host::Machine,
    /// How many bytes the compute-bound program sorts; the I/O-bound one twice as many.
    pub size: u64,
    /// Bytes of a record.
    pub record: u64,
    /// Bytes of its key, with which it begins.
    pub key: u64,
    /// Bytes of memory for each sort.
    pub memory: u64,
    /// The seed of the input.
    pub seed: u64,
    /// What was evicted before each run.
    pub evicted: String,
    /// How many bytes a second the I/O-bound program may read, and as many write; nothing where it was not throttled.
    pub rate: Option<u64>,
}

/// Why results could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A file could not be written.
    #[error("cannot write {}: {why}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// A file could not be read.
    #[error("cannot go on with what is in {}: {why}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

/// A folder that is being written.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    runs: csv::Writer<File>,
}

/// What an earlier command has left.
#[derive(Debug, Default)]
pub struct Earlier {
    /// The runs.
    pub runs: Vec<Observation>,
    /// What was run, if anything was.
    pub settings: Option<Settings>,
}

impl Folder {
    /// Creates the folder and all above it; of one that is there, replaces the runs.
    ///
    /// # Errors
    /// [`FolderError`].
    pub fn create(path: &Path) -> Result<Folder, FolderError> {
        let write = |path: &Path| {
            let path = path.to_owned();
            move |why| FolderError::Write { path, why }
        };
        fs::create_dir_all(path).map_err(write(path))?;
        for old in [SETTINGS.to_owned(), REPORT.to_owned()].into_iter().chain(Variant::ALL.map(reports)) {
            let old = path.join(old);
            match fs::remove_file(&old) {
                Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(write(&old)(why)),
                _ => {}
            }
        }
        let file = path.join(RUNS);
        let runs = File::create(&file).map_err(write(&file))?;
        Ok(Folder { path: path.to_owned(), runs: csv::Writer::from_writer(runs) })
    }

    /// Goes on with a folder, if it is there, and says what is in it.
    ///
    /// # Errors
    /// [`FolderError`]: also where the files are not what this module has written.
    pub fn append(path: &Path) -> Result<(Folder, Earlier), FolderError> {
        let file = path.join(RUNS);
        let read = |path: &Path, why: String| FolderError::Read { path: path.to_owned(), why };
        let known = match File::open(&file) {
            Ok(known) => known,
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                return Ok((Folder::create(path)?, Earlier::default()));
            }
            Err(why) => return Err(read(&file, why.to_string())),
        };
        let runs = runs::read(known).map_err(|why| read(&file, why.to_string()))?;
        let settings = match fs::read(path.join(SETTINGS)) {
            Ok(text) => Some(serde_json::from_slice(&text).map_err(|why| read(&path.join(SETTINGS), why.to_string()))?),
            Err(why) if why.kind() == io::ErrorKind::NotFound => None,
            Err(why) => return Err(read(&path.join(SETTINGS), why.to_string())),
        };
        let opened = File::options().append(true).open(&file);
        let opened = opened.map_err(|why| FolderError::Write { path: file.clone(), why })?;
        // The header is there as soon as there is a run.
        let writer = csv::WriterBuilder::new().has_headers(runs.is_empty()).from_writer(opened);
        Ok((Folder { path: path.to_owned(), runs: writer }, Earlier { runs, settings }))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps a run; when this returns, the file has it.
    ///
    /// # Errors
    /// [`FolderError::Write`].
    pub fn keep(&mut self, run: &Observation) -> Result<(), FolderError> {
        let kept = self.runs.serialize(run).map_err(io::Error::from).and_then(|()| self.runs.flush());
        kept.map_err(|why| FolderError::Write { path: self.path.join(RUNS), why })
    }

    /// Keeps what the pipelines of one run have reported.
    ///
    /// # Errors
    /// [`FolderError::Write`].
    pub fn keep_reports(&self, variant: Variant, of_run: &[RunReport]) -> Result<(), FolderError> {
        let path = self.path.join(reports(variant));
        let append = || -> io::Result<()> {
            let mut line = serde_json::to_string(of_run)?;
            line.push('\n');
            File::options().create(true).append(true).open(&path)?.write_all(line.as_bytes())
        };
        append().map_err(|why| FolderError::Write { path, why })
    }

    /// All that the pipelines of one variant have reported; nothing where they have not.
    ///
    /// # Errors
    /// [`FolderError::Read`].
    pub fn reported(&self, variant: Variant) -> Result<PipelineReports, FolderError> {
        let path = self.path.join(reports(variant));
        let read = |why: String| FolderError::Read { path: path.clone(), why };
        let text = match fs::read_to_string(&path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => String::new(),
            text => text.map_err(|why| read(why.to_string()))?,
        };
        let runs = text.lines().map(serde_json::from_str).collect::<Result<_, _>>();
        Ok(PipelineReports { variant, runs: runs.map_err(|why| read(why.to_string()))? })
    }

    /// Keeps scenarios.
    ///
    /// # Errors
    /// [`FolderError::Write`].
    pub fn keep_scenarios(&self, scenarios: &[ScenarioFile]) -> Result<(), FolderError> {
        scenarios.iter().try_for_each(|scenario| self.write_text(&scenario.file, &scenario.text))
    }

    /// Writes a JSON file.
    ///
    /// # Errors
    /// [`FolderError::Write`].
    pub fn write(&self, name: &str, content: &impl Serialize) -> Result<(), FolderError> {
        let text = report::json::render(content);
        let text = text.map_err(|why| FolderError::Write { path: self.path.join(name), why })?;
        self.write_text(name, &text)
    }

    fn write_text(&self, name: &str, text: &str) -> Result<(), FolderError> {
        let path = self.path.join(name);
        fs::write(&path, text).map_err(|why| FolderError::Write { path, why })
    }
}

/// The file of what the pipelines of a variant reported in its runs by no rule: a line for each run.
fn reports(variant: Variant) -> String {
    format!("{}-reports.jsonl", variant.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fg::arms::RULES;

    #[test]
    fn runs_are_pooled_by_going_on_with_a_folder_and_replaced_by_beginning_anew() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        let run = |round| Observation::new(&RULES[1], round, 1.0, 0.25, 2.0);
        for round in 0..3 {
            let (mut folder, earlier) = Folder::append(&path).unwrap();
            assert_eq!(earlier.runs, (0..round).map(run).collect::<Vec<_>>());
            folder.keep(&run(round)).unwrap();
        }
        let reports = vec![RunReport { program: "one".into(), ..RunReport::default() }; 2];
        let (folder, _) = Folder::append(&path).unwrap();
        assert_eq!(folder.reported(Variant::IoBound).unwrap().runs.len(), 0);
        folder.keep_reports(Variant::IoBound, &reports).unwrap();
        folder.keep_reports(Variant::IoBound, &reports).unwrap();
        assert_eq!(folder.reported(Variant::IoBound).unwrap().runs, [reports.clone(), reports]);
        let folder = Folder::create(&path).unwrap();
        assert_eq!(folder.reported(Variant::IoBound).unwrap().runs.len(), 0);
        assert_eq!(Folder::append(&path).unwrap().1.runs, []);
    }

    #[test]
    fn what_is_no_folder_of_results_is_not_gone_on_with() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(RUNS), "world,repeat\nhost,0\n").unwrap();
        let why = Folder::append(folder.path()).unwrap_err().to_string();
        assert!(why.starts_with("cannot go on with what is in ") && why.contains(RUNS), "{why}");
    }
}
