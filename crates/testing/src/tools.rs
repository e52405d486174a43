//! Compilers and other tools, which tests use if they are installed.

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

/// Says that a part of the test is left out because a tool is missing.
///
/// # Panics
/// If `ROWLOCK_REQUIRE_CC` is in the environment.
#[track_caller]
pub fn missing(why: &dyn Display) {
    let how = "`.ci/setup-compilers` installs what is needed on Debian";
    assert!(env::var_os("ROWLOCK_REQUIRE_CC").is_none(), "{why}\n{how}");
    eprintln!("not tested, since a tool is missing: {why}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_found_if_it_is_there() {
        assert_eq!(tool("NO_SUCH_VARIABLE", "cat"), Some("cat".into()));
        crate::isolated_by(
            |mut test| crate::passes(test.env("NO_SUCH_TOOL", "/no such tool")),
            || assert_eq!(tool("NO_SUCH_TOOL", "cat"), None),
        );
    }
}
