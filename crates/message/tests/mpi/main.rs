//! Ranks that an MPI library connects: the tests of ranks that are threads, and some more.
//!
//! Each job of a test is this test again, started by the launcher of the library for which this is
//! compiled (`MPICC`), or by `rowlock prun`. `.ci/setup-mpi` installs two libraries on Debian.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]
#![allow(clippy::print_stdout, reason = "a rank tells its test that it has run")]

#[path = "../message/collective.rs"]
mod collective;
#[path = "../message/errors.rs"]
mod errors;
mod joining;
mod mixed;
#[path = "../message/point_to_point.rs"]
mod point_to_point;
#[path = "../message/traffic.rs"]
mod traffic;
#[path = "../message/window.rs"]
mod window;

use std::cell::Cell;
use std::process::Command;

use rowlock_message::{Communicator, Waiting, mpi};
use testing::Output;

/// The variable with the number of the job that this process takes part in, among those of its
/// test.
const JOB: &str = "ROWLOCK_TEST_JOB";

/// The variable with the path of `rowlock`, if its `prun` is to start the ranks instead.
const ROWLOCK: &str = "ROWLOCK_TEST_PRUN";

thread_local! {
    /// How many jobs this test has begun.
    static JOBS: Cell<u32> = const { Cell::new(0) };
}

fn is_open_mpi() -> bool {
    let version = testing::command("mpirun").arg("--version").output();
    let is_default = version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("Open MPI"));
    match env!("ROWLOCK_MPICC") {
        "mpicc" => is_default,
        named => named.contains("openmpi"),
    }
}

/// The name of the test that calls this.
fn test_name() -> String {
    // With a single CPU, tests run in the first thread. Then the runner has named the only one.
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main").map(str::to_owned);
    let test = test.or_else(|| std::env::args().nth(1).filter(|name| name.contains("::")));
    test.expect("a test has a thread of its own, or is named by the first argument")
}

/// A command that starts ranks by the launcher: this program, with the test that calls this.
fn launch(ranks: u32, job: u32) -> Command {
    let ranks = ranks.to_string();
    let mut command = if let Some(rowlock) = std::env::var_os(ROWLOCK) {
        let mut command = testing::command(rowlock);
        command.args(["prun", "-n", &ranks, "--"]);
        command
    } else {
        let mut command = testing::command(env!("ROWLOCK_MPICC").replace("mpicc", "mpirun"));
        let options: &[&str] = if is_open_mpi() { &["--allow-run-as-root", "--oversubscribe"] } else { &[] };
        command.args(options).args(["-n", &ranks]);
        command
    };
    command.arg(std::env::current_exe().unwrap()).args([&test_name(), "--exact", "--nocapture"]);
    command.env(JOB, job.to_string());
    command
}

/// Starts a job of ranks that run the closure, and lets `run` check how it ends. In a rank, runs
/// the closure.
fn run_in(ranks: u32, run: impl FnOnce(Command) -> Output, rank: impl FnOnce()) {
    let number = JOBS.replace(JOBS.get() + 1);
    match std::env::var(JOB).ok() {
        None => drop(run(launch(ranks, number))),
        Some(job) if job == number.to_string() => {
            rank();
            print!("{}", last_line(number));
            std::process::exit(0);
        }
        // An earlier job of the test.
        Some(_) => {}
    }
}

/// The line that a rank prints at its end.
fn last_line(job: u32) -> String {
    format!("job {job} of {} is done\n", test_name())
}

/// Expects that all ranks run the closure to its end.
fn run_all(ranks: u32, prepare: impl FnOnce(&mut Command), rank: impl FnOnce()) {
    let line = last_line(JOBS.get());
    let run = |mut command: Command| {
        prepare(&mut command);
        let output = testing::run(&mut command).expect_success();
        let count = output.stdout.matches(&line).count();
        output.expect(count == ranks as usize, "each rank has run its part")
    };
    run_in(ranks, run, rank);
}

fn run_by<T>(ranks: u32, waiting: Waiting, rank: impl FnOnce(Communicator) -> T) {
    let rank = || {
        let world = mpi::join(waiting).unwrap();
        assert_eq!(world.ranks(), ranks);
        rank(world);
    };
    run_all(ranks, |_| (), rank);
}

fn run<T>(ranks: u32, rank: impl FnOnce(Communicator) -> T) {
    run_by(ranks, Waiting::default(), rank);
}
