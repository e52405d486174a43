#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod barrier;
pub mod calibrate;
mod generation;
mod sighting;
mod statistics;
mod sync;
pub mod watch;

pub use barrier::{Barrier, BarrierWaitResult, Party};
pub use calibrate::{Calibration, Measured, calibrate};
pub use statistics::Statistics;
