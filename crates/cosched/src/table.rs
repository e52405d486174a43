//! The table of all jobs of a user: a folder that their agents share.
//!
//! Each version of the table is a file that never changes. A process that changes the table writes
//! the next version, and then one compare-and-exchange makes it the latest one. If another process
//! was faster, it begins again with that one's version. No process ever waits for another.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

use policy::{Instant, JobId, Span};
use serde::{Deserialize, Serialize};
use sys::files::SharedFolder;
use sys::identity::Identity;
use wait::turn::{self, WrittenPage};

use crate::claim::Word;
use crate::page::{self, Histogram, Page};
use crate::process_list::{self, ProcessList};
use crate::state::{Job, State, StateError};
use crate::versions::{Files, Versions};

/// The folder in which tables are.
const PLACE: &str = "/dev/shm";
/// The variable that names another one.
pub const VARIABLE: &str = "ROWLOCK_TABLE";
/// The name of the file with the shared words. It ends with the version of its format.
const PAGE: &str = "page-5";
/// The beginning of its name, in all versions.
const PAGES: &str = "page-";
/// The largest version of a table, in bytes.
const LARGEST: u64 = 16 << 20;

/// A table, as long as this process uses it. The last process removes it.
#[derive(Debug)]
pub struct Table {
    folder: SharedFolder,
    page: Page,
    /// The last version that was read or written.
    known: Mutex<Option<(u64, Arc<State>)>>,
}

/// The measurements of agents.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The times of switches.
    pub times: Times,
    /// The share of the CPU time of its last turns that a job has used, in thousandths, by the
    /// job's number. A job that takes no turns is missing.
    pub shares: BTreeMap<u32, u32>,
}

/// The times of switches.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Times {
    /// How late they began after their boundaries.
    pub lateness: Quantiles,
    /// How long they took.
    pub duration: Quantiles,
    /// How long they took from the first process that they let run again to the last.
    pub skew: Quantiles,
    /// From their boundaries to their ends. `None` without switches.
    pub delay: Option<Delay>,
}

/// The times from boundaries to the ends of their switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delay {
    /// The number of switches.
    pub switches: u64,
    /// Their mean.
    pub mean: Span,
    /// Their standard deviation.
    pub deviation: Span,
}

/// Upper bounds of quantiles, too high by at most an eighth or 1 us. `None` without switches.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantiles {
    /// Half of all times are not longer.
    pub median: Option<Span>,
    /// 90 % are not longer.
    pub of_90_percent: Option<Span>,
}

/// The reason why a table cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// Its folder cannot be used.
    #[error("cannot use the table of jobs in {}: {why}; {VARIABLE} names another folder for it", place.display())]
    Folder {
        /// The folder.
        place: PathBuf,
        /// The reason.
        #[source]
        why: io::Error,
    },
    /// A version is damaged.
    #[error("the table of jobs in {} is damaged: {why}; it vanishes when the last job of this user has ended", place.display())]
    Damaged {
        /// The folder.
        place: PathBuf,
        /// The reason.
        why: String,
    },
}

impl TableError {
    fn is_of_missing_file(&self) -> bool {
        matches!(self, TableError::Folder { why, .. } if why.kind() == io::ErrorKind::NotFound)
    }
}

/// The folder around the tables of this machine.
pub fn place() -> PathBuf {
    std::env::var_os(VARIABLE).filter(|named| !named.is_empty()).map_or_else(|| PLACE.into(), PathBuf::from)
}

impl Table {
    /// Enters the table in a folder, and creates it if there is none: with the jobs of `empty`.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn enter(place: &Path, empty: impl FnOnce() -> State) -> Result<Table, TableError> {
        Table::enter_named(place, &SharedFolder::common_name(), empty)
    }

    /// Creates a table of this process alone in a folder. Others do not find it.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn create_own(place: &Path, empty: impl FnOnce() -> State) -> Result<Table, TableError> {
        static TABLES: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), TABLES.fetch_add(1, Relaxed));
        Table::enter_named(place, &format!("{}-{process}-{number}", SharedFolder::common_name()), empty)
    }

    fn enter_named(place: &Path, name: &str, empty: impl FnOnce() -> State) -> Result<Table, TableError> {
        let folder = SharedFolder::enter(place, name);
        let table = Table::open(folder.map_err(|why| folder_error(place, why))?)?;
        if table.page.latest().read() == 0 {
            // Another process may be faster.
            table.replace(0, Version::first(), &empty().to_bytes())?;
        }
        Ok(table)
    }

    /// Enters the table in a folder. Returns `None` if there is none.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn find(place: &Path) -> Result<Option<Table>, TableError> {
        let found = SharedFolder::find(place, &SharedFolder::common_name()).map_err(|why| folder_error(place, why))?;
        let table = found.map(Table::open).transpose()?;
        // Its first user may not have made a version yet.
        Ok(table.filter(|table| table.page.latest().read() != 0))
    }

    /// Reads the latest version of the table in a folder, without entering it. Returns `None` if
    /// there is no table, or if its last user leaves it at this moment.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn look(place: &Path) -> Result<Option<(Arc<State>, Measured)>, TableError> {
        let found = SharedFolder::look(place, &SharedFolder::common_name()).map_err(|why| folder_error(place, why))?;
        let read = |folder| -> Result<_, TableError> {
            let table = Table::open(folder)?;
            if table.page.latest().read() == 0 {
                return Ok(None);
            }
            let state = table.state()?;
            // Its folder was not entered, so that this creates no file of a job that has ended.
            let share = |(job, _): (JobId, _)| Some((job.0, table.processes(job).ok()?.share()?));
            let takes_turns = |(job, _): &(JobId, _)| state.facts(*job).is_some_and(|facts| facts.takes_turns());
            let shares = state.jobs().filter(takes_turns).filter_map(share).collect();
            Ok(Some((state, Measured { times: table.times(), shares })))
        };
        match found.map_or(Ok(None), read) {
            Err(why) if why.is_of_missing_file() => Ok(None),
            read => read,
        }
    }

    fn open(folder: SharedFolder) -> Result<Table, TableError> {
        let mapped = folder.map(PAGE, page::LENGTH).map(|mapping| Page::new(&mapping));
        match mapped.map_err(|why| folder_error(folder.path(), why))? {
            Some(page) => Ok(Table { folder, page, known: Mutex::new(None) }),
            None => Err(folder_error(folder.path(), io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The times of the switches of all jobs since the table was made.
    pub fn times(&self) -> Times {
        let quantiles = |histogram: Histogram<'_>| Quantiles {
            median: histogram.quantile(500),
            of_90_percent: histogram.quantile(900),
        };
        Times {
            lateness: quantiles(self.page.lateness()),
            duration: quantiles(self.page.duration()),
            skew: quantiles(self.page.skew()),
            delay: self.page.delay().read().map(|(switches, mean, deviation)| Delay { switches, mean, deviation }),
        }
    }

    /// A process of another version of rowlock that uses the folder, with a page of its own. `None`
    /// if there is none, or none that this process may look at.
    pub fn user_of_other_version(&self) -> Option<u32> {
        let folder = self.path().canonicalize().ok()?;
        let names = fs::read_dir(&folder).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let pages: Vec<String> = names.filter(|name| name.starts_with(PAGES) && name != PAGE).collect();
        if pages.is_empty() {
            return None;
        }
        let paths: Vec<_> = pages.iter().map(|page| folder.join(page).to_string_lossy().into_owned()).collect();
        let has_mapped = |process: &u32| {
            let mapped = fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
            String::from_utf8_lossy(&mapped).lines().any(|line| paths.iter().any(|path| line.ends_with(path)))
        };
        let processes = fs::read_dir("/proc").ok()?.flatten();
        let mut processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        processes.find(has_mapped)
    }

    pub(crate) fn page(&self) -> &Page {
        &self.page
    }

    /// The latest version.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn state(&self) -> Result<Arc<State>, TableError> {
        self.latest().map(|(_, state)| state)
    }

    /// The version that this process has read or written last.
    ///
    /// # Errors
    /// [`TableError`].
    pub(crate) fn known(&self) -> Result<Arc<State>, TableError> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(_, state)| state.clone());
        known.map_or_else(|| self.state(), Ok)
    }

    /// The latest version and its number, which no other version of this table has.
    pub(crate) fn latest(&self) -> Result<(u64, Arc<State>), TableError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let read = self.versions().read(known.as_ref().map_or(0, |(version, _)| *version));
        let read = read.map_err(|why| match why.kind() {
            io::ErrorKind::NotFound => folder_error(self.folder.path(), why),
            _ => self.damaged(why),
        })?;
        if let Some((latest, bytes)) = read {
            let state = State::from_bytes(&bytes, wait::now()).map_err(|why| self.damaged(why))?;
            *known = Some((latest, Arc::new(state)));
        }
        known.clone().ok_or_else(|| self.damaged("it has no version"))
    }

    /// Changes the table as [`update`](Self::update), one process after another: for changes that
    /// hundreds of them can make at once. Blocks until the others have made theirs.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub(crate) fn update_serialized<T, E>(&self, change: impl Fn(&mut State, Instant) -> Result<T, E>) -> Result<T, E>
    where
        E: From<TableError> + From<StateError>,
    {
        let _guard = self.page.lock().acquire();
        self.update(change)
    }

    /// Changes the table, and wakes those that this concerns. Jobs whose agents have ended are gone
    /// before, except those that wait behind others. The change may be applied several times, to
    /// versions of which only one is kept.
    ///
    /// # Errors
    /// [`TableError`], as the inner error or that of the change. Nothing has changed then.
    pub fn update<T, E>(&self, change: impl Fn(&mut State, Instant) -> Result<T, E>) -> Result<T, E>
    where
        E: From<TableError> + From<StateError>,
    {
        loop {
            let (latest, state) = self.latest()?;
            let mut next = State::clone(&state);
            let now = wait::now();
            let ended = next.release_ended(Identity::is_alive, now)?;
            let done = change(&mut next, now)?;
            let (version, bytes) = (Version(latest).next(), next.to_bytes());
            // It would wake all agents for nothing.
            if state.jobs().eq(next.jobs()) && bytes == state.to_bytes() {
                return Ok(done);
            }
            if bytes.len() as u64 > LARGEST {
                return Err(StateError::TooLarge.into());
            }
            if self.replace(latest, version, &bytes)? {
                self.announce(&state, &next);
                *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some((version.0, Arc::new(next)));
                ended.into_iter().for_each(|job| self.remove_processes(job));
                return Ok(done);
            }
        }
    }

    /// Wakes those that a change concerns: agents, jobs that have left the queue, and those that
    /// are the first ones now.
    fn announce(&self, before: &State, after: &State) {
        if !after.differs_in_queue_alone(before) {
            self.page.wake();
        }
        let is_queued = |job: JobId| after.job(job).is_ok_and(Job::is_queued);
        let left: Vec<JobId> = before.queue().filter(|&job| !is_queued(job)).collect();
        if !left.is_empty() {
            self.page.leave_queue(left.len() as u32, left.into_iter().chain(after.first_in_queue()));
        }
        match before.jobs().filter(|&(job, _)| after.job(job).is_err()).count() as u32 {
            0 => {}
            ended => self.page.end(ended),
        }
    }

    /// The list of a job's processes, which is created if there is none.
    pub(crate) fn processes(&self, job: JobId) -> io::Result<ProcessList> {
        let mapping = self.folder.map(&format!("processes-{job}"), process_list::LENGTH)?;
        ProcessList::new(&mapping).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// The page that tells a job whose turn it is, which is created if there is none.
    pub(crate) fn turn_page(&self, job: JobId) -> io::Result<WrittenPage> {
        let mapping = self.folder.map(&turn_page(job), turn::LENGTH)?;
        WrittenPage::new(&mapping).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// The path of that page.
    pub(crate) fn turn_page_path(&self, job: JobId) -> PathBuf {
        self.path().join(turn_page(job))
    }

    /// Removes the list and the page of a job.
    pub(crate) fn remove_processes(&self, job: JobId) {
        let _ = self.folder.remove(&format!("processes-{job}"));
        let _ = self.folder.remove(&turn_page(job));
    }

    fn versions(&self) -> Versions<'_, AtomicU64, SharedFolder> {
        Versions { latest: self.page.latest(), files: &self.folder }
    }

    /// Replaces a version, unless another process was faster.
    fn replace(&self, from: u64, to: Version, bytes: &Vec<u8>) -> Result<bool, TableError> {
        self.versions().replace(from, to.0, bytes).map_err(|why| folder_error(self.folder.path(), why))
    }

    fn damaged(&self, why: impl ToString) -> TableError {
        TableError::Damaged { place: self.folder.path().to_owned(), why: why.to_string() }
    }
}

impl Files for SharedFolder {
    type Content = Vec<u8>;
    type Error = io::Error;

    fn read(&self, version: u64) -> io::Result<Vec<u8>> {
        SharedFolder::read(self, &Version(version).file(), LARGEST)
    }

    fn create(&self, version: u64, content: &Vec<u8>) -> io::Result<()> {
        self.create_file(&Version(version).file(), content)
    }

    fn remove(&self, version: u64) {
        // One that stays vanishes with the folder.
        let _ = SharedFolder::remove(self, &Version(version).file());
    }
}

fn turn_page(job: JobId) -> String {
    format!("turn-{job}")
}

fn folder_error(place: &Path, why: io::Error) -> TableError {
    TableError::Folder { place: place.to_owned(), why }
}

/// The name of a version: its number in the upper half, and in the lower half a number that differs
/// between processes and attempts, since several can write the same next version at a time.
#[derive(Clone, Copy, Debug)]
struct Version(u64);

impl Version {
    fn new(number: u32) -> Version {
        static ATTEMPTS: AtomicU32 = AtomicU32::new(0);
        // Process IDs are below 2^22.
        let attempt = ATTEMPTS.fetch_add(1, Relaxed) << 22 | Identity::own().pid & 0x3f_ffff;
        Version(u64::from(number) << 32 | u64::from(attempt))
    }

    fn first() -> Version {
        Version::new(1)
    }

    fn next(self) -> Version {
        // Zero means that there is no version.
        Version::new(((self.0 >> 32) as u32).checked_add(1).unwrap_or(1))
    }

    fn file(self) -> String {
        format!("version-{:x}", self.0)
    }
}

#[cfg(test)]
mod tests;
