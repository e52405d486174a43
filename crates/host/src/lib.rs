#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod calibration;
pub mod child;
mod crew;
pub mod diary;
pub mod doctor;
mod error;
mod fibers;
mod job;
mod limits;
mod line;
mod machine;
mod procfs;
mod protocol;
mod run;
mod scheduling;
mod supervisor;
mod timeline;
mod units;
mod work;

pub use calibration::{HostCalibration, load_or_measure, twin};
pub use error::Error;
pub use machine::Machine;
pub use run::{Diaries, Executed, Host};
pub use timeline::StateSample;
pub use work::Rate;
