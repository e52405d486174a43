//! The budget holds with the page cache counted: in a control group that leaves little more,
//! nothing is killed.
//!
//! Where no such group can be made, nothing is tested, and a note says so; with
//! `ROWLOCK_REQUIRE_CAGE` in the environment that is a failure.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use super::place::Place;

/// What a program takes anyhow, and the kernel for it.
const BESIDE: u64 = 32 << 20;

/// The magic number of file systems in memory.
const TMPFS: rustix::fs::FsWord = 0x0102_1994;

/// What a record has: four bytes of key, and others that depend on them.
const RECORD: usize = 100;

#[test]
fn a_sort_gets_along_with_little_more_than_its_budget() {
    caged(8 << 20, 50_000_000);
}

#[test]
#[ignore = "takes a while and 2 GB of disk; ./check --full runs it"]
fn six_hundred_megabytes_are_sorted_in_little_more_than_64_mebibytes() {
    caged(64 << 20, 600_000_000);
}

/// A group with a limit of memory; gone when it is dropped.
struct Cage {
    folder: PathBuf,
    highest: &'static str,
}

impl Cage {
    /// Below this process's own group, if that can be.
    fn new(limit: u64) -> Option<Cage> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let of = |controllers: &str| {
            own.lines().find_map(|line| line.split_once(':')?.1.strip_prefix(controllers)).map(str::to_owned)
        };
        let first = of("memory:")
            .map(|path| (format!("/sys/fs/cgroup/memory{path}"), "memory.limit_in_bytes", "memory.max_usage_in_bytes"));
        let second = of(":").map(|path| (format!("/sys/fs/cgroup{path}"), "memory.max", "memory.peak"));
        for (parent, limits, highest) in first.into_iter().chain(second) {
            // A killed run may have left a group behind.
            let Ok(folder) = tempfile::Builder::new().prefix("rowlock-sort-test-").tempdir_in(parent) else { continue };
            let cage = Cage { folder: folder.keep(), highest };
            if cage.folder.join(limits).exists() && fs::write(cage.folder.join(limits), limit.to_string()).is_ok() {
                return Some(cage);
            }
        }
        left_out("no control group can be made that limits memory");
        None
    }
}

/// Says that nothing is tested, and why.
fn left_out(why: &str) {
    let how = "run it as a user who may make control groups, with the target folder on a disk";
    testing::left_out("ROWLOCK_REQUIRE_CAGE", why, how);
}

impl Drop for Cage {
    fn drop(&mut self) {
        // Its last process has been waited for, and is about to leave.
        for _ in 0..1_000 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        eprintln!("{} cannot be removed", self.folder.display());
    }
}

/// Sorts that much with such a budget, and looks at what comes out.
fn caged(budget: u64, bytes: u64) {
    let Some(cage) = Cage::new(budget + BESIDE) else { return };
    let place = Place::on_disk();
    if rustix::fs::statfs(place.temporary()).unwrap().f_type == TMPFS {
        return left_out("files are in memory here, and count as memory");
    }
    let sum = fill(&place.path("in"), bytes);
    let line = format!(
        "echo $$ > {}/cgroup.procs && exec rowlock sort in out --record {RECORD} --key 0:4 --memory {budget}",
        cage.folder.display()
    );
    let done = place.shell(&line).exits(0);
    let highest = fs::read_to_string(cage.folder.join(cage.highest)).unwrap_or_default();
    eprintln!("budget {budget}, limit {}, at the highest {}; {}", budget + BESIDE, highest.trim(), done.stderr);
    assert_eq!(sum_of_sorted(&place.path("out")), sum);
    assert_eq!(place.left(), ["in", "out"]);
}

/// Fills a file with that many bytes of records, and returns how many there are and a sum over all of them.
fn fill(path: &Path, bytes: u64) -> (u64, u64) {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).unwrap());
    let (mut state, mut sum) = (2_463_534_242_u32, 0);
    let mut record = [b'.'; RECORD];
    let count = bytes / RECORD as u64;
    for _ in 0..count {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        record[..4].copy_from_slice(&state.to_be_bytes());
        record[RECORD - 4..].copy_from_slice(&state.rotate_left(7).to_le_bytes());
        file.write_all(&record).unwrap();
        sum += u64::from(state);
    }
    file.into_inner().unwrap().sync_all().unwrap();
    (count, sum)
}

/// The same of a file whose keys do not descend, and whose records are whole.
fn sum_of_sorted(path: &Path) -> (u64, u64) {
    let mut file = BufReader::with_capacity(1 << 20, File::open(path).unwrap());
    let (mut record, mut last) = ([0; RECORD], 0);
    let (mut count, mut sum) = (0, 0);
    while file.read_exact(&mut record).is_ok() {
        let key = u32::from_be_bytes(*record.first_chunk().unwrap());
        assert!(last <= key, "record {count}");
        assert_eq!(u32::from_le_bytes(*record.last_chunk().unwrap()), key.rotate_left(7), "record {count}");
        (last, count, sum) = (key, count + 1, sum + u64::from(key));
    }
    (count, sum)
}
