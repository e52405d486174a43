//! Samples: completed runs, and the measured quantities of their jobs.

use scenario::result::{JobOutcome, Run, World};

use crate::factor::Factors;
use crate::states::RunStates;

/// One run and its arm.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The number of the arm in the scenario.
    pub arm: usize,
    /// The run.
    pub run: Run,
    /// The states of its threads. Empty if they were not observed.
    pub states: RunStates,
}

/// The states of the threads in one observed run.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// The world of the run.
    pub world: World,
    /// Its arm.
    pub factors: Factors,
    /// Its seed.
    pub seed: u64,
    /// The states.
    pub states: RunStates,
}

/// Moves the states out of the samples, in the order of arms and worlds.
pub fn histories(samples: &mut [Sample]) -> Vec<History> {
    let mut histories: Vec<(usize, History)> = Vec::new();
    for Sample { arm, run, states } in samples.iter_mut().filter(|sample| !sample.states.is_empty()) {
        let (world, factors, seed, states) = (run.world, run.factors.clone(), run.seed, std::mem::take(states));
        histories.push((*arm, History { world, factors, seed, states }));
    }
    histories.sort_by_key(|(arm, history)| (*arm, history.world));
    histories.into_iter().map(|(_, history)| history).collect()
}

/// A reported quantity of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobQuantity {
    /// Completion time in nanoseconds.
    Completion,
    /// Rounds per second of completion time.
    RoundsPerSecond,
    /// Successful spins in percent.
    Ssr,
    /// CPU time in nanoseconds.
    CpuTime,
    /// Voluntary context switches.
    VoluntarySwitches,
    /// Involuntary context switches.
    InvoluntarySwitches,
}

impl JobQuantity {
    /// The value of a job in one run. `None` if the job does not have it.
    pub fn of(self, job: &JobOutcome) -> Option<f64> {
        match self {
            JobQuantity::Completion => job.completion_ns.map(|span| span.as_nanos() as f64),
            JobQuantity::RoundsPerSecond => {
                let seconds = job.completion_ns.filter(|span| !span.is_zero())?.as_secs_f64();
                job.rounds.map(|rounds| rounds as f64 / seconds)
            }
            JobQuantity::Ssr => job.ssr_percent,
            JobQuantity::CpuTime => job.cpu_ns.map(|span| span.as_nanos() as f64),
            JobQuantity::VoluntarySwitches => job.voluntary_switches.map(|switches| switches as f64),
            JobQuantity::InvoluntarySwitches => job.involuntary_switches.map(|switches| switches as f64),
        }
    }
}

#[cfg(test)]
impl Sample {
    /// A sample of the first arm with these outcomes, for tests.
    pub(crate) fn of(world: World, repeat: u32, jobs: Vec<JobOutcome>) -> Sample {
        let outcome = scenario::result::Outcome { jobs, ..Default::default() };
        let run = Run { world, factors: Factors::new(), repeat, seed: 0, outcome };
        Sample { arm: 0, run, states: RunStates::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::Span;

    fn job(millis: u64, rounds: Option<u64>) -> JobOutcome {
        JobOutcome { completion_ns: Some(Span::from_millis(millis)), rounds, ..JobOutcome::default() }
    }

    #[test]
    fn rounds_per_second_need_rounds_and_a_time() {
        assert_eq!(JobQuantity::RoundsPerSecond.of(&job(500, Some(100))), Some(200.0));
        assert_eq!(JobQuantity::RoundsPerSecond.of(&job(0, Some(100))), None);
        assert_eq!(JobQuantity::RoundsPerSecond.of(&job(500, None)), None);
        assert_eq!(JobQuantity::RoundsPerSecond.of(&JobOutcome { rounds: Some(1), ..JobOutcome::default() }), None);
    }
}
