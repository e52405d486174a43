//! The result folder, the same for all studies.
//!
//! Every run is in it as soon as it has ended; the report, its page and the manifest follow at the
//! end. [`RECORDS`] has each run complete, one per line: an experiment that is continued reads it.
//! [`RUNS`] has the same runs as a table.
//!
//! An experiment does not end because its folder can no longer be written, such as on a full disk:
//! its report would be lost. The first error is announced, nothing more is written, and
//! [`Folder::finish`] returns the error.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sys::files;

use crate::manifest::Manifest;

/// The runs, each complete: a line of JSON for each run.
pub const RECORDS: &str = "runs.jsonl";
/// The runs as a table.
pub const RUNS: &str = "runs.csv";
/// Samples of the states of the host's threads.
pub const TIMELINE: &str = "timeline.csv";
/// The report, as `--format json` prints it.
pub const REPORT: &str = "report.json";
/// The report, as a page for people.
pub const PAGE: &str = "report.html";
/// The command, the machine, and how the experiment ended.
pub const MANIFEST: &str = "manifest.json";

/// Why results could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder could not be opened in the first place.
    #[error("cannot write {}: {source}; name another folder by --out DIR", path.display())]
    Open {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of the folder could not be written, such as on a full disk.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An earlier experiment's file is not what this version of rowlock writes.
    #[error("cannot continue the experiment in {}: {why}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// An earlier experiment was another one.
    #[error("--append: the runs in {} have another {what}, and are not counted with these; use another folder", path.display())]
    Differs {
        /// The folder.
        path: PathBuf,
        /// The differing property.
        what: &'static str,
    },
}

impl FolderError {
    /// Whether the user has to name another folder, as opposed to a disk that became full.
    pub fn is_input(&self) -> bool {
        !matches!(self, FolderError::Write { .. })
    }
}

fn unopened(path: PathBuf) -> impl FnOnce(io::Error) -> FolderError {
    |source| FolderError::Open { path, source }
}

fn unreadable(path: &Path, why: impl ToString) -> FolderError {
    FolderError::Read { path: path.to_owned(), why: why.to_string() }
}

/// A result folder that is being written.
#[derive(Debug)]
pub struct Folder {
    files: files::Folder,
    records: File,
    rows: csv::Writer<File>,
    /// The lines of an earlier experiment.
    earlier: Vec<String>,
    /// Its manifest.
    manifest: Option<Value>,
    /// Called with the first error.
    announce: fn(&FolderError),
    failure: Option<FolderError>,
}

impl Folder {
    /// Creates the folder and its parents. In a folder that exists, replaces what an earlier
    /// experiment left; other files in it stay as they are.
    pub fn create(path: &Path) -> Result<Folder, FolderError> {
        let files = files::Folder::create(path).map_err(unopened(path.to_owned()))?;
        for name in [RECORDS, TIMELINE, REPORT, PAGE, MANIFEST] {
            files.remove(name).map_err(unopened(path.join(name)))?;
        }
        let records = files.append(RECORDS).map_err(unopened(path.join(RECORDS)))?;
        Folder::open(files, records, Vec::new(), None)
    }

    /// Opens the folder of an earlier experiment to continue it, or creates the folder if there is
    /// none. A last line that was cut short when the earlier experiment was killed is removed.
    ///
    /// The table of the runs starts empty: pass the earlier runs to [`Folder::keep_rows`].
    ///
    /// # Errors
    ///
    /// [`FolderError::Open`], and [`FolderError::Read`] if the folder has a table of runs but no
    /// records.
    pub fn append(path: &Path) -> Result<Folder, FolderError> {
        let files = match files::Folder::open(path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Folder::create(path),
            opened => opened.map_err(unopened(path.to_owned()))?,
        };
        let read = |name: &str| match files.read(name).map(String::from_utf8) {
            Ok(text) => text.map(Some).map_err(|why| unreadable(&path.join(name), why)),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(unreadable(&path.join(name), why)),
        };
        let Some(text) = read(RECORDS)? else {
            let table = path.join(RUNS);
            return match table.exists() {
                true => Err(unreadable(&table, format!("{RECORDS}, which has the runs complete, is missing"))),
                false => Folder::create(path),
            };
        };
        let complete = text.rfind('\n').map_or(0, |end| end + 1);
        let cut = |file: File| file.set_len(complete as u64).map(|()| file);
        let records = files.append(RECORDS).and_then(cut).map_err(unopened(path.join(RECORDS)))?;
        let parse = |text: String| serde_json::from_str(&text).map_err(|why| unreadable(&path.join(MANIFEST), why));
        let manifest = read(MANIFEST)?.map(parse).transpose()?;
        Folder::open(files, records, text[..complete].lines().map(str::to_owned).collect(), manifest)
    }

    fn open(
        files: files::Folder,
        records: File,
        earlier: Vec<String>,
        manifest: Option<Value>,
    ) -> Result<Folder, FolderError> {
        let rows = files.remove(RUNS).and_then(|()| files.append(RUNS));
        let rows = csv::Writer::from_writer(rows.map_err(unopened(files.path().join(RUNS)))?);
        Ok(Folder { files, records, rows, earlier, manifest, announce: |_| (), failure: None })
    }

    /// Calls a function with the first error of a later method, as soon as it occurs.
    pub fn announce(&mut self, announce: fn(&FolderError)) {
        self.announce = announce;
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        self.files.path()
    }

    /// The runs of the earlier experiment, in the order in which they were made.
    pub fn earlier<R: DeserializeOwned>(&self) -> Result<Vec<R>, FolderError> {
        let parse = |(number, line): (usize, &String)| {
            let error = |why| unreadable(&self.path().join(RECORDS), format!("line {}: {why}", number + 1));
            serde_json::from_str(line).map_err(error)
        };
        self.earlier.iter().enumerate().map(parse).collect()
    }

    /// Checks that an experiment may continue the earlier one, if there was one.
    pub fn check(&self, manifest: &Manifest) -> Result<(), FolderError> {
        match self.manifest.as_ref().and_then(|earlier| manifest.difference(earlier)) {
            Some(what) => Err(FolderError::Differs { path: self.path().to_owned(), what }),
            None => Ok(()),
        }
    }

    /// The settings of the earlier experiment's manifest; `None` if it has none.
    pub fn earlier_settings<S: DeserializeOwned>(&self) -> Result<Option<S>, FolderError> {
        let settings = self.manifest.as_ref().and_then(|manifest| manifest.get("settings"));
        let settings = settings.filter(|settings| !settings.is_null());
        let parse = |settings| S::deserialize(settings).map_err(|why| unreadable(&self.path().join(MANIFEST), why));
        settings.map(parse).transpose()
    }

    /// Writes a run: its record, and its rows of the table. When this returns, both files have it.
    pub fn keep<R: Serialize>(&mut self, run: &impl Serialize, rows: impl IntoIterator<Item = R>) {
        self.attempt(RECORDS, |folder| {
            let line = serde_json::to_string(run)? + "\n";
            folder.records.write_all(line.as_bytes())
        });
        self.keep_rows(rows);
    }

    /// Writes rows of the table. If a row is a structure, the names of its fields are the header.
    pub fn keep_rows<R: Serialize>(&mut self, rows: impl IntoIterator<Item = R>) {
        self.attempt(RUNS, |folder| {
            for row in rows {
                folder.rows.serialize(row)?;
            }
            folder.rows.flush()
        });
    }

    /// Appends records to one of the folder's tables, with a header if the table is new.
    pub(crate) fn append_to_table(
        &mut self,
        name: &str,
        header: impl IntoIterator<Item = impl AsRef<[u8]>>,
        records: impl IntoIterator<Item = Vec<String>>,
    ) {
        self.attempt(name, |folder| {
            let file = folder.files.append(name)?;
            let is_new = file.metadata()?.len() == 0;
            let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(file);
            if is_new {
                writer.write_record(header)?;
            }
            records.into_iter().try_for_each(|record| writer.write_record(record))?;
            writer.flush()
        });
    }

    /// Writes one of the folder's JSON files, in place of an older one.
    pub fn write(&mut self, name: &str, content: &impl Serialize) {
        self.attempt(name, |folder| folder.files.replace(name, report::json::render(content)?.as_bytes(), None));
    }

    /// Writes one of the folder's files, in place of an older one.
    pub fn write_text(&mut self, name: &str, text: &str) {
        self.attempt(name, |folder| folder.files.replace(name, text.as_bytes(), None));
    }

    /// Returns the first error in writing, if there was one.
    ///
    /// # Errors
    ///
    /// [`FolderError::Write`]: what was written later is missing.
    pub fn finish(self) -> Result<(), FolderError> {
        self.failure.map_or(Ok(()), Err)
    }

    fn attempt(&mut self, name: &str, write: impl FnOnce(&mut Folder) -> io::Result<()>) {
        if self.failure.is_none()
            && let Err(source) = write(self)
        {
            let failure = FolderError::Write { path: self.path().join(name), source };
            (self.announce)(&failure);
            self.failure = Some(failure);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Run {
        round: u32,
        clock_s: f64,
    }

    fn run(round: u32) -> Run {
        Run { round, clock_s: 0.1 }
    }

    fn text(path: &Path, name: &str) -> String {
        fs::read_to_string(path.join(name)).unwrap()
    }

    #[test]
    fn a_continued_experiment_has_the_earlier_runs_and_a_new_one_replaces_them() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        for round in 0..3 {
            let mut folder = Folder::append(&path).unwrap();
            let earlier: Vec<Run> = folder.earlier().unwrap();
            assert_eq!(earlier, (0..round).map(run).collect::<Vec<_>>());
            folder.keep_rows(&earlier);
            folder.keep(&run(round), [run(round)]);
        }
        assert_eq!(text(&path, RUNS), "round,clock_s\n0,0.1\n1,0.1\n2,0.1\n");
        drop(Folder::create(&path).unwrap());
        assert_eq!(Folder::append(&path).unwrap().earlier::<Run>().unwrap(), []);
    }

    #[test]
    fn a_line_that_was_cut_short_by_a_kill_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        Folder::create(path).unwrap().keep(&run(0), [run(0)]);
        let whole = text(path, RECORDS);
        fs::write(path.join(RECORDS), format!("{whole}{{\"round\":1,\"clo")).unwrap();
        let mut folder = Folder::append(path).unwrap();
        assert_eq!(folder.earlier::<Run>().unwrap(), [run(0)]);
        folder.keep(&run(1), [run(1)]);
        assert_eq!(Folder::append(path).unwrap().earlier::<Run>().unwrap(), [run(0), run(1)]);
    }

    #[test]
    fn a_folder_that_is_not_of_this_kind_is_not_continued() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(RUNS), "world,repeat\nhost,0\n").unwrap();
        let error = Folder::append(folder.path()).unwrap_err();
        assert!(error.is_input() && error.to_string().contains("runs.jsonl"), "{error}");
        assert_eq!(text(folder.path(), RUNS), "world,repeat\nhost,0\n");
        fs::write(folder.path().join(RECORDS), "{\"round\":1}\n").unwrap();
        let error = Folder::append(folder.path()).unwrap().earlier::<Run>().unwrap_err();
        assert!(error.is_input() && error.to_string().contains("line 1: missing field `clock_s`"), "{error}");
    }
}
