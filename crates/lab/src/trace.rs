//! Traces: everything that happened in one run, as a file for [Perfetto](https://ui.perfetto.dev).
//!
//! Both worlds fill the same [`model`]: who appears, and what happens when. [`simulated`] watches a simulation,
//! [`observed`] puts together what threads of the host took down of themselves; [`Writer`] turns events into bytes as they
//! come and keeps none of them; [`reader`] reads such bytes back, knowing Perfetto's format and nothing of the writer;
//! [`mod@file`] sees to it that no half of a trace is ever left under the name that was asked for.
//!
//! [`ftrace`] watches a simulation, too, and prints it as the kernel prints its scheduling events.
//!
//! docs/traces.md says what one sees where.

pub mod file;
pub mod ftrace;
pub mod model;
pub mod observed;
mod protobuf;
pub mod reader;
pub mod simulated;
mod writer;

pub use writer::Writer;

use policy::{Instant, Span};
use scenario::Setting;
use scenario::result::Outcome;

/// When the simulation with this outcome was over, on a machine with this step: when the last job ended that does. Completion times count from
/// the arrivals of jobs.
pub fn end_of_simulation(setting: &Setting, step: Span, seed: u64, outcome: &Outcome) -> Instant {
    let arrivals = setting.arrivals(seed, step);
    let ends = arrivals.into_iter().zip(&outcome.jobs).filter_map(|(arrives, job)| Some(arrives + job.completion_ns?));
    Instant::ZERO + ends.max().unwrap_or_default()
}
