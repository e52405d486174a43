//! Seeds of random tests: the ones that run, and the replay of a failure.

use std::env::var_os;
use std::process::Command;

use testing::{isolated_by, run};

#[test]
fn the_gate_runs_fixed_and_recorded_seeds() {
    let mut seen = Vec::new();
    if ["ROWLOCK_SEED", "ROWLOCK_FIRST_SEED"].into_iter().all(|variable| var_os(variable).is_none()) {
        testing::for_each_seed(3, |seed| seen.push(seed));
        assert_eq!(seen, [1, 2, 3, 77, 99]);
    }
}

/// Runs a test with this seed, and expects a failure with this text.
fn fails(seed: &str, text: &str) -> impl FnOnce(Command) {
    move |mut test| {
        run(test.env("ROWLOCK_SEED", seed)).expect_exit(101).expect_stderr(text);
    }
}

#[test]
fn a_failure_prints_the_command_that_replays_it() {
    let profile = if cfg!(debug_assertions) { "" } else { " --release" };
    let name = "seeds::a_failure_prints_the_command_that_replays_it";
    let command = "replay: ROWLOCK_SEED=5 cargo test --locked";
    let command = format!("{command}{profile} --workspace --test testing -- --include-ignored --exact {name}");
    isolated_by(fails("5", &command), || testing::for_each_seed(1, |seed| panic!("seed {seed}")));
}

#[test]
fn a_seed_that_is_not_a_number_is_refused() {
    isolated_by(fails("x", "ROWLOCK_SEED=x: a number is expected"), || testing::for_each_seed(1, |_| ()));
}
