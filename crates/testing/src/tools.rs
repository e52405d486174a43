//! Compilers, control groups and other things that tests use if the machine has them.

use std::env;
use std::ffi::OsString;
use std::fmt::Display;

use crate::child::{command, try_run};

/// The program that this environment variable names, or else `name`. `None` if it does not run.
///
/// # Panics
/// If it does not run and `ROWLOCK_REQUIRE_CC` is in the environment.
#[track_caller]
pub fn tool(variable: &str, name: &str) -> Option<OsString> {
    let tool = env::var_os(variable).unwrap_or_else(|| name.into());
    match try_run(command(&tool).arg("--version")) {
        Ok(output) if output.status.success() => return Some(tool),
        Ok(output) => missing(&output),
        Err(why) => missing(&format!("{}: {why}", tool.display())),
    }
    None
}

/// Reports that a part of the test is skipped because a tool is missing.
///
/// # Panics
/// If `ROWLOCK_REQUIRE_CC` is in the environment.
#[track_caller]
pub fn missing(why: &dyn Display) {
    let how = "`.ci/setup-compilers` installs what is needed on Debian";
    skip_part("ROWLOCK_REQUIRE_CC", &format!("a tool is missing: {why}"), how);
}

/// Reports that a part of the test is skipped, and why.
///
/// # Panics
/// If this variable is in the environment: `./check --full` sets it to require that part. The
/// message says how to get what it needs.
#[track_caller]
pub fn skip_part(variable: &str, why: &str, how: &str) {
    assert!(env::var_os(variable).is_none(), "{variable} requires a missing part: {why}\n{how}");
    eprintln!("not tested: {why}");
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::child::run;

    #[test]
    fn a_tool_is_found_if_it_exists() {
        assert_eq!(tool("NO_SUCH_VARIABLE", "cat"), Some("cat".into()));
        crate::isolated_by(
            |mut test| crate::expect_pass(test.env("NO_SUCH_TOOL", "/no such tool")),
            || assert_eq!(tool("NO_SUCH_TOOL", "cat"), None),
        );
    }

    #[test]
    fn an_omitted_part_is_reported_or_fails_if_it_is_required() {
        let start = |mut test: Command| {
            run(&mut test).expect_success().expect_stderr("not tested: no moon");
            run(test.env("ROWLOCK_REQUIRE_MOON", "1")).expect_exit(101).expect_stderr("no moon\nwait for the night");
        };
        crate::isolated_by(start, || skip_part("ROWLOCK_REQUIRE_MOON", "no moon", "wait for the night"));
    }
}
