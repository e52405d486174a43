//! What may happen to threads while they wait: signals, forks, deaths of threads, other CPUs, other quotas, other
//! priorities, and many more threads than CPUs. Each test is a process of its own, this program again, so that none sees
//! what befalls another.
#![cfg(not(loom))]
#![allow(unsafe_code, reason = "signals, forks and priorities")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "what a test has skipped is told")]

#[path = "../common/costs.rs"]
mod costs;
mod crew;
mod exit;
mod placement;
mod priority;
mod signals;
#[path = "../common/team.rs"]
mod team;

use std::process::Command;

use libtest_mimic::{Arguments, Failed, Trial};

const PART: &str = "ROWLOCK_TEST_PART";

/// A test: what it is called and what it does.
type Test = (&'static str, fn());

fn main() {
    let tests: Vec<Test> =
        [signals::TESTS, exit::TESTS, placement::TESTS, priority::TESTS].into_iter().flatten().copied().collect();
    if let Ok(part) = std::env::var(PART) {
        let (_, test) = tests.into_iter().find(|(name, _)| *name == part).unwrap();
        return test();
    }
    let trial = |(name, _)| Trial::test(name, move || in_a_process(name));
    libtest_mimic::run(&Arguments::from_args(), tests.into_iter().map(trial).collect()).exit();
}

/// Runs a test in a process of its own.
fn in_a_process(name: &str) -> Result<(), Failed> {
    let mut command = Command::new(std::env::current_exe()?);
    let status = placement::outside(name, command.env(PART, name))?;
    if status.success() { Ok(()) } else { Err(format!("{name}: {status}").into()) }
}

/// Says why a test, or a part of it, is not run.
fn skip(what: &str, why: impl std::fmt::Display) {
    println!("skipped: {what}: {why}");
}
