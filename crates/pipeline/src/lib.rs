#![doc = include_str!("../README.md")]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write files as they like"))]
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
mod ending;
mod engine;
pub mod environment;
mod error;
mod interval;
mod join;
mod junction;
pub mod machine;
mod pipeline;
mod plan;
mod program;
mod progress;
mod queue;
mod ready;
mod registry;
mod report;
pub mod scheduling;
mod stage;
mod stage_priorities;
mod stage_thread;
pub mod structure;
mod thread_table;
mod trace;
pub mod verdict;
mod watcher;
mod worker;
mod yield_budget;

pub use policy::priority::StageKind;

pub use buffer::Buffer;
pub use ending::Canceller;
pub use error::{BuildError, Cause, Error, Failure};
pub use junction::{Accepted, PortError, Ports};
pub use pipeline::Pipeline;
pub use plan::Place;
pub use program::Program;
pub use report::{PipelineReport, RunReport, StageReport};
pub use scheduling::{EffectiveAttribute, Scheduling};
pub use stage::{Flow, Result, Round, Stage};
pub use structure::Structure;
