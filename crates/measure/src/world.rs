//! The worlds as the laboratory sees them, and which of them a scenario is run in.

use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;

use host::StateSample;
use scenario::result::{Outcome, World};
use scenario::{Scenario, Setting, Span};

use crate::states::RunStates;

/// What executes runs. [`crate::two_worlds::TwoWorlds`] is the real one; tests have others that need no clock.
pub trait Worlds: Sync {
    /// Executes one run and blocks until it has ended, or until `cancel` becomes true and everything that the run had
    /// started has ended.
    ///
    /// # Errors
    ///
    /// [`Failure`]: the run has no outcome, and nothing of it is left running.
    fn run(&self, world: World, setting: &Setting, seed: u64, cancel: &AtomicBool) -> Result<Executed, Failure>;

    /// [`run`](Worlds::run), and watches what the threads do wherever that changes nothing.
    ///
    /// # Errors
    ///
    /// As [`run`](Worlds::run).
    fn run_watched(
        &self,
        world: World,
        setting: &Setting,
        seed: u64,
        cancel: &AtomicBool,
    ) -> Result<Executed, Failure> {
        self.run(world, setting, seed, cancel)
    }

    /// Runs a command alone, once, on the machine that we run on, and returns the CPU time that it took.
    ///
    /// # Errors
    ///
    /// [`Failure`]: it could not be started, it failed, or it was cancelled.
    fn measure_command(&self, argv: &[String], cancel: &AtomicBool) -> Result<Span, Failure>;

    /// How many runs of the simulated world may go on at the same time.
    fn workers(&self) -> NonZeroUsize;
}

/// What one run gave.
#[derive(Clone, Debug, Default)]
pub struct Executed {
    /// What came out.
    pub outcome: Outcome,
    /// What its threads were doing now and then; empty where the world does not look.
    pub timeline: Vec<StateSample>,
    /// What the threads of its jobs were doing all the time; empty where nobody watched.
    pub states: RunStates,
}

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It was asked to stop.
    #[error("interrupted")]
    Cancelled,
    /// The scenario asks for what the world cannot do: the user has to change it.
    #[error(transparent)]
    Input(Box<dyn Error + Send + Sync>),
    /// The run was started and failed.
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
}

/// The worlds that a scenario is run in where nobody chooses: both if it is about this machine, else the simulated one.
pub fn default_worlds(scenario: &Scenario) -> &'static [World] {
    let about_this_machine = scenario.arms.iter().all(|arm| arm.setting.machine.like_host);
    if about_this_machine { &[World::Sim, World::Host] } else { &[World::Sim] }
}
