//! Real programs, unmodified: with the library preloaded they do what they do without, and they end, whatever happens around
//! them.
//!
//! These tests need programs that are no part of Rust: `.ci/setup-programs` installs them on Debian, and `./check --full` runs
//! the tests. Which programs they are, in which versions, and how long they took, is printed with `--nocapture`. With
//! `ROWLOCK_REPETITIONS` each is run more often, with and without in turn, and the ratio of the times is that of the medians;
//! `ROWLOCK_STARTS` says how often each small program is started and ended; `ROUNDS` lets programs of the tests work for longer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod catalogue;
mod compared;
mod inputs;
#[path = "../common/library.rs"]
mod library;
mod run;
mod starts;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let mut arguments = Arguments::from_args();
    if std::env::var_os("ROWLOCK_REPETITIONS").is_some() {
        // They would be measured beside each other.
        arguments.test_threads = Some(1);
    }
    let compared = catalogue::PROGRAMS.iter().map(|program| {
        let name = format!("{} does the same", program.name);
        Trial::test(name, || Ok(compared::does_the_same(program)?))
    });
    let started = catalogue::PROGRAMS.iter().filter_map(|program| {
        let signals = program.starts.as_ref()?;
        let name = format!("starts and ends: {}", program.name);
        Some(Trial::test(name, || Ok(starts::starts_and_ends(program, signals)?)))
    });
    let trials = compared.chain(started).map(|trial| trial.with_ignored_flag(true)).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    inputs::remove();
    conclusion.exit();
}
