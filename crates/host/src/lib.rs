#![doc = include_str!("../README.md")]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write files as they like"))]
#![forbid(unsafe_code)]

pub mod calibration;
pub mod child;
pub mod doctor;
mod error;
pub mod event_log;
mod executors;
mod jobs;
mod limits;
mod machine;
mod procfs;
mod protocol;
mod run;
mod scheduling;
mod timeline;
mod turns;
mod workload;

pub use calibration::{HostCalibration, load_or_measure, twin};
pub use error::Error;
pub use machine::Machine;
pub use protocol::Recording;
pub use run::{Host, HostRun, JobEventLogs};
pub use timeline::StateSample;
pub use turns::{cells, only_simulated};
pub use workload::Rate;
