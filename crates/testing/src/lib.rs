//! Child processes, isolation and seeds for tests; the runner is the program `run-tests`.
#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![forbid(unsafe_code)]
#![allow(clippy::panic, clippy::expect_used, reason = "a test that cannot continue has failed")]

pub mod c_library;
pub mod child;
pub mod family;
pub mod faults;
pub mod guest;
mod isolated;
pub mod library;
pub mod perfetto;
pub mod posix;
pub mod processes;
pub mod programs;
mod seeds;
pub mod stamps;
pub mod switches;
pub mod terminal;
mod tools;
pub mod unchanged;

pub use child::{Child, Output, command, run, through, try_run};
pub use guest::Guest;
pub use isolated::{TEST, expect_one_pass, expect_pass, isolated, isolated_by};
pub use seeds::{depth, for_each_seed, kept_seeds, search};
pub use terminal::Terminal;
pub use tools::{missing, skip_part, tool};

/// The user and the group without privileges, `nobody`.
pub const NOBODY: u32 = 65_534;

/// The program and the test function that a closure was written in, as cargo and the harness name
/// them.
fn test_name_of<Body>(_: &Body) -> (&'static str, &'static str) {
    let path = std::any::type_name::<Body>().trim_end_matches("::{{closure}}");
    path.split_once("::").unwrap_or(("", path))
}
