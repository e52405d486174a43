//! The patterns of a job's threads in one run: transition points and alternation.

use std::sync::atomic::AtomicBool;

use scenario::result::{Run, World};
use scenario::{Machine, Setting};

use super::evidence::Evidence;
use super::expected::Measure;
use measure::sample::History;
use measure::states::rounds::RoundRecorder;
use measure::states::{Alternation, Transition, alternation, transition};
use measure::world::{Failure, Worlds};

/// The patterns of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patterns {
    /// The transition point from which the threads run together.
    pub transition: Option<Transition>,
    /// The alternation of the threads.
    pub alternation: Option<Alternation>,
}

/// Simulates a setting again and finds the patterns of its first job of this name.
///
/// # Errors
///
/// Those of [`sim::run`].
pub fn find(machine: &Machine, setting: &Setting, seed: u64, job: &str) -> Result<Patterns, sim::Error> {
    let Some(mut meetings) = RoundRecorder::of(setting, machine.cpus, job) else { return Ok(Patterns::default()) };
    sim::run_observed(machine, setting, seed, &mut meetings)?;
    let rounds = &meetings.rounds;
    Ok(Patterns { transition: transition::find(rounds), alternation: alternation::find(rounds) })
}

impl Patterns {
    /// Whether the run has the pattern that a measure is about.
    fn has_pattern_of(&self, measure: Measure) -> bool {
        if measure.is_of_transitions() { self.transition.is_some() } else { self.alternation.is_some() }
    }
}

/// Replaces shown runs without the pattern that the measure is about by a repetition of the same
/// arm that has it, which is simulated again.
///
/// # Errors
///
/// Those of [`Worlds::run`].
pub fn show(
    histories: &mut [History],
    evidence: &Evidence<'_>,
    measure: Measure,
    worlds: &impl Worlds,
    cancel: &AtomicBool,
) -> Result<(), Failure> {
    for history in histories.iter_mut().filter(|history| history.world == World::Sim) {
        let Some(arm) = evidence.factors.iter().position(|factors| *factors == history.factors) else { continue };
        let has_it = |&(&repeat, _): &(&u32, &&Run)| {
            evidence.patterns.get(&(arm, repeat)).is_some_and(|found| found.has_pattern_of(measure))
        };
        let mut with = evidence.runs[arm].iter().filter(has_it).map(|(_, run)| run.seed).peekable();
        let Some(&first) = with.peek() else { continue };
        if !with.any(|seed| seed == history.seed) {
            history.states = worlds.run(World::Sim, &evidence.scenario.arms[arm].setting, first, true, cancel)?.states;
            history.seed = first;
        }
    }
    Ok(())
}
