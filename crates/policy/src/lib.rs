#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod record;
pub mod table;
mod units;
pub mod waiting;
pub mod wakeup;

pub use units::{CpuId, Instant, JobId, ParseSpanError, Span, ThreadId};
