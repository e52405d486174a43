#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod cpu_set;
pub mod feedback;
mod parse;
pub mod priority;
pub mod record;
pub mod table;
mod units;
pub mod waiting;
pub mod wakeup;

pub use cpu_set::CpuSet;
pub use parse::ParseError;
pub use units::{CpuId, Instant, JobId, ParseSpanError, Span, ThreadId};
