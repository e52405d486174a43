//! `rowlock prun --pid`: programs that run already.

use rustix::process::{Pid, Signal, kill_process};
use testing::Child;

use crate::prun::{SPIN, Table, are_running, are_stopped, cpu, is_stopped, is_to_stop, ranks, until};
use crate::prun_lowering::is_lowered;

/// A program that spins on one CPU, and has a child that does as well.
fn start_program() -> Child {
    let mut command = testing::command("taskset");
    Child::start(command.args(["--cpu-list", cpu(), "sh", "-c", &format!("({SPIN}) & {SPIN}")]))
}

/// The program and its child.
fn processes(program: &Child) -> [u32; 2] {
    until(|| testing::processes::children(program.id()).len() == 1);
    [program.id(), testing::processes::children(program.id())[0]]
}

fn adopt(table: &Table, program: &Child) -> Child {
    adopt_by(table, program, "strict")
}

fn adopt_by(table: &Table, program: &Child, how: &str) -> Child {
    let before = table.jobs().len();
    let pid = program.id().to_string();
    let options = ["prun", "--pid", &pid, "--how", how, "--slice", "5 ms"];
    let prun = Child::start(&mut table.rowlock(&options));
    until(|| table.jobs().len() > before);
    prun
}

/// A shell that waits for what `script` starts.
fn shell(table: &Table, script: &str) -> Child {
    let mut command = testing::command("sh");
    command.args(["-c", &format!("{script}; exit $?")]).env("ROWLOCK_TABLE", table.place());
    Child::start(command.env("PRUN", concat!(env!("CARGO_BIN_EXE_rowlock"), " prun --wait none")))
}

fn strict_job(table: &Table) -> Child {
    table.start(&["-n", "2", "--cpus", cpu(), "--how", "strict", "--slice", "5 ms"], SPIN)
}

fn kill(process: u32) {
    kill_process(Pid::from_raw(process as i32).unwrap(), Signal::KILL).unwrap();
}

fn expect_turns(program: &Child, other: &Child) {
    let processes = processes(program);
    let are_all = |stopped| move || processes.iter().all(|&process| is_to_stop(process) == Some(stopped));
    for _ in 0..3 {
        until(are_all(true));
        until(are_all(false));
        until(|| are_stopped(other.id()));
        until(|| are_running(other.id()));
    }
}

#[test]
fn a_program_takes_turns_and_ends_with_the_signal_of_kill() {
    let table = Table::new();
    let (program, other) = (start_program(), strict_job(&table));
    let prun = adopt(&table, &program);
    expect_turns(&program, &other);
    let job = &table.jobs()[1];
    assert_eq!((job["ranks"].as_u64(), job["agent"].as_u64()), (Some(0), Some(prun.id().into())));
    assert!(job["command"].as_str().unwrap().contains(SPIN), "{job}");
    let child = processes(&program)[1];
    testing::run(&mut table.rowlock(&["kill", "2"])).expect_success();
    program.wait().expect_signal(Signal::TERM.as_raw());
    prun.wait().expect_success();
    // It is not ended, but goes on without turns.
    until(|| is_stopped(child) == Some(false));
    kill(child);
    testing::run(&mut table.rowlock(&["kill", "1"])).expect_success();
    other.wait().expect_signal(Signal::TERM.as_raw());
    table.expect_gone();
}

#[test]
fn a_program_goes_on_if_its_agent_is_killed_or_all_agents_are() {
    let table = Table::new();
    for all in [false, true] {
        let (program, other) = (start_program(), strict_job(&table));
        let prun = adopt(&table, &program);
        expect_turns(&program, &other);
        let processes = processes(&program);
        until(|| processes.iter().all(|&process| is_to_stop(process) == Some(true)));
        kill(prun.id());
        if all {
            kill(other.id());
        }
        prun.wait().expect_signal(Signal::KILL.as_raw());
        until(|| processes.iter().all(|&process| is_stopped(process) == Some(false)));
        if !all {
            until(|| table.jobs().len() == 1);
            // The other job has the CPU for itself.
            testing::run(&mut table.rowlock(&["hold", "1"])).expect_success();
            until(|| are_stopped(other.id()));
            assert!(processes.iter().all(|&process| is_stopped(process) == Some(false)));
            kill(other.id());
        }
        other.wait().expect_signal(Signal::KILL.as_raw());
        processes.into_iter().for_each(kill);
        program.wait().expect_signal(Signal::KILL.as_raw());
        table.expect_gone();
    }
}

#[test]
fn a_program_goes_on_after_the_signals_of_a_shell_that_ends_and_takes_turns_again() {
    let table = Table::new();
    let (program, other) = (start_program(), strict_job(&table));
    for signal in [Signal::HUP, Signal::INT, Signal::QUIT] {
        let prun = adopt(&table, &program);
        expect_turns(&program, &other);
        kill_process(Pid::from_raw(prun.id() as i32).unwrap(), signal).unwrap();
        let output = prun.wait().expect_exit(128 + signal.as_raw());
        output.expect_stderr("goes on, and takes no turns any more");
        let processes = processes(&program);
        until(|| processes.iter().all(|&process| is_stopped(process) == Some(false)));
    }
    processes(&program).into_iter().for_each(kill);
    program.wait().expect_signal(Signal::KILL.as_raw());
    testing::run(&mut table.rowlock(&["kill", "1"])).expect_success();
    other.wait().expect_signal(Signal::TERM.as_raw());
    table.expect_gone();
}

#[test]
fn a_program_is_lowered_by_the_priority_of_its_threads_and_raised_if_its_agent_is_killed() {
    if let Err(why) = sys::priorities::check_idle_and_back() {
        return testing::skip_part("ROWLOCK_REQUIRE_GROUPS", &why.to_string(), "run the test as root");
    }
    let table = Table::new();
    let options = ["-n", "2", "--cpus", cpu(), "--how", "strict", "--mechanism", "signals", "--slice", "5 ms"];
    let (program, other) = (start_program(), table.start(&options, SPIN));
    until(|| table.jobs().len() == 1);
    let prun = adopt_by(&table, &program, "moderate");
    let processes = processes(&program);
    let are_lowered = |lowered| processes.iter().all(|&process| is_lowered(process) == lowered);
    for _ in 0..3 {
        until(|| are_lowered(true));
        until(|| are_lowered(false) && are_stopped(other.id()));
    }
    assert!(processes.iter().all(|&process| is_stopped(process) == Some(false)));
    until(|| are_lowered(true));
    kill(prun.id());
    prun.wait().expect_signal(Signal::KILL.as_raw());
    until(|| table.jobs().len() == 1 && are_lowered(false));
    processes.into_iter().for_each(kill);
    program.wait().expect_signal(Signal::KILL.as_raw());
    testing::run(&mut table.rowlock(&["kill", "1"])).expect_success();
    other.wait().expect_signal(Signal::TERM.as_raw());
    table.expect_gone();
}

#[test]
fn a_job_that_a_program_starts_is_a_part_of_its_job() {
    let table = Table::new();
    let ready = tempfile::tempdir().unwrap();
    let go = ready.path().join("go");
    // The nested job is started after its shell has become a job.
    let wait = format!("until [ -e {} ]; do sleep .01; done", go.display());
    let shell = shell(&table, &format!("{wait}; $PRUN --slice 7ms --weight 2 -- sh -c '{SPIN}'"));
    let prun = adopt(&table, &shell);
    std::fs::write(&go, "").unwrap();
    let inner = || testing::processes::children(shell.id()).into_iter().find(|&child| !ranks(child).is_empty());
    until(|| inner().is_some());
    assert_eq!(table.jobs().len(), 1);
    // It is stopped with the program.
    let other = strict_job(&table);
    let rank = ranks(inner().unwrap())[0];
    until(|| is_stopped(rank) == Some(true) && is_stopped(shell.id()) == Some(true));
    until(|| is_stopped(rank) == Some(false));
    testing::run(&mut table.rowlock(&["kill", "2"])).expect_success();
    other.wait().expect_signal(Signal::TERM.as_raw());
    kill(rank);
    let output = shell.wait().expect_exit(128 + Signal::KILL.as_raw());
    output.expect_stderr("a job within a job is a part of that one: no effect of --slice, --weight");
    prun.wait().expect_success();
    table.expect_gone();
}

#[test]
fn a_program_that_cannot_take_turns_is_refused() {
    let table = Table::new();
    let refused = |process: u32, why: &str| {
        let output = testing::run(&mut table.rowlock(&["prun", "--pid", &process.to_string()]));
        output.expect_exit(2).expect_stderr(why);
    };
    refused(0, "write a whole number from 1 to 4294967295");
    // In a container, this may be another process.
    if sys::identity::Stat::of(2).is_some_and(|stat| stat.name() == b"kthreadd") {
        refused(2, "process 2 is a thread of the kernel");
    }
    refused(u32::MAX, "there is no process 4294967295");
    refused(std::process::id(), "has started this one, which would be stopped with it");
    let program = start_program();
    let [process, child] = processes(&program);
    let prun = adopt(&table, &program);
    let other = strict_job(&table);
    until(|| is_to_stop(process) == Some(true) && is_to_stop(child) == Some(true));
    kill(other.id());
    other.wait().expect_signal(Signal::KILL.as_raw());
    refused(process, "belongs to job 1 already");
    refused(child, "belongs to job 1 already");
    refused(prun.id(), "belongs to job 1 already");
    // A process above the program, here of its agent.
    let shell = shell(&table, &format!("$PRUN --cpus {} -- sh -c '{SPIN}'", cpu()));
    until(|| table.jobs().len() == 2);
    refused(shell.id(), "has started job 3, which takes turns by itself");
    testing::run(&mut table.rowlock(&["kill", "3"])).expect_success();
    shell.wait().expect_exit(128 + Signal::TERM.as_raw());
    let lowered = testing::run(&mut table.rowlock(&["set", "1", "--how", "moderate"]));
    lowered.expect_exit(2).expect_stderr("start `rowlock prun --pid` with `--how moderate` instead");
    kill(child);
    kill(process);
    prun.wait().expect_success();
    program.wait().expect_signal(Signal::KILL.as_raw());
    let stopped = start_program();
    let [process, child] = processes(&stopped);
    kill_process(Pid::from_raw(process as i32).unwrap(), Signal::STOP).unwrap();
    until(|| is_stopped(process) == Some(true));
    refused(process, "is stopped");
    kill(child);
    kill(process);
    stopped.wait().expect_signal(Signal::KILL.as_raw());
    table.expect_gone();
}
