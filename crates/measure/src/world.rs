//! The interface between experiments and the worlds that execute their runs.

use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;

use host::StateSample;
use scenario::result::{Outcome, World};
use scenario::{Scenario, Setting, Span};

use crate::disturbance::Disturbance;
use crate::states::RunStates;

/// Executes runs: [`crate::two_worlds::TwoWorlds`], or in tests without a clock.
pub trait Worlds: Sync {
    /// Executes one run. If `is_watched`, observes its threads, unless that would disturb the run.
    /// Blocks until it has ended, or until `cancel` is true and everything that the run started has
    /// ended.
    ///
    /// # Errors
    ///
    /// [`Failure`]: the run has no outcome, and all of it has ended.
    fn run(
        &self,
        world: World,
        setting: &Setting,
        seed: u64,
        is_watched: bool,
        cancel: &AtomicBool,
    ) -> Result<Executed, Failure>;

    /// The states of the threads of a simulated run that an earlier command made: it is simulated
    /// again. Empty after a failure.
    fn states_of_simulation(&self, setting: &Setting, seed: u64, cancel: &AtomicBool) -> RunStates {
        self.run(World::Sim, setting, seed, true, cancel).map(|executed| executed.states).unwrap_or_default()
    }

    /// Runs a command alone, once, on this machine, and returns its CPU time.
    fn measure_command(&self, argv: &[String], cancel: &AtomicBool) -> Result<Span, Failure>;

    /// The number of simulated runs that may execute at the same time.
    fn workers(&self) -> NonZeroUsize;
}

/// The results of one run.
#[derive(Clone, Debug, Default)]
pub struct Executed {
    /// The outcome.
    pub outcome: Outcome,
    /// Periodic samples of what its threads did. Empty if the world takes none.
    pub timeline: Vec<StateSample>,
    /// The states of its threads over the whole run. Empty if they were not observed.
    pub states: RunStates,
    /// How much other programs disturbed it; `None` in the simulator.
    pub disturbance: Option<Disturbance>,
}

/// Why a run has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It was asked to stop.
    #[error("interrupted")]
    Cancelled,
    /// The scenario asks for something that the world cannot do; the user must change it.
    #[error(transparent)]
    Input(Box<dyn Error + Send + Sync>),
    /// The run was started and failed.
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
}

/// The default worlds: both if the scenario is about this machine, else only the simulator.
pub fn default_worlds(scenario: &Scenario) -> &'static [World] {
    let about_this_machine = scenario.arms.iter().all(|arm| arm.setting.machine.like_host);
    if about_this_machine { &[World::Sim, World::Host] } else { &[World::Sim] }
}
