//! Jobs that are lowered in the turns of others: `--how moderate`.

use std::fs;
use std::os::unix::process::CommandExt;

use sys::cgroups::Hierarchy;
use testing::NOBODY;

use crate::groups;
use crate::prun::{SPIN, Table, are_running, are_stopped, cpu, ranks, until};

/// Whether a process is lowered: by its group, or by its own priority.
pub(crate) fn is_lowered(process: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    // The fields after the name are the third and the following ones.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let (nice, policy) = (fields[19 - 3], fields[41 - 3]);
    let read = |path: &str| fs::read(path).unwrap_or_default();
    let hierarchies = Hierarchy::parse(&read("/proc/self/mountinfo"), &read(&format!("/proc/{process}/cgroup")));
    let group = Hierarchy::of_cpus(&hierarchies).map(|hierarchy| hierarchy.folder.clone()).unwrap_or_default();
    let has_weight = |file: &str, weight: &str| fs::read_to_string(group.join(file)).is_ok_and(|text| text == weight);
    nice == "15" || policy == "5" || has_weight("cpu.shares", "2\n") || has_weight("cpu.weight", "1\n")
}

/// Whether all ranks of an agent, or none of them, are lowered.
fn are_lowered(agent: u32, lowered: bool) -> bool {
    let ranks = ranks(agent);
    !ranks.is_empty() && ranks.iter().all(|&rank| is_lowered(rank) == lowered)
}

/// Whether jobs can be lowered here.
pub(crate) fn can_lower() -> bool {
    let why = cosched::find_lower_mechanism().err();
    why.iter().for_each(|why| testing::skip_part("ROWLOCK_REQUIRE_GROUPS", &why.to_string(), "run the test as root"));
    why.is_none()
}

#[test]
fn a_moderate_job_is_lowered_in_the_turns_of_others_and_never_stopped() {
    if !can_lower() {
        return;
    }
    let table = Table::new();
    let options = ["-n", "2", "--cpus", cpu(), "--how", "moderate", "--mechanism", "signals"];
    let [first, second] = [0, 1].map(|_| table.start(&options, SPIN));
    let (first_id, second_id) = (first.id(), second.id());
    for _ in 0..3 {
        until(|| are_lowered(first_id, true) && are_lowered(second_id, false));
        until(|| are_lowered(second_id, true) && are_lowered(first_id, false));
        assert!(are_running(first_id) && are_running(second_id));
    }
    let states = |state: &str| table.jobs().iter().any(|job| job["state"] == state);
    until(|| states("lowered"));
    until(|| states("runs"));
    let set = |arguments: &[&str]| drop(testing::run(&mut table.rowlock(arguments)).expect_success());
    // Stopped in the turns of the other one, and raised in its own.
    set(&["set", "1", "--how", "strict"]);
    until(|| are_stopped(first_id) && are_lowered(second_id, false));
    until(|| are_running(first_id) && are_lowered(first_id, false));
    set(&["set", "1", "--how", "moderate"]);
    until(|| are_running(first_id) && are_lowered(first_id, true));
    set(&["set", "1", "--how", "none"]);
    until(|| are_lowered(first_id, false) && are_lowered(second_id, false));
    set(&["set", "1", "--how", "moderate"]);
    until(|| are_lowered(second_id, true));
    // Alone, it has the priority that it had.
    first.send(15);
    first.wait().expect_signal(15);
    until(|| are_lowered(second_id, false));
    second.send(15);
    second.wait().expect_signal(15);
    table.expect_gone();
    until(|| [first_id, second_id].iter().all(|&agent| groups::of(agent).is_empty()));
}

#[test]
fn a_job_that_has_begun_otherwise_is_lowered_by_priorities_if_that_can_be_undone() {
    let table = Table::new();
    let [first, second] = [0, 1].map(|_| table.start(&["-n", "2", "--cpus", cpu(), "--how", "strict"], SPIN));
    let set = testing::run(&mut table.rowlock(&["set", "1", "--how", "moderate"]));
    if let Err(why) = sys::priorities::check_idle_and_back() {
        set.expect_exit(2).expect_stderr(&why.to_string());
    } else {
        set.expect_success();
        for _ in 0..2 {
            until(|| are_running(first.id()) && are_lowered(first.id(), true));
            until(|| are_running(first.id()) && are_lowered(first.id(), false));
        }
        assert!(table.jobs().iter().any(|job| job["mechanism"] == "idle"));
    }
    for prun in [first, second] {
        prun.send(15);
        prun.wait().expect_signal(15);
    }
    table.expect_gone();
}

#[test]
fn a_user_without_privileges_learns_what_lowering_takes_and_what_to_use_instead() {
    let table = Table::new();
    let mut command = table.rowlock(&["prun", "--how", "moderate", "--", "true"]);
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(table.place(), Some(NOBODY), Some(NOBODY)).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    } else if sys::priorities::check_idle_and_back().is_ok() {
        return eprintln!("not tested: this user has the privilege");
    }
    let output = testing::run(&mut command).expect_exit(2).expect_stderr("not by a weight, because");
    output.expect_stderr("RLIMIT_NICE").expect_stderr("use `--how adaptive`");
    table.expect_gone();
}
