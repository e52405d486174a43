//! The control groups that rowlock creates: for its programs, for jobs, and to throttle the disk.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use testing::Child;

use crate::prun::{Table, until};

/// Where all hierarchies are mounted.
const HIERARCHIES: &str = "/sys/fs/cgroup";
/// The beginnings of their names, which the id of their creator follows.
const NAMES: [&str; 3] = ["rowlock-program-", "rowlock-job-", "rowlock-disk-"];

/// The groups that this process has created.
pub(crate) fn of(process: u32) -> Vec<String> {
    found(|creator, _| creator == process)
}

/// The groups whose creators have ended. A creator may be in another PID namespace: then it has
/// locked the group of a job or of a disk, and there are processes in the group of its program.
pub(crate) fn abandoned() -> Vec<String> {
    let exists = |creator: u32| Path::new(&format!("/proc/{creator}")).exists();
    found(|creator, group| match group.file_name().unwrap().to_string_lossy().starts_with(NAMES[0]) {
        true => !exists(creator) && !has_processes_elsewhere(group),
        false => File::open(group).is_ok_and(|group| !sys::files::is_locked(group)),
    })
}

/// Whether processes of another PID namespace are in a group.
fn has_processes_elsewhere(group: &Path) -> bool {
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/pid")).ok();
    let processes = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    processes.lines().any(|process| namespace(process) != namespace("self"))
}

fn found(is_wanted: impl Fn(u32, &Path) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(HIERARCHIES)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let path = entry.path();
                if creator(&entry.file_name().to_string_lossy()).is_some_and(|creator| is_wanted(creator, &path)) {
                    found.push(path.display().to_string());
                }
                folders.push(path);
            }
        }
    }
    found
}

fn creator(name: &str) -> Option<u32> {
    let rest = NAMES.iter().find_map(|prefix| name.strip_prefix(prefix))?;
    rest.split('-').next()?.parse().ok()
}

#[test]
fn the_group_of_a_job_in_another_pid_namespace_is_removed_by_the_next_job_after_that_is_killed() {
    let table = Table::new();
    let mut unshare = testing::command("unshare");
    unshare.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    let script = "cat /proc/self/cgroup; echo end; exec sleep 1000";
    let job = table.rowlock(&["prun", "--wait", "none", "--", "sh", "-c", script]);
    let mut job = Child::start_piped(&mut testing::through(unshare, &job));
    let lines: Vec<String> = std::iter::repeat_with(|| job.read_line()).take_while(|line| line != "end").collect();
    let name = lines.iter().flat_map(|line| line.split('/')).find(|name| name.starts_with("rowlock-job-"));
    let Some(name) = name else {
        return testing::skip_part("ROWLOCK_REQUIRE_GROUPS", "control groups of jobs", "run the test as root");
    };
    let is_in = |groups: Vec<String>| groups.iter().any(|group| group.ends_with(name));
    let next = || testing::run(&mut table.rowlock(&["prun", "--wait", "none", "--", "true"])).expect_success();
    next();
    assert!(!is_in(abandoned()) && is_in(found(|_, _| true)));
    job.send(Signal::KILL.as_raw());
    job.wait().expect_signal(Signal::KILL.as_raw());
    // Another test may be faster.
    until(|| is_in(abandoned()) || !is_in(found(|_, _| true)));
    next();
    until(|| !is_in(found(|_, _| true)));
}
