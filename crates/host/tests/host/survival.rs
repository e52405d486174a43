//! No process survives a killed run: a child process runs jobs, is killed at some moment, and its
//! whole family must end.

use std::os::unix::process::CommandExt;

use rustix::process::{Pid, Signal, kill_process_group};
use sys::process::{RequestsToEnd, end_with_this_thread};
use testing::Child;

use crate::family::{Family, wait_until};
use crate::messages::endless;
use crate::runs::{self, hogs, job, setting, shell};

pub(crate) const TRIALS: &[(&str, fn())] = &[
    ("a_run_killed_at_any_moment_leaves_nothing", a_run_killed_at_any_moment_leaves_nothing),
    ("a_run_killed_while_its_command_forks_leaves_nothing", a_run_killed_while_its_command_forks),
    ("a_signal_to_the_whole_group_leaves_nothing", a_signal_to_the_whole_group),
];

/// The argument that makes this program the run that is killed.
const RUN: &str = "__run";

/// Runs hogs, a shell script and two ranks until killed, if this process was started for that.
pub(crate) fn run_if_asked() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(RUN) {
        return;
    }
    let script = arguments.next().unwrap_or_default();
    let setting = setting(vec![job("hogs", hogs(2)), job("script", shell(&script)), endless("ranks")]);
    // The script does not end by itself.
    let ended = runs::run(&setting);
    panic!("{ended:?}");
}

/// Starts a run in a new process group, with its family marked.
fn start(family: &Family, script: &str) -> Child {
    let mut command = testing::command(std::env::current_exe().unwrap());
    command.args([RUN, script]).process_group(0);
    family.adopt(&mut command);
    end_with_this_thread(&mut command, RequestsToEnd::Obey);
    Child::start(&mut command)
}

fn expect_end(family: &Family, run: Child) {
    let output = run.wait();
    let fails = !output.status.success();
    output.expect(fails, "a run that does not succeed");
    wait_until("the end of the family", || family.members().is_empty());
}

fn a_run_killed_at_any_moment_leaves_nothing() {
    // The run itself, the hogs, the command's process, its keeper, the shell, two processes in a
    // new session that are not waited for, and the process of the ranks with its two.
    let script = "setsid sh -c 'sleep 1000; true' & sleep 1000; true";
    for members in 1..=10 {
        let family = Family::new(&format!("moment-{members}"));
        let mut run = start(&family, script);
        wait_until("the expected number of processes", || family.members().len() >= members);
        run.process().kill().unwrap();
        expect_end(&family, run);
    }
}

fn a_run_killed_while_its_command_forks() {
    let family = Family::new("multiplies");
    let script = "i=0; while [ $i -lt 100 ]; do setsid sh -c 'sleep 1000 & sleep 1000' & i=$((i+1)); done; sleep 1000";
    let mut run = start(&family, script);
    wait_until("some tens of processes", || family.members().len() >= 30);
    run.process().kill().unwrap();
    expect_end(&family, run);
}

fn a_signal_to_the_whole_group() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::KILL] {
        let family = Family::new(&format!("request-{}", signal.as_raw()));
        let mut run = start(&family, "setsid sh -c 'sleep 1000; true' & sleep 1000; true");
        wait_until("all processes", || family.members().len() >= 10);
        kill_process_group(Pid::from_child(run.process()), signal).unwrap();
        expect_end(&family, run);
    }
}
