//! The memory budget holds, including the page cache: in a control group with little more memory,
//! the sort is not killed.
//!
//! If no such group can be created, nothing is tested, and a note says so. With
//! `ROWLOCK_REQUIRE_CAGE` in the environment, that is a failure.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use super::place::Place;

/// The memory of the program itself and of the kernel for it.
const OVERHEAD: u64 = 32 << 20;

/// The magic number of memory file systems.
const TMPFS: rustix::fs::FsWord = 0x0102_1994;

/// The size of a record: four bytes of key, and others that depend on them.
const RECORD: usize = 100;

#[test]
fn a_sort_needs_little_more_memory_than_its_budget() {
    sort_in_group(8 << 20, 8 << 20, 50_000_000, 1);
}

#[test]
fn each_rank_of_a_sort_needs_little_more_memory_than_its_part_of_the_budget() {
    sort_in_group(32 << 20, 32 << 20, 50_000_000, 2);
}

#[test]
fn a_sort_with_a_budget_above_the_limit_of_its_control_group_uses_less_and_is_not_killed() {
    sort_in_group(8 << 20, 1 << 30, 50_000_000, 1);
}

#[test]
#[ignore = "takes a while and 2 GB of disk; ./check --full runs it"]
fn six_hundred_megabytes_are_sorted_in_little_more_than_64_mebibytes() {
    sort_in_group(64 << 20, 64 << 20, 600_000_000, 1);
}

/// A control group with a memory limit. Removed on drop.
struct LimitedGroup {
    folder: PathBuf,
    highest: &'static str,
}

impl LimitedGroup {
    /// Creates a group below this process's own group, if possible.
    fn new(limit: u64) -> Option<LimitedGroup> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let of = |controllers: &str| {
            own.lines().find_map(|line| line.split_once(':')?.1.strip_prefix(controllers)).map(str::to_owned)
        };
        let first = of("memory:")
            .map(|path| (format!("/sys/fs/cgroup/memory{path}"), "memory.limit_in_bytes", "memory.max_usage_in_bytes"));
        let second = of(":").map(|path| (format!("/sys/fs/cgroup{path}"), "memory.max", "memory.peak"));
        for (parent, limits, highest) in first.into_iter().chain(second) {
            // A killed run may have left a group.
            let Ok(folder) = tempfile::Builder::new().prefix("rowlock-sort-test-").tempdir_in(parent) else { continue };
            let group = LimitedGroup { folder: folder.keep(), highest };
            if group.folder.join(limits).exists() && fs::write(group.folder.join(limits), limit.to_string()).is_ok() {
                return Some(group);
            }
        }
        skip_part("no control group can be made that limits memory");
        None
    }
}

/// Reports that nothing is tested, and why.
fn skip_part(why: &str) {
    let how = "run it as a user who may make control groups, with the target folder on a disk";
    testing::skip_part("ROWLOCK_REQUIRE_CAGE", why, how);
}

impl Drop for LimitedGroup {
    fn drop(&mut self) {
        // Its last process has been reaped but may still be in the group for a moment.
        for _ in 0..1_000 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        eprintln!("{} cannot be removed", self.folder.display());
    }
}

/// Sorts this much by so many ranks with this budget in a group that allows `allowed` and the
/// overhead of each, and checks the output.
fn sort_in_group(allowed: u64, budget: u64, bytes: u64, ranks: u64) {
    let limit = allowed + ranks * OVERHEAD;
    let Some(group) = LimitedGroup::new(limit) else { return };
    let place = Place::on_disk();
    if rustix::fs::statfs(place.temporary()).unwrap().f_type == TMPFS {
        return skip_part("files are in memory here, and count as memory");
    }
    let sum = fill(&place.path("in"), bytes);
    let ranks = if ranks > 1 { format!("--ranks {ranks}") } else { String::new() };
    let line = format!(
        "echo $$ > {}/cgroup.procs && exec rowlock sort in out --record {RECORD} --key 0:4 --memory {budget} {ranks}",
        group.folder.display()
    );
    let done = place.shell(&line).expect_exit(0);
    let highest = fs::read_to_string(group.folder.join(group.highest)).unwrap_or_default();
    eprintln!("budget {budget}, limit {limit}, at the highest {}; {}", highest.trim(), done.stderr);
    assert_eq!(sum_of_sorted(&place.path("out")), sum);
    assert_eq!(place.left(), ["in", "out"]);
}

/// Fills a file with records, and returns their number and a checksum.
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

/// The number and checksum of the records of a file, whose keys must not descend and whose records
/// must be intact.
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
