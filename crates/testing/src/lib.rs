//! Child processes, isolation and seeds for tests; the runner is the program `run-tests`.
#![forbid(unsafe_code)]
#![allow(clippy::panic, clippy::expect_used, reason = "a test that cannot go on has failed")]

pub mod child;
mod isolated;
pub mod library;
pub mod processes;
pub mod programs;
mod seeds;
pub mod stamps;
mod tools;
pub mod unchanged;

pub use child::{Child, Output, command, run, through, try_run};
pub use isolated::{TEST, isolated, isolated_by, passes};
pub use seeds::for_each_seed;
pub use tools::{left_out, missing, tool};

/// The test function that a closure was written in, as the harness names it.
fn test_name_of<Body>(_: &Body) -> &'static str {
    let path = std::any::type_name::<Body>().trim_end_matches("::{{closure}}");
    path.split_once("::").map_or(path, |(_, path)| path)
}
