#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

#[macro_use]
mod named;

pub mod arrival;
pub mod conflict;
pub mod coscheduling;
pub mod diagnostics;
pub mod distribution;
pub mod draw;
pub mod fibers;
pub mod keys;
mod machine;
pub mod message;
pub mod model;
pub mod network;
pub mod pipeline;
mod read;
pub mod result;
pub mod topology;
mod write;

pub use arrival::Arrival;
pub use coscheduling::Coscheduling;
pub use diagnostics::{Diagnostic, Diagnostics};
pub use distribution::{Distribution, Empirical};
pub use fibers::Fibers;
pub use message::Message;
pub use model::{
    Accounting, Arm, Arrivals, Attributes, Cfs, Compute, Experiment, Granularity, Job, JobKind, Linux24, Machine,
    MachineKeys, Scenario, Scheduler, Setting, TickPhase, Tie,
};
pub use network::{Bandwidth, Network};
pub use pipeline::Pipeline;
pub use policy::Span;
pub use read::read;
pub use topology::Topology;
