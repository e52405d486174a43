//! The states of a job's threads during a run: how many threads are in each state over time.
//!
//! The simulator reports every change to an [`Observer`]. The host's threads are sampled
//! periodically, see [`states_from_host_samples`].

pub mod alternation;
mod natives;
mod observer;
pub mod placement;
pub mod rounds;
#[cfg(test)]
mod spreading;
mod timeline;
pub mod transition;

use std::collections::BTreeSet;

use host::StateSample;
use policy::JobId;
use scenario::Scenario;
use scenario::result::Outcome;

use crate::factor;
use report::plot;

pub use alternation::Alternation;
pub use natives::NativeCpus;
pub use observer::Observer;
pub use placement::Placement;
pub use rounds::Rounds;
pub(crate) use timeline::total;
pub use timeline::{Level, StateTimeline};
pub use transition::Transition;

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Has a CPU and computes.
    Computing,
    /// Has a CPU and spins at a barrier or for a lock.
    Spinning,
    /// A CPU switches to or from it, or it is inside `sched_yield`.
    Switching,
    /// Ready to run, waits for a CPU.
    Ready,
    /// Sleeps until its barrier completes or it is woken for a lock, or is stopped.
    Blocked,
    /// Has a CPU or waits for one. The host does not show the difference.
    Runnable,
    /// Sleeps, as far as the host shows.
    Sleeping,
}

impl State {
    /// The states that the simulator distinguishes, those on a CPU first.
    pub const SIMULATED: [State; 5] =
        [State::Computing, State::Spinning, State::Switching, State::Ready, State::Blocked];

    /// The name of the state.
    pub const fn name(self) -> &'static str {
        match self {
            State::Computing => "computing",
            State::Spinning => "spinning",
            State::Switching => "switching",
            State::Ready => "ready",
            State::Blocked => "blocked",
            State::Runnable => "runnable",
            State::Sleeping => "sleeping",
        }
    }
}

/// The states of one job in one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobStates {
    /// The job's name, with the number of the copy if there are several.
    pub job: String,
    /// The number of its threads.
    pub threads: u32,
    /// The whole run.
    pub whole: StateTimeline,
    /// The beginning of the run with every change, if `whole` is coarser.
    pub beginning: Option<StateTimeline>,
    /// The CPUs on which its threads last ran. `None` on the host.
    pub natives: Option<NativeCpus>,
    /// The threads that passed each round awake. `None` on the host and for jobs without a barrier.
    pub rounds: Option<Rounds>,
    /// The alternating synchronization of its threads, if any.
    pub alternation: Option<Alternation>,
    /// The point from which its threads run together, if any.
    pub transition: Option<Transition>,
}

/// The observations of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunStates {
    /// The observed jobs, in the order of the scenario.
    pub jobs: Vec<JobStates>,
    /// The load of the machine. `None` on the host.
    pub load: Option<EffectiveLoad>,
}

/// The numbers of runnable threads and of all threads on the machine.
///
/// Source: Tsafrir and Feitelson, section 5.2.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveLoad {
    /// The number of CPUs.
    pub cpus: u32,
    /// The threads that have a CPU, are being switched, or wait for a CPU.
    pub runnable: Level,
    /// The runnable and the sleeping threads.
    pub all: Level,
}

impl RunStates {
    /// Whether nothing was observed.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.load.is_none()
    }
}

/// At most this many arms are shown.
const MOST_ARMS: usize = 12;

/// The arms whose first repetition is observed.
///
/// With a comparison: the arms that are compared at the first, the last and the middle values of
/// the other factors. Without one: the first arm, the last, and others evenly spaced between them.
pub fn shown_arms(scenario: &Scenario) -> BTreeSet<usize> {
    let comparisons = factor::comparison_groups(scenario);
    if comparisons.is_empty() {
        return plot::evenly(scenario.arms.len(), MOST_ARMS).collect();
    }
    let groups = [0, comparisons.len() - 1, comparisons.len() / 2];
    let mut shown = BTreeSet::new();
    for &arm in groups.into_iter().flat_map(|group| &comparisons[group]) {
        if shown.len() < MOST_ARMS {
            shown.insert(arm);
        }
    }
    shown
}

/// The states from samples of the host's threads. Each sample holds until the next.
///
/// Leaves out jobs that do not end by themselves and jobs with fewer than two samples.
pub fn states_from_host_samples(samples: &[StateSample], outcome: &Outcome) -> RunStates {
    let seen = |(number, job): (u32, &scenario::result::JobOutcome)| {
        let samples: Vec<&StateSample> = samples.iter().filter(|sample| sample.job == JobId(number)).collect();
        let end = job.completion_ns?.as_nanos();
        let [_, .., last] = samples.as_slice() else { return None };
        let edges = samples.iter().map(|sample| sample.at_ns.as_nanos());
        let edges: Vec<u64> = edges.chain([end.max(last.at_ns.as_nanos() + 1)]).collect();
        let layer = |state, count: fn(&StateSample) -> u32| {
            (state, samples.iter().map(|sample| f64::from(count(sample))).collect())
        };
        let layers = vec![layer(State::Runnable, |of| of.runnable), layer(State::Sleeping, |of| of.sleeping)];
        let threads = samples.iter().map(|sample| sample.runnable + sample.sleeping).max()?;
        Some(JobStates {
            job: job.job.clone(),
            threads,
            whole: StateTimeline { edges, layers },
            ..JobStates::default()
        })
    };
    let jobs = (0..).zip(&outcome.jobs).filter(|(_, job)| job.rounds.is_some()).filter_map(seen).collect();
    RunStates { jobs, load: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arms(experiment: &str) -> BTreeSet<usize> {
        let text = format!(
            "machine.cpus = 2\n\
             job = [{{ name = \"crew\", kind = \"barrier\", compute = \"9 us\", rounds = 2, waiting = \"cs\" }}]\n{experiment}"
        );
        shown_arms(&scenario::read("arms.toml", text.as_bytes()).unwrap_or_else(|bad| panic!("{bad}")))
    }

    #[test]
    fn compared_arms_are_shown_together_and_other_arms_are_evenly_spaced() {
        let sweep = "experiment.sweep = { \"job.crew.threads\" = [1, 2, 3, 4, 5, 6, 7], \"job.crew.waiting\" = [\"cs\", \"2cs\"] }\n";
        assert_eq!(arms(&format!("{sweep}experiment.compare = \"job.crew.waiting\"")), [0, 1, 6, 7, 12, 13].into());
        assert_eq!(arms(sweep), [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 13].into());
        assert_eq!(arms("experiment.sweep = { \"job.crew.threads\" = [5] }"), [0].into());
    }
}
