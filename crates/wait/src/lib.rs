#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod barrier;
pub mod calibrate;
mod deadline;
mod generation;
mod hall;
mod here;
mod outlast;
mod sighting;
mod statistics;
mod sync;
mod waiting;
pub mod watch;

pub use barrier::{Arrival, Barrier, BarrierWaitResult, Party};
pub use calibrate::{Calibration, Measured, calibrate};
pub use statistics::Statistics;
pub use waiting::Waiting;
