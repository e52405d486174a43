#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod arrival;
pub mod coscheduler;
mod cpu_set;
pub mod feedback;
pub mod gang;
pub mod layout;
mod parse;
pub mod priority;
pub mod record;
pub mod slices;
pub mod table;
pub mod turn;
mod units;
pub mod waiting;
pub mod wakeup;

pub use cpu_set::CpuSet;
pub use parse::ParseError;
pub use units::{CellId, CpuId, Instant, JobId, ParseSpanError, Span, ThreadId};
