#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod diagnostics;
pub mod draw;
pub mod keys;
pub mod model;
mod read;
pub mod result;
mod write;

pub use diagnostics::{Diagnostic, Diagnostics};
pub use model::{
    Accounting, Arm, Compute, Experiment, Granularity, Job, Kind, Lengths, Linux24, Machine, MachineKeys, Scenario,
    Scheduler, Setting, Tie,
};
pub use policy::Span;
pub use read::read;
