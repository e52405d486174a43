//! The spool: the output of detached jobs, and how they have ended, until it is attached.
//!
//! It is a folder of this user for each machine and table of jobs, in `XDG_STATE_HOME` or
//! `~/.local/state`, which machines may share. A job has three files: a record, and its standard
//! output and standard error, which its ranks write themselves. Their size is not limited. Before a
//! job starts, its files have no name, so nothing is left of one that does not start.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow};
use policy::JobId;
use rustix::fs::Mode;
use serde::{Deserialize, Serialize};
use sys::files::{Draft, Folder, SharedFolder};
use sys::identity::{Identity, boot, machine};

/// How long output that nothing attaches is kept after its last change.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Permissions for this user alone.
const PRIVATE_FOLDER: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;
/// The ends of the names of the files.
const RECORD: &str = "json";
const STREAMS: [&str; 2] = ["out", "err"];

/// The spool of a table.
#[derive(Clone, Debug)]
pub(crate) struct Spool(Folder);

/// The facts about a detached job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// Processes of different boots can have the same identity.
    boot: String,
    pid: u32,
    started: u64,
    pub(crate) command: String,
    pub(crate) ranks: u32,
    /// How it has ended, and how long it ran.
    ended: Option<Ended>,
    /// Whether its agent was alive when this was read.
    #[serde(skip)]
    is_alive: bool,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ended {
    status: i32,
    seconds: f64,
}

/// Whether and how a detached job has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// It runs.
    None,
    /// It has ended with this status, after so many seconds.
    Ended(ExitStatus, f64),
    /// Its agent was killed, or the machine was restarted.
    Killed,
}

impl Record {
    pub(crate) fn new(command: String, ranks: u32) -> Record {
        let Identity { pid, started } = Identity::own();
        Record { boot: boot(), pid, started, command, ranks, ended: None, is_alive: true }
    }

    pub(crate) fn end(&self) -> End {
        match self.ended {
            Some(Ended { status, seconds }) => End::Ended(ExitStatus::from_raw(status), seconds),
            None if self.is_alive => End::None,
            None => End::Killed,
        }
    }

    pub(crate) fn agent(&self) -> Identity {
        Identity { pid: self.pid, started: self.started }
    }
}

impl Spool {
    /// The spool of the table in this folder, which is created.
    pub(crate) fn create(place: &Path) -> anyhow::Result<Spool> {
        let path = path(place).ok_or_else(|| {
            anyhow!("there is no place for the output of a detached job: XDG_STATE_HOME names a folder for it")
        })?;
        let create = || Folder::create_private(&path, PRIVATE_FOLDER);
        let spool = Spool(create().with_context(|| format!("cannot keep the output of a job in {}", path.display()))?);
        spool.remove_old();
        Ok(spool)
    }

    /// The spool of the table in this folder, if there is one that can be read.
    pub(crate) fn find(place: &Path) -> Option<Spool> {
        Folder::open_private(&path(place)?).ok().map(Spool)
    }

    /// All jobs whose output is kept, in the order of their numbers.
    pub(crate) fn jobs(&self) -> Vec<(JobId, Record)> {
        let entries = fs::read_dir(self.0.path()).into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".json")?.parse().ok());
        let mut jobs: Vec<_> =
            numbers.filter_map(|number| Some((JobId(number), self.record(JobId(number))?))).collect();
        jobs.sort_by_key(|&(job, _)| job);
        jobs
    }

    /// The record of a job. `None` if there is none that can be read.
    pub(crate) fn record(&self, job: JobId) -> Option<Record> {
        settled(|| serde_json::from_slice(&self.0.read_private(&name(job, RECORD)).ok()?).ok())
    }

    /// Files for standard output and standard error, which have no names yet.
    pub(crate) fn files(&self) -> io::Result<[Draft; 2]> {
        let create = || {
            let file = Draft::create(&self.0, Mode::from_raw_mode(PRIVATE_FILE))?;
            file.append().map(|()| file)
        };
        Ok([create()?, create()?])
    }

    /// Says that a job has started whose output goes to these files.
    pub(crate) fn add(&self, job: JobId, record: &Record, files: [Draft; 2]) -> io::Result<()> {
        // Another table has given this number to a job before.
        self.remove(job);
        self.write(job, record)?;
        for (file, end) in files.into_iter().zip(STREAMS) {
            file.give_name(name(job, end).as_ref())?;
        }
        Ok(())
    }

    /// Says how a job has ended.
    pub(crate) fn set_ended(&self, job: JobId, record: Record, status: ExitStatus, time: Duration) -> io::Result<()> {
        let ended = Ended { status: status.into_raw(), seconds: time.as_secs_f64() };
        self.write(job, &Record { ended: Some(ended), ..record })
    }

    fn write(&self, job: JobId, record: &Record) -> io::Result<()> {
        self.0.replace(&name(job, RECORD), &serde_json::to_vec(record)?, Some(PRIVATE_FILE))
    }

    /// Opens the standard output and standard error of a job, unless they are open. They get their
    /// names after its record.
    pub(crate) fn open(&self, job: JobId, streams: &mut [Option<File>; 2]) {
        for (stream, end) in streams.iter_mut().zip(STREAMS).filter(|(stream, _)| stream.is_none()) {
            *stream = File::open(self.0.path().join(name(job, end))).ok();
        }
    }

    /// Forgets a job.
    pub(crate) fn remove(&self, job: JobId) {
        // The record comes last: it names the others.
        for end in STREAMS.into_iter().chain([RECORD]) {
            let _ = self.0.remove(name(job, end));
        }
    }

    /// Forgets the jobs that have ended long ago.
    fn remove_old(&self) {
        sys::files::remove_leftovers(&self.0);
        let now = SystemTime::now();
        for (job, _) in self.jobs().into_iter().filter(|(_, record)| !matches!(record.end(), End::None)) {
            let changed =
                |end| fs::metadata(self.0.path().join(name(job, end))).and_then(|about| about.modified()).ok();
            let last = STREAMS.into_iter().chain([RECORD]).filter_map(changed).max();
            if last.and_then(|last| now.duration_since(last).ok()).is_some_and(|age| age > KEPT) {
                self.remove(job);
            }
        }
    }
}

/// Reads a record, and whether its agent is alive.
fn settled(read: impl Fn() -> Option<Record>) -> Option<Record> {
    let record = read()?;
    if record.boot == boot() && record.agent().is_alive() {
        return Some(Record { is_alive: true, ..record });
    }
    // The agent may have written the end of the job and ended after the first look.
    read()
}

/// The first number that no job has whose output is kept.
pub(crate) fn first_number(place: &Path) -> u32 {
    let last = Spool::find(place).and_then(|spool| spool.jobs().last().map(|&(JobId(last), _)| last));
    last.unwrap_or(0).saturating_add(1)
}

fn name(job: JobId, end: &str) -> String {
    format!("{job}.{end}")
}

/// The folder for a table in this folder.
fn path(place: &Path) -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    let table = place.to_string_lossy().replace('/', "-");
    let table = format!("{}{table}", SharedFolder::common_name());
    Some(state.join("rowlock/jobs").join(machine()).join(table))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests write files as they like")]
pub(crate) mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::*;

    pub(crate) fn spool(folder: &Path) -> Spool {
        Spool(Folder::create_private(folder, PRIVATE_FOLDER).unwrap())
    }

    /// The record of a job whose agent was killed.
    pub(crate) fn killed() -> Record {
        let record = Record::new(String::new(), 1);
        Record { started: record.started - 1, is_alive: false, ..record }
    }

    /// The record of a job that has ended.
    pub(crate) fn ended() -> Record {
        Record { ended: Some(Ended { status: 0, seconds: 1.0 }), ..Record::new(String::new(), 1) }
    }

    #[test]
    fn a_job_is_known_from_its_start_until_it_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let spool = spool(place.path());
        let files = spool.files().unwrap();
        assert!(spool.jobs().is_empty());
        let record = Record::new("a b".to_owned(), 2);
        spool.add(JobId(3), &record, files).unwrap();
        assert!(matches!(spool.record(JobId(3)).unwrap().end(), End::None));
        let mut streams = [None, None];
        spool.open(JobId(3), &mut streams);
        assert!(streams.iter().all(Option::is_some));
        let status = ExitStatus::from_raw(3 << 8);
        spool.set_ended(JobId(3), record, status, Duration::from_secs(1)).unwrap();
        assert!(matches!(spool.jobs()[..], [(JobId(3), ref record)] if
            matches!(record.end(), End::Ended(found, _) if found == status)));
        spool.remove(JobId(3));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_job_whose_agent_ended_without_a_word_or_in_another_boot_was_killed() {
        let place = tempfile::tempdir().unwrap();
        let spool = spool(place.path());
        let own = Record::new(String::new(), 1);
        let other = Record { boot: own.boot.clone() + "0", ..own.clone() };
        for (record, is_killed) in [(own, false), (other, true), (killed(), true)] {
            spool.write(JobId(1), &record).unwrap();
            assert_eq!(matches!(spool.record(JobId(1)).unwrap().end(), End::Killed), is_killed);
        }
    }

    #[test]
    fn a_job_that_ends_while_its_record_is_read_was_not_killed() {
        let looks = std::cell::Cell::new(0);
        let read = || {
            looks.set(looks.get() + 1);
            let ended = if looks.get() > 1 { ended().ended } else { None };
            Some(Record { ended, ..killed() })
        };
        assert!(matches!(settled(read).unwrap().end(), End::Ended(..)));
    }

    #[test]
    fn each_machine_has_a_spool_of_its_own() {
        let path = path(Path::new("/dev/shm")).unwrap();
        assert!(path.iter().any(|part| part == machine().as_str()), "{}", path.display());
    }

    #[test]
    fn output_is_appended_to_that_of_others_in_the_same_file() {
        let place = tempfile::tempdir().unwrap();
        let [file, _] = spool(place.path()).files().unwrap();
        let path = format!("/proc/self/fd/{}", file.file().as_raw_fd());
        let mut other = File::options().append(true).open(&path).unwrap();
        for text in ["1", "2"] {
            file.file().write_all(text.as_bytes()).unwrap();
            other.write_all(text.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "1122");
    }

    #[test]
    fn only_jobs_that_ended_long_ago_are_forgotten() {
        let place = tempfile::tempdir().unwrap();
        let spool = spool(place.path());
        let long_ago = SystemTime::now() - KEPT - Duration::from_secs(60);
        for job in 1..=3 {
            let record = Record::new(String::new(), 1);
            spool.add(JobId(job), &record, spool.files().unwrap()).unwrap();
            if job > 1 {
                spool.set_ended(JobId(job), record, ExitStatus::default(), Duration::ZERO).unwrap();
            }
            // The third one wrote something today.
            for end in STREAMS.into_iter().chain([RECORD]).skip(usize::from(job == 3)) {
                let file = File::options().write(true).open(place.path().join(name(JobId(job), end))).unwrap();
                file.set_modified(long_ago).unwrap();
            }
        }
        spool.remove_old();
        assert_eq!(spool.jobs().iter().map(|(job, _)| job.0).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn what_is_no_record_is_ignored() {
        let place = tempfile::tempdir().unwrap();
        let spool = spool(place.path());
        for (name, content) in [("1.json", "{"), ("x.json", "{}"), ("2.json", "{}"), ("3.out", "")] {
            fs::write(place.path().join(name), content).unwrap();
        }
        assert!(spool.jobs().is_empty());
    }
}
