#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../../../docs/pipeline.md")]
mod guide {}

mod activity;
pub mod bandwidth;
mod buffer;
mod build;
mod copy;
mod counters;
mod crew;
mod ending;
mod engine;
mod entry;
pub mod environment;
mod error;
mod favour;
mod interval;
mod join;
mod junction;
pub mod machine;
mod patience;
mod pipeline;
mod plan;
mod program;
mod progress;
mod queue;
mod ready;
mod registry;
mod report;
mod roll;
pub mod scheduling;
mod stage;
pub mod structure;
mod sync;
mod trace;
mod usage;
pub mod verdict;
mod watcher;
mod worker;

pub use policy::priority::StageKind;

pub use buffer::Buffer;
pub use ending::Canceller;
pub use error::{BuildError, Cause, Error, Failure};
pub use junction::{Accepted, PortError, Ports};
pub use pipeline::Pipeline;
pub use program::Program;
pub use report::{PipelineReport, RunReport, StageReport};
pub use scheduling::{EffectiveAttribute, Scheduling};
pub use stage::{Flow, Result, Round, Stage};
pub use structure::Structure;
