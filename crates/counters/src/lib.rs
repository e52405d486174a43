//! Statistics of the waits of unmodified programs, passed from the programs to the process that
//! started them.
//!
//! The starting process creates a statistics [`Region`]: a file that all processes map. Each
//! process that runs with the preloaded library claims a slot in it and counts its waits there
//! while it runs. Nothing has to be done when a process ends, and its statistics survive if it is
//! killed or executes another program. That program claims its own slot.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write files as they like"))]

mod environment;
mod kind;
#[allow(unsafe_code)] // Memory that other processes write to is viewed as `ProcessStatistics`.
mod process;
mod region;

pub use environment::{Costs, Environment};
pub use kind::{Reason, WaitKind};
pub use process::{ProcessReport, ProcessStatistics, WaitCounts, Waits};
pub use region::{Region, RegionError};
