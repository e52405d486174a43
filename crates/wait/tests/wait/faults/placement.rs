//! Where threads may run, and for how long: affinity and quotas that change, few CPUs and many threads.

use std::io;
use std::path::{Path, PathBuf};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use sys::cgroups::Hierarchy;

use super::crew::{Crew, work};
use super::{skip, tests};
use crate::team::rules_that_block;

tests! {
    sixty_four_threads_get_ahead_on_two_cpus => || many(2),
    sixty_four_threads_get_ahead_on_one_cpu => || many(1),
    threads_that_are_moved_from_outside_get_ahead => moved_from_outside,
    threads_that_move_themselves_get_ahead => moved_from_inside,
}

fn set(cpus: &[u32]) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu as usize));
    set
}

/// Two of the CPUs that this process may use; the same one twice where it may use one only.
fn two_cpus() -> [u32; 2] {
    let allowed = sys::cpus::allowed().unwrap();
    [allowed[0], *allowed.get(1).unwrap_or(&allowed[0])]
}

/// This process, which has one thread yet, and all that it will have, may use so many CPUs.
pub(crate) fn confine(cpus: usize) {
    let two = two_cpus();
    sched_setaffinity(None, &set(&two[..cpus])).unwrap();
}

fn many(cpus: usize) {
    confine(cpus);
    for rule in rules_that_block() {
        work(rule, 64, 8, |_| (), |_| ());
    }
}

/// All sets of two CPUs but the empty one, for ever.
fn changing() -> impl Iterator<Item = CpuSet> {
    let [one, other] = two_cpus();
    [set(&[one]), set(&[other]), set(&[one, other])].into_iter().cycle()
}

fn moved_from_outside() {
    for rule in rules_that_block() {
        work(
            rule,
            4,
            400,
            |_| (),
            |crew| {
                let mut sets = changing();
                while !crew.has_ended() {
                    for thread in crew.threads() {
                        // It may have ended meanwhile.
                        let _ = sched_setaffinity(Pid::from_raw(thread), &sets.next().unwrap());
                    }
                    // Each thread gets another set than before.
                    sets.next();
                    std::thread::yield_now();
                }
            },
        );
    }
}

fn moved_from_inside() {
    for rule in rules_that_block() {
        // Each is bound to one CPU when it begins, and one after the other is freed while all are at work.
        let [one, other] = two_cpus();
        work(
            rule,
            4,
            400,
            |number| sched_setaffinity(None, &set(&[if number.is_multiple_of(2) { one } else { other }])).unwrap(),
            |crew| {
                for thread in crew.threads() {
                    let _ = sched_setaffinity(Pid::from_raw(thread), &set(&[one, other]));
                }
            },
        );
    }
}

/// Where the test's own group is told to it.
const GROUP: &str = "ROWLOCK_TEST_GROUP";

/// A group of processes, which is removed when this is dropped.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        // The processes in it have ended and have been waited for.
        if let Err(why) = std::fs::remove_dir(&self.0) {
            eprintln!("{} stays: {why}", self.0.display());
        }
    }
}

#[test]
fn a_quota_that_changes_stops_no_team() {
    const NAME: &str = "faults::placement::a_quota_that_changes_stops_no_team";
    if std::env::var_os(GROUP).is_some() {
        return quota_changes();
    }
    match group() {
        Ok(group) => {
            let mut command = testing::command(std::env::current_exe().unwrap());
            command.args([NAME, "--exact"]).env(GROUP, &group.0);
            testing::run(&mut command).succeeds().prints("1 passed");
        }
        Err(why) => skip(NAME, why),
    }
}

/// A new group below that of this process, whose quota can be set.
fn group() -> Result<Group, String> {
    let has_quotas = |hierarchy: &Hierarchy| {
        hierarchy.is_writable() && hierarchy.available().iter().any(|controller| controller == "cpu")
    };
    let hierarchy =
        Hierarchy::all().into_iter().find(has_quotas).ok_or("no control group for CPUs can be made here")?;
    let folder = tempfile::Builder::new().prefix("rowlock-test-").tempdir_in(hierarchy.folder);
    let group = Group(folder.map_err(|why| why.to_string())?.keep());
    write_quota(&group.0, 100).map_err(|why| format!("{}: {why}", group.0.display()))?;
    Ok(group)
}

/// So many percent of a CPU, in periods of 10 ms; in either version of the interface.
fn write_quota(group: &Path, percent: u32) -> io::Result<()> {
    let micros = percent * 100;
    if group.join("cpu.max").exists() {
        return std::fs::write(group.join("cpu.max"), format!("{micros} 10000"));
    }
    std::fs::write(group.join("cpu.cfs_period_us"), "10000")?;
    std::fs::write(group.join("cpu.cfs_quota_us"), micros.to_string())
}

/// How often the group has had to wait for its next period.
fn throttled(group: &Path) -> u64 {
    let statistics = std::fs::read_to_string(group.join("cpu.stat")).unwrap();
    let count = statistics.lines().find_map(|line| line.strip_prefix("nr_throttled "));
    count.unwrap().parse().unwrap()
}

fn quota_changes() {
    let group = PathBuf::from(std::env::var(GROUP).unwrap());
    std::fs::write(group.join("cgroup.procs"), std::process::id().to_string()).unwrap();
    let change = |crew: &Crew| {
        let mut percents = [20, 60, 10].into_iter().cycle();
        while !crew.has_ended() {
            write_quota(&group, percents.next().unwrap()).unwrap();
            let before = throttled(&group);
            while !crew.has_ended() && throttled(&group) == before {
                std::thread::yield_now();
            }
        }
    };
    // A busy machine may not let the group use up any quota. Then all work once more.
    while throttled(&group) == 0 {
        rules_that_block().for_each(|rule| work(rule, 4, 400, |_| (), change));
    }
}
