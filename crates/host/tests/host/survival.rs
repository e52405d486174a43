//! Nothing survives a run that is killed: a process of its own runs jobs, is killed at some moment, and its whole family
//! has to vanish.

use std::os::unix::process::CommandExt;
use std::sync::atomic::AtomicBool;

use rustix::process::{Pid, Signal, kill_process_group};
use sys::process::{RequestsToEnd, end_with_this_thread};
use testing::Child;

use crate::family::{Family, wait_until};
use crate::runs::{hogs, host, job, setting, shell};

pub(crate) const TRIALS: &[(&str, fn())] = &[
    ("a_run_killed_at_any_moment_leaves_nothing", a_run_killed_at_any_moment_leaves_nothing),
    ("a_run_killed_while_its_command_multiplies_leaves_nothing", a_run_killed_while_its_command_multiplies),
    ("a_signal_to_the_whole_group_leaves_nothing", a_signal_to_the_whole_group),
];

/// The argument that makes this program the run that will be killed.
const RUN: &str = "__run";

/// Runs hogs and a shell script until killed, where this process was started to do so.
pub(crate) fn run_if_asked() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(RUN) {
        return;
    }
    let script = arguments.next().unwrap_or_default();
    let setting = setting(vec![job("hogs", hogs(2)), job("script", shell(&script))]);
    // The script is not meant to end.
    let ended = host().run(&setting, 1, &AtomicBool::new(false));
    panic!("{ended:?}");
}

/// A run in a process group of its own, its family marked.
fn start(family: &Family, script: &str) -> Child {
    let mut command = testing::command(std::env::current_exe().unwrap());
    command.args([RUN, script]).process_group(0);
    family.adopt(&mut command);
    end_with_this_thread(&mut command, RequestsToEnd::Obey);
    Child::start(&mut command)
}

fn vanishes(family: &Family, run: Child) {
    let output = run.wait();
    let fails = !output.status.success();
    output.expect(fails, "a run that does not succeed");
    wait_until("the end of the family", || family.members().is_empty());
}

fn a_run_killed_at_any_moment_leaves_nothing() {
    // The run itself, the hogs, the supervisor, the shell, and two in a session of their own that nobody waits for.
    let script = "setsid sh -c 'sleep 1000; true' & sleep 1000; true";
    for members in 1..=7 {
        let family = Family::new(&format!("moment-{members}"));
        let mut run = start(&family, script);
        wait_until("so many processes", || family.members().len() >= members);
        run.process().kill().unwrap();
        vanishes(&family, run);
    }
}

fn a_run_killed_while_its_command_multiplies() {
    let family = Family::new("multiplies");
    let script = "i=0; while [ $i -lt 100 ]; do setsid sh -c 'sleep 1000 & sleep 1000' & i=$((i+1)); done; sleep 1000";
    let mut run = start(&family, script);
    wait_until("some tens of processes", || family.members().len() >= 30);
    run.process().kill().unwrap();
    vanishes(&family, run);
}

fn a_signal_to_the_whole_group() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::KILL] {
        let family = Family::new(&format!("request-{}", signal.as_raw()));
        let mut run = start(&family, "setsid sh -c 'sleep 1000; true' & sleep 1000; true");
        wait_until("all processes", || family.members().len() >= 7);
        kill_process_group(Pid::from_child(run.process()), signal).unwrap();
        vanishes(&family, run);
    }
}
