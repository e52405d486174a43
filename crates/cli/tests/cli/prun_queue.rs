//! Jobs of `rowlock prun` that wait for others.

use std::fs;

use testing::Child;

use crate::prun::{SPIN, Table, cpu, until};

/// Begins and ends with a line in a file.
fn script(number: usize) -> String {
    format!("echo begin {number} >>log; sleep 0.01; echo end {number} >>log")
}

fn queue(table: &Table, script: &str) -> Child {
    table.start(&["--queue", "--cpus", cpu()], script)
}

fn log(table: &Table) -> Vec<String> {
    let text = fs::read_to_string(table.place().join("log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn states(table: &Table) -> Vec<String> {
    table.jobs().iter().map(|job| job["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn jobs_that_wait_run_one_after_another_in_their_order() {
    const JOBS: usize = 16;
    let table = Table::new();
    let first = table.start(&["--cpus", cpu()], SPIN);
    let waiting: Vec<Child> = (0..JOBS).map(|number| queue(&table, &script(number))).collect();
    assert_eq!(states(&table)[1..], vec!["queued"; JOBS]);
    assert!(log(&table).is_empty());
    first.send(15);
    waiting.into_iter().for_each(|job| drop(job.wait().expect_success()));
    let expected: Vec<String> =
        (0..JOBS).flat_map(|number| [format!("begin {number}"), format!("end {number}")]).collect();
    assert_eq!(log(&table), expected);
    first.wait().expect_signal(15);
    table.expect_gone();
}

/// The numbers of jobs are their order in the queue.
#[test]
#[ignore = "takes a while; ./check --full runs it"]
fn a_thousand_jobs_that_come_at_once_run_one_after_another_in_their_order() {
    const JOBS: usize = 1000;
    // Each child has two files open here.
    sys::descriptors::Limit::raise();
    let table = Table::new();
    let first = table.start(&["--cpus", cpu()], "exec sleep 1000");
    let script = "echo begin $ROWLOCK_JOB >>log; echo end $ROWLOCK_JOB >>log";
    let start = || {
        let queue = ["prun", "--wait", "none", "--queue", "--cpus", cpu(), "--", "sh", "-c", script];
        Child::start(&mut table.rowlock(&queue))
    };
    let waiting: Vec<Child> = (0..JOBS).map(|_| start()).collect();
    until(|| table.jobs().len() == 1 + JOBS);
    assert_eq!(states(&table)[1..], vec!["queued"; JOBS]);
    assert!(log(&table).is_empty());
    first.send(15);
    waiting.into_iter().for_each(|job| drop(job.wait().expect_success()));
    let expected: Vec<String> =
        (2..JOBS + 2).flat_map(|number| [format!("begin {number}"), format!("end {number}")]).collect();
    assert_eq!(log(&table), expected);
    first.wait().expect_signal(15);
    table.expect_gone();
}

#[test]
fn a_job_without_need_to_wait_starts_at_once() {
    let table = Table::new();
    let output = testing::run(&mut table.rowlock(&["prun", "--queue", "--memory", "1KiB", "--", "echo", "here"]));
    assert_eq!((output.expect_success().stdout.as_str()), "here\n");
    table.expect_gone();
}

#[test]
fn a_signal_ends_the_wait_and_one_that_is_ignored_does_not() {
    let table = Table::new();
    let first = table.start(&["--cpus", cpu()], SPIN);
    let waiting = [2, 15, 1].map(|_| queue(&table, "true"));
    testing::run(&mut table.rowlock(&["hold", "2"])).expect_exit(2).expect_stderr("job 2 waits in the queue");
    for (job, signal) in waiting.into_iter().zip([2, 15, 1]) {
        job.send(signal);
        job.wait().expect_exit(128 + signal);
    }
    assert_eq!(table.jobs().len(), 1);
    let mut command = testing::command("nohup");
    command.arg(env!("CARGO_BIN_EXE_rowlock")).args(["prun", "--queue", "--cpus", cpu(), "--", "echo", "later"]);
    let ignores = Child::start(command.env("ROWLOCK_TABLE", table.place()).current_dir(table.place()));
    until(|| table.jobs().len() == 2);
    ignores.send(1);
    assert_eq!(states(&table)[1], "queued");
    first.send(15);
    ignores.wait().expect_success().expect_stdout("later");
    first.wait().expect_signal(15);
    table.expect_gone();
}

#[test]
fn jobs_that_are_killed_block_no_others() {
    let table = Table::new();
    let mut first = table.start(&["--cpus", cpu()], SPIN);
    let mut waiting: Vec<Child> = (0..6).map(|number| queue(&table, &script(number))).collect();
    for killed in [4, 1, 0] {
        let mut job = waiting.remove(killed);
        job.process().kill().unwrap();
        job.wait_until_ended();
    }
    // No agent is left that could notice it.
    first.process().kill().unwrap();
    first.wait_until_ended();
    waiting.into_iter().for_each(|job| drop(job.wait().expect_success()));
    assert_eq!(log(&table), [2, 3, 5].map(|number| [format!("begin {number}"), format!("end {number}")]).concat());
    table.expect_gone();
}
