//! A loom model of versions: processes that join, leave, look, and die.
//!
//! The value is the set of the members, as bits. Another thread advances at each access, so a
//! process that is stopped for any time is among the cases.

use loom::sync::atomic::AtomicU64;
use loom::sync::atomic::Ordering::SeqCst;
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::{Files, Versions};

#[derive(Default)]
struct Folder {
    latest: AtomicU64,
    /// The versions that exist, and what they contain.
    files: Mutex<Vec<(u64, u64)>>,
}

impl Files for Folder {
    type Content = u64;
    type Error = u64;

    fn read(&self, version: u64) -> Result<u64, u64> {
        let files = self.files.lock().unwrap();
        files.iter().find(|(name, _)| *name == version).map(|&(_, members)| members).ok_or(version)
    }

    fn create(&self, version: u64, &members: &u64) -> Result<(), u64> {
        let mut files = self.files.lock().unwrap();
        assert!(files.iter().all(|(name, _)| *name != version));
        files.push((version, members));
        Ok(())
    }

    fn remove(&self, version: u64) {
        self.files.lock().unwrap().retain(|(name, _)| *name != version);
    }
}

/// Where a process is killed in its change.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Lives,
    /// It has written its version, which is not the latest one.
    BeforeItIsLatest,
    /// Its version is the latest one, and the one before was not removed.
    AfterIt,
}

impl Folder {
    fn with(members: u64) -> Arc<Folder> {
        let folder = Arc::new(Folder::default());
        folder.create(1, &members).unwrap();
        folder.latest.store(1, SeqCst);
        folder
    }

    fn members(&self) -> u64 {
        Versions { latest: &self.latest, files: self }.read(0).unwrap().unwrap().1
    }

    /// Changes the members, as the process with this number, from 1. The name of a version has the
    /// number of the change and that of the process.
    fn change(&self, process: u64, end: End, change: impl Fn(u64) -> u64) {
        let versions = Versions { latest: &self.latest, files: self };
        for attempt in 0.. {
            let (from, members) = versions.read(0).expect("the latest version exists").unwrap();
            let to = (attempt + 1) * 10 + process;
            if end != End::Lives {
                self.create(to, &change(members)).unwrap();
                if end == End::AfterIt {
                    let _ = self.latest.compare_exchange(from, to, SeqCst, SeqCst);
                }
                return;
            }
            if versions.replace(from, to, &change(members)).unwrap() {
                return;
            }
        }
    }

    /// The versions that exist.
    fn files(&self) -> usize {
        self.files.lock().unwrap().len()
    }
}

/// Runs a change of a process beside one of this thread.
fn check(before: u64, other: (End, fn(u64) -> u64), own: fn(u64) -> u64, is_right: fn(&Folder) -> bool) {
    let mut builder = loom::model::Builder::new();
    (builder.preemption_bound, builder.max_duration) = testing::depth(3);
    builder.check(move || {
        let folder = Folder::with(before);
        let beside = folder.clone();
        let (end, change) = other;
        let beside = thread::spawn(move || beside.change(1, end, change));
        folder.change(2, End::Lives, own);
        beside.join().unwrap();
        assert!(is_right(&folder), "{:b} in {:?}", folder.members(), folder.files.lock().unwrap());
    });
}

#[test]
fn of_processes_that_join_and_leave_at_once_no_change_is_lost_and_one_file_is_left() {
    let is_right = |folder: &Folder| folder.members() == 0b110 && folder.files() == 1;
    check(0b001, (End::Lives, |members| members | 0b010), |members| (members | 0b100) & !0b001, is_right);
}

#[test]
fn a_process_that_dies_before_its_version_is_the_latest_one_has_changed_nothing() {
    let other = (End::BeforeItIsLatest, (|members| members | 0b010) as fn(u64) -> u64);
    check(0b001, other, |members| members | 0b100, |folder| folder.members() == 0b101);
}

#[test]
fn a_process_that_dies_after_its_version_was_the_latest_one_leaves_a_table_that_others_change() {
    let other = (End::AfterIt, (|members| members | 0b010) as fn(u64) -> u64);
    check(0b001, other, |members| members | 0b100, |folder| folder.members() & 0b101 == 0b101);
}
