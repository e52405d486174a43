//! Tests that need a process to themselves.

use std::env;

use crate::child;

/// The environment variable that names the only test of a process.
pub const TEST: &str = "ROWLOCK_TEST";

/// Runs the body of a test in a process of its own: this test program again, for this test alone.
///
/// It is for tests that change what a whole process has: signal dispositions, limits, the
/// allocator, forks, a crash. The runner gives each test a process anyway, and this adds nothing
/// there. To be called directly in a test function, with a closure.
///
/// # Panics
/// If the body panics or ends the process; the message has the output of that process.
#[track_caller]
pub fn isolated<Body: FnOnce()>(body: Body) {
    let name = crate::test_name_of(&body);
    if env::var(TEST).is_ok_and(|only| only == name) {
        return body();
    }
    run_alone(name);
}

#[track_caller]
fn run_alone(name: &str) {
    let program = env::current_exe().expect("the path of this program");
    let mut command = child::command(program);
    command.args([name, "--exact", "--include-ignored", "--nocapture"]).env(TEST, name);
    let output = child::run(&mut command).succeeds();
    let ran = output.stdout.contains("1 passed");
    output.expect(ran, "a process that runs this one test");
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
    #[should_panic(expected = "expected a process that runs this one test")]
    fn a_name_that_no_test_has_is_a_failure() {
        run_alone("no_test_has_this_name");
    }
}
