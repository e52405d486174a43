#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod arrival;
pub mod diagnostics;
pub mod distribution;
pub mod draw;
pub mod fibers;
pub mod keys;
mod machine;
pub mod model;
mod named;
pub mod pipeline;
mod read;
pub mod result;
mod write;

pub use arrival::Arrival;
pub use diagnostics::{Diagnostic, Diagnostics};
pub use distribution::{Distribution, Empirical};
pub use fibers::Fibers;
pub use model::{
    Accounting, Arm, Attributes, Cfs, Compute, Experiment, Granularity, Job, JobKind, Linux24, Machine, MachineKeys,
    Scenario, Scheduler, Setting, Tie,
};
pub use pipeline::Pipeline;
pub use policy::Span;
pub use read::read;
