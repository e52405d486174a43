//! Random messages of a job whose turns alternate with those of another one.

use std::process::Command;

use wait::turn::VARIABLE;

use super::run;
use super::switcher::Switcher;
use super::traffic::{RANKS, exchange};

#[test]
fn messages_arrive_in_turns_as_well() {
    let run_in_turns = |mut test: Command| {
        let switcher = Switcher::start();
        testing::expect_pass(test.env(VARIABLE, switcher.path()));
    };
    testing::isolated_by(run_in_turns, || {
        run(RANKS, |world| exchange(&world, 100, 5_000));
    });
}
