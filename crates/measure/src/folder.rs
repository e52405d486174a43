//! The output folder: samples as they come, and at the end the report and the manifest.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use host::StateSample;
use scenario::Scenario;
use scenario::result::Run;
use serde::Serialize;

use crate::results::csv as rows;
use report::words;

/// The runs, a row for each run and job.
pub const RUNS: &str = "runs.csv";
/// What the threads of the host's jobs were doing now and then.
pub const TIMELINE: &str = "timeline.csv";
/// The report, as `--format json` prints it.
pub const REPORT: &str = "report.json";
/// The report, as a page for people.
pub const PAGE: &str = "report.html";
/// What was run, on what, and whether all of it was.
pub const MANIFEST: &str = "manifest.json";

/// Why something could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}{}", .path.display(), if *.opening { "; name another folder by --out DIR" } else { "" })]
pub struct Error {
    path: PathBuf,
    source: io::Error,
    opening: bool,
}

impl Error {
    /// Whether the folder could not be opened in the first place, as opposed to a disk that became full.
    pub fn is_input(&self) -> bool {
        self.opening
    }
}

/// An output folder that is being written.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    factors: Vec<String>,
    runs: csv::Writer<File>,
    timeline: Option<csv::Writer<File>>,
}

impl Folder {
    /// Creates the folder and all above it, or takes the one that is there and replaces in it what an earlier experiment
    /// left. Other files in it stay as they are.
    ///
    /// # Errors
    ///
    /// [`Error`]: the folder cannot be created or written.
    pub fn create(path: &Path, scenario: &Scenario) -> Result<Folder, Error> {
        let opening = |path: &Path| {
            let path = path.to_owned();
            move |source| Error { path, source, opening: true }
        };
        fs::create_dir_all(path).map_err(opening(path))?;
        for old in [TIMELINE, REPORT, PAGE, MANIFEST] {
            let old = path.join(old);
            match fs::remove_file(&old) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(opening(&old)(error)),
                _ => {}
            }
        }
        let runs = path.join(RUNS);
        let mut folder = Folder {
            path: path.to_owned(),
            factors: rows::factors(scenario),
            runs: csv::Writer::from_writer(File::create(&runs).map_err(opening(&runs))?),
            timeline: None,
        };
        let header = rows::header(&folder.factors);
        folder
            .runs
            .write_record(header)
            .and_then(|()| Ok(folder.runs.flush()?))
            .map_err(|why| opening(&runs)(why.into()))?;
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a run down; when this returns, the file has it.
    ///
    /// # Errors
    ///
    /// [`Error`]: the disk is full, or the like.
    pub fn keep(&mut self, run: &Run, timeline: &[StateSample]) -> Result<(), Error> {
        let rows = rows::rows(run, &self.factors);
        append(&mut self.runs, rows).map_err(|source| self.error(RUNS, source))?;
        if timeline.is_empty() {
            return Ok(());
        }
        self.keep_timeline(run, timeline).map_err(|source| self.error(TIMELINE, source))
    }

    fn keep_timeline(&mut self, run: &Run, timeline: &[StateSample]) -> io::Result<()> {
        if self.timeline.is_none() {
            let mut writer = csv::Writer::from_writer(File::create(self.path.join(TIMELINE))?);
            let names = ["world", "repeat"].into_iter().chain(self.factors.iter().map(String::as_str));
            writer.write_record(names.chain(["at_ns", "job", "runnable", "sleeping"]))?;
            self.timeline = Some(writer);
        }
        let Some(writer) = &mut self.timeline else { return Ok(()) };
        let mut run_fields = vec![run.world.name().to_owned(), run.repeat.to_string()];
        run_fields.extend(self.factors.iter().map(|path| run.factors.get(path).map(words::value).unwrap_or_default()));
        let row = |sample: &StateSample| {
            let StateSample { at_ns, job, runnable, sleeping } = sample;
            let job = run.outcome.jobs.get(job.0 as usize).map(|outcome| outcome.job.clone()).unwrap_or_default();
            let fields = [at_ns.as_nanos().to_string(), job, runnable.to_string(), sleeping.to_string()];
            run_fields.iter().cloned().chain(fields).collect()
        };
        append(writer, timeline.iter().map(row))
    }

    /// Writes one of the folder's JSON files, in place of an older one.
    ///
    /// # Errors
    ///
    /// [`Error`]: the disk is full, or the like.
    pub fn write(&self, name: &str, content: &impl Serialize) -> Result<(), Error> {
        let text = report::json::render(content).map_err(|source| self.error(name, source))?;
        self.write_text(name, &text)
    }

    /// Writes one of the folder's files, in place of an older one.
    ///
    /// # Errors
    ///
    /// [`Error`]: the disk is full, or the like.
    pub fn write_text(&self, name: &str, text: &str) -> Result<(), Error> {
        fs::write(self.path.join(name), text).map_err(|source| self.error(name, source))
    }

    fn error(&self, name: &str, source: io::Error) -> Error {
        Error { path: self.path.join(name), source, opening: false }
    }
}

fn append(writer: &mut csv::Writer<File>, rows: impl Iterator<Item = Vec<String>>) -> io::Result<()> {
    for row in rows {
        writer.write_record(row)?;
    }
    writer.flush()
}
