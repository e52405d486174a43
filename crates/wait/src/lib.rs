#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod barrier;
pub mod calibrate;
mod counted;
mod deadline;
mod draw;
pub mod event;
mod generation;
mod hall;
mod here;
pub mod latch;
mod ledger;
mod load;
mod outlast;
pub mod parker;
pub mod semaphore;
mod sighting;
mod statistics;
mod sync;
mod waiting;
pub mod watch;
pub mod word;

pub use barrier::{Arrival, Barrier, BarrierWaitResult, Party};
pub use calibrate::{Calibration, Measured, calibrate};
pub use deadline::TimedOut;
pub use event::{Event, Reset};
pub use latch::Latch;
pub use parker::{Parker, Unparker};
pub use semaphore::{Overflow, Semaphore};
pub use statistics::Statistics;
pub use waiting::Waiting;
