//! What the threads of a job were doing in the course of a run: how many of them in each state, from the beginning to the
//! end. The simulator is watched, see [`Observer`]; the host is looked at now and then, see [`states_from_host_samples`].

pub mod alternation;
mod load;
mod natives;
mod observer;
pub mod rounds;
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
pub use rounds::Rounds;
pub use timeline::{Level, StateTimeline};
pub use transition::Transition;

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It has a CPU and computes.
    Computing,
    /// It has a CPU and spins, at the barrier or for the lock.
    Spinning,
    /// A CPU switches to it or away from it, or it is inside a `sched_yield`.
    Switching,
    /// It could run and waits for a CPU.
    Ready,
    /// It sleeps until its barrier completes, or it is woken for the lock.
    Blocked,
    /// It has a CPU or waits for one: more cannot be seen on the host.
    Runnable,
    /// It sleeps, as far as can be seen on the host.
    Sleeping,
}

impl State {
    /// The states that the simulator tells apart, those on a CPU first.
    pub const SIMULATED: [State; 5] =
        [State::Computing, State::Spinning, State::Switching, State::Ready, State::Blocked];

    /// In a word.
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

/// One job in one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobStates {
    /// The job's name, with the number of the copy where there are several.
    pub job: String,
    /// How many threads it has.
    pub threads: u32,
    /// The whole run.
    pub whole: StateTimeline,
    /// Its beginning with every single change, where the whole has not got them.
    pub beginning: Option<StateTimeline>,
    /// On which CPUs its threads last ran: its native CPUs. Not known of the host.
    pub natives: Option<NativeCpus>,
    /// Who passed its rounds awake; not known of the host, nor of jobs that do not meet at a barrier.
    pub rounds: Option<Rounds>,
    /// Where its threads alternate.
    pub alternation: Option<Alternation>,
    /// From where on they run together.
    pub transition: Option<Transition>,
}

/// What was seen of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunStates {
    /// The jobs that were looked at, in the order of the scenario.
    pub jobs: Vec<JobStates>,
    /// The load of the machine; not known of the host.
    pub load: Option<EffectiveLoad>,
}

/// How many threads there were on the machine that could run, and how many in all. Source: Tsafrir and Feitelson, section 5.2.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveLoad {
    /// How many CPUs there are.
    pub cpus: u32,
    /// The threads that had a CPU, were on their way to one or off it, or waited for one.
    pub runnable: Level,
    /// These and those that slept.
    pub all: Level,
}

impl RunStates {
    /// Whether nothing was seen.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.load.is_none()
    }
}

/// No more arms than this are shown.
const MOST_ARMS: usize = 12;

/// The arms whose first repetition is looked at: those that are compared with each other where the other factors are at one
/// end, at the other, and in the middle; without a comparison the first, the last, and others evenly between.
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

/// What can be told from looking at the host's threads now and then: every sample is taken to hold until the next. Jobs
/// without an end of their own and those that were seen less than twice are left out.
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
    fn comparison_groups_are_shown_together_at_both_ends_and_in_the_middle_and_else_arms_that_are_evenly_apart() {
        let sweep = "experiment.sweep = { \"job.crew.threads\" = [1, 2, 3, 4, 5, 6, 7], \"job.crew.waiting\" = [\"cs\", \"2cs\"] }\n";
        assert_eq!(arms(&format!("{sweep}experiment.compare = \"job.crew.waiting\"")), [0, 1, 6, 7, 12, 13].into());
        assert_eq!(arms(sweep), [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 13].into());
        assert_eq!(arms("experiment.sweep = { \"job.crew.threads\" = [5] }"), [0].into());
    }
}
