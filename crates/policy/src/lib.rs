#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod cpu_set;
pub mod feedback;
pub mod priority;
pub mod record;
pub mod table;
mod units;
pub mod waiting;
pub mod wakeup;

pub use cpu_set::{CpuSet, ParseCpuSetError};
pub use units::{CpuId, Instant, JobId, ParseSpanError, Span, ThreadId};
