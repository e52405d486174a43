//! The integration tests of `cli`, in one program.
#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use testing::{Child, Output};

mod command;
mod commands;
mod cycles;
mod environments;
mod exchange;
mod exec;
mod faults;
mod full_disk;
mod groups;
mod guest;
mod hostile;
mod house;
mod kills;
mod paper;
mod paper_fg;
mod paper_threads;
mod pipeline;
mod planted;
mod prun;
mod prun_adopted;
mod prun_bursts;
mod prun_debugger;
mod prun_detach;
mod prun_environments;
mod prun_hint;
mod prun_kills;
mod prun_lowering;
mod prun_mpi;
mod prun_pds;
mod prun_queue;
mod prun_systemd;
mod prun_terminal;
mod refusals;
mod regress;
mod sort;
mod trace;
mod unsafe_code;
mod until;
mod verdict;

/// `rowlock` with these arguments.
fn rowlock(arguments: &[&str]) -> Command {
    rowlock_at(Path::new(env!("CARGO_BIN_EXE_rowlock")), arguments)
}

/// A `rowlock` in another place with these arguments.
fn rowlock_at(program: &Path, arguments: &[&str]) -> Command {
    let mut command = testing::command(program);
    // All tests share one cache, so that the machine is calibrated only once, and the user's cache
    // is not used.
    command.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
    command.args(arguments);
    command
}

/// The standard output of a child, which is JSON.
#[track_caller]
fn json(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("standard output is not JSON: {why}\n{output}"))
}

/// Sends a signal to a child once a condition holds, unless the child has ended before, and waits
/// for its end.
fn interrupted_when(is_so: impl Fn() -> bool, mut child: Child, signal: i32) -> Output {
    while !is_so() {
        if child.process().try_wait().unwrap().is_some() {
            return child.wait();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    child.send(signal);
    child.wait()
}
