//! The patterns that the threads of a job fall into in one run.

use policy::record::Off;
use scenario::{Machine, Setting};

use crate::states::rounds::Meetings;
use crate::states::{Alternation, Transition, alternation, transition};

/// What was found in one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patterns {
    /// From where on the threads run together.
    pub transition: Option<Transition>,
    /// Where they alternate.
    pub alternation: Option<Alternation>,
}

/// Simulates a setting once more and looks for the patterns of its first job of this name.
///
/// # Errors
///
/// As [`sim::run`].
pub fn find(machine: &Machine, setting: &Setting, seed: u64, job: &str) -> Result<Patterns, sim::Error> {
    let Some(mut meetings) = Meetings::of(setting, machine.cpus, job) else { return Ok(Patterns::default()) };
    sim::run_watched::<Off, Meetings>(machine, setting, seed, &mut meetings)?;
    let rounds = meetings.into_rounds();
    Ok(Patterns { transition: transition::find(&rounds), alternation: alternation::find(&rounds) })
}
