#![doc = include_str!("../README.md")]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write files as they like"))]
#![forbid(unsafe_code)]

mod elf;
mod environment;
mod execution;
mod invocation;
mod launch;
pub mod library;
mod load;
mod mpi;
mod obstacle;
mod program;
mod run;
pub mod throttle;

pub use execution::{Execution, Interruption, RunLimits};
pub use invocation::{Invocation, StartError};
pub use launch::Launch;
pub use library::LibraryError;
pub use load::{Load, Running, serve_if_asked};
pub use mpi::MpiLibrary;
pub use obstacle::{Obstacle, Privilege};
pub use program::interpreter;
pub use run::{Ended, RunError, end_as};

/// Bytes as hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
