//! Tests that need a process to themselves.

use std::env;
use std::process::Command;

use crate::child::{self, Output};

/// The environment variable that names the only test of a process.
pub const TEST: &str = "ROWLOCK_TEST";

/// The environment variable that names the test whose process [`isolated_by`] has started.
const STARTED: &str = "ROWLOCK_TEST_STARTED";

/// Runs the body of a test in a process of its own: this test program again, for this test alone.
///
/// It is for tests that change the state of a whole process: signal dispositions, limits, the
/// allocator, forks, a crash. The runner gives each test its own process anyway, in which case this
/// adds nothing. Call it directly in a test function, with a closure.
///
/// # Panics
/// If the body panics or ends the process. The message has the output of that process.
#[track_caller]
pub fn isolated<Body: FnOnce()>(body: Body) {
    let (_, name) = crate::test_name_of(&body);
    if env::var(TEST).is_ok_and(|only| only == name) {
        return body();
    }
    run_alone(name);
}

/// Runs the body of a test in a process that `start` starts with the given command.
///
/// It is for tests that need another environment, user or file system, or that kill the process:
/// `start` changes the command, runs it and checks how it ends, in most cases with [`expect_pass`].
/// The process is always a new one. Call it directly in a test function, with a closure as the
/// body.
#[track_caller]
pub fn isolated_by<Body: FnOnce()>(start: impl FnOnce(Command), body: Body) {
    let (_, name) = crate::test_name_of(&body);
    if env::var(STARTED).is_ok_and(|only| only == name) {
        return body();
    }
    let mut command = test_alone(name);
    command.env(STARTED, name);
    start(command);
}

/// Runs the command of a test and expects that this one test passes.
///
/// # Panics
/// If it does not. The message has the output of the process.
#[track_caller]
pub fn expect_pass(command: &mut Command) {
    expect_one_pass(child::run(command));
}

/// Expects that this is the output of the command of a test, which has passed.
///
/// # Panics
/// As [`expect_pass`].
#[track_caller]
pub fn expect_one_pass(output: Output) {
    let output = output.expect_success();
    let ran = output.stdout.contains("1 passed");
    output.expect(ran, "a process that runs this one test");
}

#[track_caller]
fn run_alone(name: &str) {
    expect_pass(&mut test_alone(name));
}

#[track_caller]
fn test_alone(name: &str) -> Command {
    let program = env::current_exe().expect("the path of this program");
    let mut command = child::command(program);
    command.args([name, "--exact", "--include-ignored", "--nocapture"]).env(TEST, name);
    // The other test must report what hangs in it before this one reports the other test.
    child::set_deadline(&mut command, child::limit());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_runs_in_a_process_that_has_no_other_test() {
        isolated(|| {
            let name = "isolated::tests::the_body_runs_in_a_process_that_has_no_other_test";
            assert_eq!(env::var(TEST).unwrap(), name);
        });
    }

    #[test]
    fn the_body_runs_in_the_process_that_was_prepared_for_it() {
        let start = |mut command: Command| expect_pass(command.env("PREPARED", "yes"));
        isolated_by(start, || assert_eq!(env::var("PREPARED").unwrap(), "yes"));
    }

    #[test]
    fn a_body_that_fails_in_its_prepared_process_is_reported_with_its_output() {
        let start = |mut command: Command| {
            child::run(&mut command).expect_exit(101).expect_stderr("the body was run");
        };
        isolated_by(start, || panic!("the body was run"));
    }

    #[test]
    #[should_panic(expected = "expected a process that runs this one test")]
    fn an_unknown_test_name_is_a_failure() {
        run_alone("no_test_has_this_name");
    }
}
