//! A run of either world as a trace: [`simulated`] watches a simulation, [`observed`] puts together
//! what the threads of the host wrote down, and [`ftrace`] prints a simulation as the kernel prints
//! its scheduling events.
//!
//! docs/traces.md says how to read a trace.

pub mod ftrace;
pub mod observed;
pub mod simulated;

use policy::{Instant, Span};
use scenario::Setting;
use scenario::result::Outcome;

/// The time at which the last job with an end of its own ended in the simulation with this outcome,
/// on a machine with this step. Completion times count from the arrivals of jobs.
pub fn end_of_simulation(setting: &Setting, step: Span, seed: u64, outcome: &Outcome) -> Instant {
    let arrivals = setting.arrivals(seed, step);
    let ends = arrivals.into_iter().zip(&outcome.jobs).filter_map(|(arrives, job)| Some(arrives + job.completion_ns?));
    Instant::ZERO + ends.max().unwrap_or_default()
}
