#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod draw;
pub mod model;
pub mod result;

pub use model::{Arm, Compute, Experiment, Granularity, Job, Kind, Machine, MachineKeys, Scenario, Scheduler, Setting};
