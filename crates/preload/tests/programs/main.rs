//! Unmodified real programs behave the same with the preloaded library as without, and they end,
//! even under stress.
//!
//! The programs have to be installed: `.ci/setup-programs` does so on Debian, and `./check --full`
//! runs these tests. With `--nocapture` they print the programs, their versions and their times.
//! With `ROWLOCK_REPETITIONS` each program is run several times, alternately with and without the
//! library, and the ratio of the median times is printed. `ROWLOCK_STARTS` is the number of starts
//! of each small program. `ROUNDS` makes the test programs work longer.
#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]

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
        // So that the tests do not disturb each other's measurements.
        arguments.test_threads = Some(1);
    }
    let compared = catalogue::PROGRAMS.iter().map(|program| {
        let name = format!("{} behaves the same", program.name);
        Trial::test(name, || Ok(compared::compare_runs(program)?))
    });
    let started = catalogue::PROGRAMS.iter().filter_map(|program| {
        let signals = program.starts.as_ref()?;
        let name = format!("starts and ends: {}", program.name);
        Some(Trial::test(name, || Ok(starts::start_repeatedly(program, signals)?)))
    });
    let trials = compared.chain(started).map(|trial| trial.with_ignored_flag(true)).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    inputs::remove();
    conclusion.exit();
}
