#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod cpu_set;
pub mod feedback;
mod names;
pub mod priority;
pub mod record;
pub mod table;
mod units;
pub mod waiting;
pub mod wakeup;

pub use cpu_set::{CpuSet, ParseCpuSetError};
pub use names::UnknownName;
pub use units::{CpuId, Instant, JobId, ParseSpanError, Span, ThreadId};
