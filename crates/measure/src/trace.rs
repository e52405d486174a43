//! Traces of runs.
//!
//! [`simulated`] traces a simulation, [`observed`] combines the event logs of the host's threads,
//! and [`ftrace`] prints a simulation in the kernel's format of scheduling events.
//!
//! docs/traces.md describes how to read a trace.

pub mod ftrace;
pub mod observed;
pub mod simulated;

use policy::{Instant, Span};
use scenario::Setting;
use scenario::result::Outcome;

/// The end of the last job that ended, in a simulation with this outcome on a machine with this
/// step. Completion times count from the arrivals of jobs.
pub fn end_of_simulation(setting: &Setting, step: Span, seed: u64, outcome: &Outcome) -> Instant {
    let arrivals = setting.arrivals(seed, step);
    let ends = arrivals.into_iter().zip(&outcome.jobs).filter_map(|(arrives, job)| Some(arrives + job.completion_ns?));
    Instant::ZERO + ends.max().unwrap_or_default()
}
