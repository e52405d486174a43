//! Changes of affinity and quotas, and many threads on few CPUs.

use std::io;
use std::path::{Path, PathBuf};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use sys::cgroups::Hierarchy;

use super::workers::{Workers, work};
use super::{skip, tests};
use crate::team::rules_that_block;

tests! {
    sixty_four_threads_make_progress_on_two_cpus => || many(2),
    sixty_four_threads_make_progress_on_one_cpu => || many(1),
    threads_that_others_migrate_make_progress => migrated_by_others,
    threads_that_migrate_themselves_make_progress => migrated_by_themselves,
}

fn set(cpus: &[u32]) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu as usize));
    set
}

/// Two of the CPUs that this process may use, or the only one twice.
fn two_cpus() -> [u32; 2] {
    let allowed = sys::cpus::allowed().unwrap();
    [allowed[0], *allowed.get(1).unwrap_or(&allowed[0])]
}

/// Confines this process, which is still single-threaded, and its future threads to `cpus` CPUs.
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

/// Repeats all nonempty subsets of two CPUs.
fn changing() -> impl Iterator<Item = CpuSet> {
    let [one, other] = two_cpus();
    [set(&[one]), set(&[other]), set(&[one, other])].into_iter().cycle()
}

fn migrated_by_others() {
    for rule in rules_that_block() {
        work(
            rule,
            4,
            400,
            |_| (),
            |workers| {
                let mut sets = changing();
                while !workers.has_ended() {
                    for thread in workers.threads() {
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

fn migrated_by_themselves() {
    for rule in rules_that_block() {
        // Each thread is bound to one CPU when it begins, and freed while all are at work.
        let [one, other] = two_cpus();
        work(
            rule,
            4,
            400,
            |number| sched_setaffinity(None, &set(&[if number.is_multiple_of(2) { one } else { other }])).unwrap(),
            |workers| {
                for thread in workers.threads() {
                    let _ = sched_setaffinity(Pid::from_raw(thread), &set(&[one, other]));
                }
            },
        );
    }
}

/// The variable that tells a test process its control group.
const GROUP: &str = "ROWLOCK_TEST_GROUP";

/// A control group, which is removed when dropped.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes have ended and have been waited for.
        if let Err(why) = std::fs::remove_dir(&self.0) {
            eprintln!("cannot remove {}: {why}", self.0.display());
        }
    }
}

#[test]
fn a_changing_quota_stops_no_team() {
    const NAME: &str = "faults::placement::a_changing_quota_stops_no_team";
    if std::env::var_os(GROUP).is_some() {
        return quota_changes();
    }
    match group() {
        Ok(group) => {
            let mut command = testing::command(std::env::current_exe().unwrap());
            command.args([NAME, "--exact"]).env(GROUP, &group.0);
            testing::run(&mut command).expect_success().expect_stdout("1 passed");
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
        Hierarchy::all().into_iter().find(has_quotas).ok_or("no control group for CPUs can be created here")?;
    let folder = tempfile::Builder::new().prefix("rowlock-test-").tempdir_in(hierarchy.folder);
    let group = Group(folder.map_err(|why| why.to_string())?.keep());
    write_quota(&group.0, 100).map_err(|why| format!("{}: {why}", group.0.display()))?;
    Ok(group)
}

/// Sets a quota of this percentage of a CPU, in periods of 10 ms. Supports both versions of the
/// interface.
fn write_quota(group: &Path, percent: u32) -> io::Result<()> {
    let micros = percent * 100;
    if group.join("cpu.max").exists() {
        return std::fs::write(group.join("cpu.max"), format!("{micros} 10000"));
    }
    std::fs::write(group.join("cpu.cfs_period_us"), "10000")?;
    std::fs::write(group.join("cpu.cfs_quota_us"), micros.to_string())
}

/// How often the group was throttled.
fn throttled(group: &Path) -> u64 {
    let statistics = std::fs::read_to_string(group.join("cpu.stat")).unwrap();
    let count = statistics.lines().find_map(|line| line.strip_prefix("nr_throttled "));
    count.unwrap().parse().unwrap()
}

fn quota_changes() {
    let group = PathBuf::from(std::env::var(GROUP).unwrap());
    std::fs::write(group.join("cgroup.procs"), std::process::id().to_string()).unwrap();
    let change = |workers: &Workers| {
        let mut percents = [20, 60, 10].into_iter().cycle();
        while !workers.has_ended() {
            write_quota(&group, percents.next().unwrap()).unwrap();
            let before = throttled(&group);
            while !workers.has_ended() && throttled(&group) == before {
                std::thread::yield_now();
            }
        }
    };
    // On a busy machine the group may not use up any quota. Then repeat.
    while throttled(&group) == 0 {
        rules_that_block().for_each(|rule| work(rule, 4, 400, |_| (), change));
    }
}
