//! Runs on the real machine. All checks hold on one CPU and under any load, since none depends on
//! time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]
#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]

mod family;
mod fibers;
mod messages;
mod pipelines;
mod processes;
mod runs;
mod survival;
mod turns;

use libtest_mimic::{Arguments, Trial};

fn main() {
    messages::wait_if_asked();
    rowlock_host::child::run_if_asked();
    survival::run_if_asked();
    turns::run_if_asked();
    runs::compute_if_asked();
    let arguments = Arguments::from_args();
    let trials = [runs::TRIALS, pipelines::TRIALS, fibers::TRIALS, messages::TRIALS, survival::TRIALS, turns::TRIALS];
    let trials = trials.into_iter().flatten().map(|&(name, body)| {
        Trial::test(name, move || {
            body();
            Ok(())
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}
