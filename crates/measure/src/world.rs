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

/// The default worlds: both if the scenario is about this machine, which can run it, else only the
/// simulator.
pub fn default_worlds(scenario: &Scenario) -> &'static [World] {
    let runs_here = is_about_this_machine(scenario) && simulated_only(scenario).is_none();
    if runs_here { &[World::Sim, World::Host] } else { &[World::Sim] }
}

/// The sentence about a scenario that is about this machine, but that only the simulator can run.
pub fn why_not_here(scenario: &Scenario) -> Option<String> {
    let what = simulated_only(scenario).filter(|_| is_about_this_machine(scenario))?;
    Some(format!("this runs only in the simulator, which alone has {what}"))
}

fn is_about_this_machine(scenario: &Scenario) -> bool {
    scenario.arms.iter().all(|arm| arm.setting.machine.like_host)
}

/// The part of a scenario that only the simulator has.
fn simulated_only(scenario: &Scenario) -> Option<String> {
    scenario.arms.iter().find_map(|arm| host::only_simulated(&arm.setting))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_the_simulator_has_is_only_simulated_by_default() {
        let of = |machine: &str, kind: &str| {
            let text = format!("{machine}\njob = [{{ name = 'a', {kind} }}]");
            let scenario = scenario::read("a.toml", text.as_bytes()).unwrap_or_else(|bad| panic!("{bad}"));
            (default_worlds(&scenario).len(), why_not_here(&scenario))
        };
        let cpu = "kind = 'cpu', work = '1 s'";
        let message = "kind = 'message', ranks = 2, pattern = 'ring', bytes = 1, rounds = 1, waiting = 'cs'";
        let only = |what: &str| (1, Some(format!("this runs only in the simulator, which alone has {what}")));
        assert_eq!(of("machine.like = 'host'", cpu), (2, None));
        let cells = "machine = { like = 'host', cells = '2x1' }";
        assert_eq!(of(cells, cpu), (2, None));
        let cellos = of(&format!("{cells}\ncoscheduling.how = 'cellos'"), cpu);
        assert_eq!(cellos, only("`coscheduling.how = \"cellos\"`"));
        assert_eq!(of("machine.like = 'host'", message), (2, None));
        assert_eq!(of("machine.cpus = 2", message), (1, None));
    }
}
