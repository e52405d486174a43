//! Detached jobs of `rowlock prun`, and `rowlock attach`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Pid;
use serde_json::Value;
use testing::family::Family;
use testing::{Child, processes};

use crate::kills::{Draws, kill_if_alive};
use crate::prun::{SPIN, Table, cpu, ranks, state, until};

/// `rowlock prun --detach` of a shell script.
fn detach(table: &Table, options: &[&str], script: &str) -> Command {
    table.rowlock(&[&["prun", "--detach", "--wait", "none"], options, &["--", "sh", "-c", script]].concat())
}

/// Starts a detached job, and returns its number.
#[track_caller]
fn start(table: &Table, options: &[&str], script: &str) -> String {
    let output = testing::run(&mut detach(table, options, script)).expect_success();
    assert_eq!(output.stderr, "");
    output.stdout.trim().to_owned()
}

/// The files that are kept of detached jobs.
fn kept(table: &Table) -> Vec<PathBuf> {
    let entries = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries(table.place().join("state/rowlock/jobs")).flat_map(entries).flat_map(entries).collect()
}

fn job(table: &Table, number: &str) -> Option<Value> {
    table.jobs().into_iter().find(|job| job["job"].as_u64() == number.parse().ok())
}

fn agent(table: &Table, number: &str) -> u32 {
    job(table, number).unwrap()["agent"].as_u64().unwrap() as u32
}

#[track_caller]
fn expect_nothing(table: &Table) {
    table.expect_gone();
    assert_eq!(kept(table), Vec::<PathBuf>::new());
}

#[test]
fn a_detached_job_outlives_its_command_and_can_be_attached_until_its_end() {
    let table = Table::new();
    let script = "echo begin; echo error >&2; while [ ! -e go ]; do sleep 0.01; done; cat; echo end; exit 7";
    let number = start(&table, &["-n", "1"], script);
    assert_eq!(number, "1");
    let agent = agent(&table, &number);
    let pid = Pid::from_raw(agent as i32);
    assert_eq!(rustix::process::getsid(pid).ok(), pid, "it leads a session");
    let attached = Child::start(&mut table.rowlock(&["attach", "1"]));
    fs::write(table.place().join("go"), "").unwrap();
    let output = attached.wait().expect_exit(7);
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("begin\nend\n", "error\n"));
    testing::run(&mut table.rowlock(&["attach", "1"])).expect_exit(2).expect_stderr("there is no job 1");
    expect_nothing(&table);
}

#[test]
fn the_end_of_a_job_is_kept_and_its_number_not_used_again() {
    let table = Table::new();
    let number = start(&table, &["-n", "2", "--label"], "echo here; [ $ROWLOCK_RANK = 0 ] || exit 3; sleep 1000");
    until(|| job(&table, &number).is_some_and(|job| job["state"] == "ended"));
    assert_eq!((&job(&table, &number).unwrap()["exit_code"]), 3);
    testing::run(&mut table.rowlock(&["jobs"])).expect_success().expect_stdout("ended: 3");
    for change in [&["kill"][..], &["hold"], &["set", "--weight", "2"]] {
        testing::run(table.rowlock(change).arg(&number))
            .expect_exit(2)
            .expect_stderr("job 1 has ended; `rowlock attach 1`");
    }
    table.expect_gone();
    let output = testing::run(&mut table.rowlock(&["prun", "--", "sh", "-c", "echo $ROWLOCK_JOB"]));
    assert_eq!(output.expect_success().stdout, "2\n");
    let output = testing::run(&mut table.rowlock(&["attach", &number])).expect_exit(3);
    let mut lines: Vec<_> = output.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.last(), Some(&"[1] here"), "{output}");
    output.expect_stderr("rank 1 has failed");
    expect_nothing(&table);
}

#[test]
fn output_of_ranks_that_open_their_output_again_is_not_overwritten() {
    let table = Table::new();
    let number = start(&table, &["-n", "1"], "echo one; echo two >>/dev/stdout; echo three");
    let output = testing::run(&mut table.rowlock(&["attach", &number])).expect_success();
    assert_eq!(output.stdout, "one\ntwo\nthree\n");
    expect_nothing(&table);
}

#[test]
fn ctrl_c_ends_the_attachment_and_not_the_job() {
    let table = Table::new();
    let number = start(&table, &["-n", "1"], "while [ ! -e go ]; do sleep 0.01; done; echo end");
    let mut command = table.rowlock(&["attach", &number]);
    let attached = Child::start(&mut command);
    // It catches the signal when it has a thread for that.
    until(|| fs::read_dir(format!("/proc/{}/task", attached.id())).unwrap().count() == 2);
    attached.send(2);
    attached.wait().expect_exit(130).expect_stderr("job 1 goes on; `rowlock kill 1` ends it");
    fs::write(table.place().join("go"), "").unwrap();
    testing::run(&mut command).expect_success().expect_stdout("end");
    expect_nothing(&table);
}

#[test]
fn a_reader_of_the_output_may_leave() {
    let table = Table::new();
    let number = start(&table, &["-n", "1"], "echo here");
    until(|| job(&table, &number).is_some_and(|job| job["state"] == "ended"));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Child::start_into(&mut table.rowlock(&["attach", &number]), writer).wait().expect_signal(13);
    assert_eq!(output.stderr, "");
    testing::run(&mut table.rowlock(&["attach", &number])).expect_success().expect_stdout("here");
    expect_nothing(&table);
}

#[test]
fn a_detached_job_can_be_killed_and_one_that_is_not_detached_cannot_be_attached() {
    let table = Table::new();
    let number = start(&table, &["-n", "1"], SPIN);
    testing::run(&mut table.rowlock(&["kill", &number])).expect_success();
    testing::run(&mut table.rowlock(&["attach", &number])).expect_signal(15);
    let other = table.start(&[], SPIN);
    testing::run(&mut table.rowlock(&["attach", "1"])).expect_exit(2).expect_stderr("job 1 is not detached");
    other.send(15);
    other.wait().expect_signal(15);
    expect_nothing(&table);
}

#[test]
fn a_job_whose_agent_is_killed_ends_and_its_output_is_kept() {
    let table = Table::new();
    let number = start(&table, &["-n", "2"], "echo here; exec sleep 1000");
    let agent = agent(&table, &number);
    let ranks = ranks(agent);
    kill_if_alive(agent);
    until(|| ranks.iter().all(|&rank| state(rank).is_none_or(|state| state == 'Z')));
    until(|| job(&table, &number).is_some_and(|job| job["state"] == "ended" && job["exit_code"].is_null()));
    let output = testing::run(&mut table.rowlock(&["attach", &number])).expect_exit(1);
    output.expect_stderr("the agent of job 1 was killed");
    expect_nothing(&table);
}

#[test]
fn a_job_that_waits_ends_with_the_command_that_starts_it() {
    let table = Table::new();
    let first = table.start(&["--cpus", cpu()], SPIN);
    for signal in [9, 2] {
        let waiting = Child::start(&mut detach(&table, &["--queue", "--cpus", cpu()], "echo never"));
        until(|| table.jobs().len() == 2);
        let number = table.jobs()[1]["job"].to_string();
        let refused = testing::run(&mut table.rowlock(&["attach", &number])).expect_exit(2);
        refused.expect_stderr(&format!("job {number} waits in the queue"));
        waiting.send(signal);
        waiting.wait_until_ended();
        until(|| table.jobs().len() == 1);
    }
    first.send(15);
    first.wait().expect_signal(15);
    expect_nothing(&table);
}

#[test]
fn a_detached_job_needs_a_place_for_its_output() {
    let table = Table::new();
    let mut command = detach(&table, &[], "true");
    command.env_remove("HOME").env_remove("XDG_STATE_HOME");
    testing::run(&mut command).expect_exit(1).expect_stderr("XDG_STATE_HOME names a folder for it");
    fs::write(table.place().join("state"), "").unwrap();
    testing::run(&mut detach(&table, &[], "true")).expect_exit(1).expect_stderr("cannot keep the output of a job in");
    // It is no use to wait for a job without one.
    let first = table.start(&["--cpus", cpu()], SPIN);
    let output = testing::run(&mut detach(&table, &["--queue", "--cpus", cpu()], "true")).expect_exit(1);
    output.expect_stderr("cannot keep the output of a job in");
    first.send(15);
    first.wait().expect_signal(15);
    table.expect_gone();
}

#[test]
fn a_job_under_nohup_waits_on_when_its_terminal_is_gone() {
    let table = Table::new();
    let first = table.start(&["--cpus", cpu()], SPIN);
    let command = detach(&table, &["--queue", "--cpus", cpu()], "echo later");
    let waiting = Child::start(testing::through(testing::command("nohup"), &command).current_dir(table.place()));
    until(|| table.jobs().len() == 2);
    sys::signals::send(Pid::from_raw(agent(&table, "2") as i32).unwrap(), 1).unwrap();
    first.send(15);
    assert_eq!(waiting.wait().expect_success().stdout, "2\n");
    first.wait().expect_signal(15);
    testing::run(&mut table.rowlock(&["attach", "2"])).expect_success().expect_stdout("later");
    expect_nothing(&table);
}

#[test]
fn a_job_whose_start_fails_is_in_the_table_until_its_ranks_have_ended() {
    let table = Table::new();
    // The agent of a command that is gone. Its rank ignores the request to end for a while.
    let mut command = detach(&table, &[], "echo $$ >rank; exec sleep 1000");
    let mut shell = testing::command("sh");
    shell.args(["-c", "trap '' TERM; exec \"$0\" \"$@\""]);
    let mut command = testing::through(shell, command.env("ROWLOCK_DETACHED", "1"));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let job = Child::start_into(command.current_dir(table.place()), writer);
    let has_ended = |pid: u32| state(pid).is_none_or(|state| state == 'Z');
    let rank = || fs::read_to_string(table.place().join("rank")).ok()?.trim().parse::<u32>().ok();
    until(|| rank().is_some() || has_ended(job.id()));
    loop {
        let is_listed = table.jobs().len() == 1;
        if rank().is_none_or(has_ended) {
            break;
        }
        assert!(is_listed, "the rank has not ended");
    }
    job.wait().expect_exit(1).expect_stderr("cannot detach the job");
    expect_nothing(&table);
}

#[test]
fn a_detached_job_has_only_the_standard_streams() {
    let table = Table::new();
    let command = detach(&table, &["-n", "1"], "if (: >&3) 2>/dev/null; then echo kept; else echo closed; fi");
    let mut shell = testing::command("sh");
    shell.args(["-c", "exec \"$0\" \"$@\" 3>inherited"]);
    testing::run(testing::through(shell, &command).current_dir(table.place())).expect_success();
    testing::run(&mut table.rowlock(&["attach", "1"])).expect_success().expect_stdout("closed\n");
    expect_nothing(&table);
}

#[test]
fn nothing_stays_of_detached_jobs_whose_processes_are_killed() {
    testing::for_each_seed(10, |seed| {
        let (table, mut draws) = (Table::new(), Draws(seed));
        let family = Family::new(&format!("detached jobs in {}", table.place().display()));
        let mut command = detach(&table, &["-n", "2"], "echo here; (setsid sleep 1000 &); sleep 1000");
        family.adopt(&mut command);
        let prun = Child::start(&mut command);
        std::thread::sleep(draws.moment());
        let members = family.members();
        let victims = match draws.below(3) {
            0 => vec![prun.id()],
            1 => processes::children(prun.id()),
            _ => members,
        };
        victims.into_iter().for_each(kill_if_alive);
        prun.wait_until_ended();
        // Ends what was started by keepers that were killed as well.
        testing::run(&mut table.rowlock(&["prun", "--", "true"])).expect_success();
        for job in table.jobs() {
            let number = job["job"].to_string();
            // It may have ended, or goes on if only the command was killed.
            testing::run(&mut table.rowlock(&["kill", &number]));
            testing::run(&mut table.rowlock(&["attach", &number]));
        }
        until(|| family.members().is_empty());
        expect_nothing(&table);
    });
}
