//! The outcome of one run, in the same terms for both worlds. The field names are those of
//! `--format json`, which is a contract.

use policy::Span;
use serde::{Deserialize, Serialize};

/// The world that executed a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    /// The simulated machine.
    Sim,
    /// The machine that rowlock runs on.
    Host,
}

impl World {
    /// The name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            World::Sim => "sim",
            World::Host => "host",
        }
    }
}

/// The outcome of one run in one world.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The jobs in the order of the scenario, each copy as one.
    pub jobs: Vec<JobOutcome>,
    /// The machine as a whole.
    pub machine: MachineOutcome,
}

/// The outcome of one job. Sums are over its threads, to the job's own end (for endless jobs: to
/// the end of the run).
///
/// A value that does not exist is `None`: SSR without a spin, completion of an endless job, rounds
/// of a job without barriers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobOutcome {
    /// Its name.
    pub job: String,
    /// From the common start to the end of its last thread.
    pub completion_ns: Option<Span>,
    /// From its arrival to the first computation of its work: creating, placing and loading it.
    /// Only for message jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ns: Option<Span>,
    /// How often its threads have met.
    pub rounds: Option<u64>,
    /// Successful spins over all spins in percent; the last thread to arrive is not counted.
    pub ssr_percent: Option<f64>,
    /// The CPU time used, including spinning.
    pub cpu_ns: Option<Span>,
    /// The part of it that was spent spinning.
    pub spin_ns: Option<Span>,
    /// The part of it that was computation, as the scenario requests.
    pub delivered_work_ns: Option<Span>,
    /// How often its threads blocked.
    pub voluntary_switches: Option<u64>,
    /// How often its threads were preempted or yielded to another thread: as Linux counts both,
    /// since the thread could have continued.
    pub involuntary_switches: Option<u64>,
    /// The stages of a pipeline; empty for other jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageOutcome>,
    /// The outcome of fibers; `None` for other jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fibers: Option<Box<FibersOutcome>>,
}

/// The outcome of one stage of a pipeline: sums over its copies, to the job's own end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageOutcome {
    /// Its name.
    pub stage: String,
    /// How long it had work: a buffer that it held or, in the simulator, one that it could have
    /// taken.
    pub busy_ns: Option<Span>,
    /// The part of it that was computation, as the scenario requests.
    pub computed_ns: Option<Span>,
    /// The part of it that the device or a message took, including the wait for the device.
    pub device_ns: Option<Span>,
    /// How long it had no buffer to take.
    pub starved_ns: Option<Span>,
    /// The scheduling requests that the kernel refused, in words; empty in the simulator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

/// The outcome of a job's fibers, to its own end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FibersOutcome {
    /// How often a worker resumed a fiber that had run before.
    pub switches: Option<u64>,
    /// How often a fiber had used up its running time: it moved down by a level, or stayed at the
    /// lowest.
    pub demotions: Option<u64>,
    /// Its groups, in the order of the scenario.
    pub groups: Vec<GroupOutcome>,
}

/// The outcome of a group of fibers. A response is the time from the moment when a fiber could run
/// (it was created, its sleep ended, or it yielded) to the end of its next burst. Of short bursts a
/// sample is timed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupOutcome {
    /// Its name.
    pub group: String,
    /// The number of timed responses.
    pub responses: u64,
    /// Half of them were at most this long.
    pub response_p50_ns: Option<Span>,
    /// Nineteen in twenty were at most this long.
    pub response_p95_ns: Option<Span>,
    /// Ninety-nine in a hundred were at most this long.
    pub response_p99_ns: Option<Span>,
    /// The longest.
    pub response_worst_ns: Option<Span>,
}

impl GroupOutcome {
    /// Computes the outcome from these responses, which it sorts.
    pub fn new(group: String, responses: &mut [Span]) -> GroupOutcome {
        responses.sort_unstable();
        // The nearest rank: the smallest response that is at least as long as this share of all.
        let of_rank =
            |percent: usize| responses.get((responses.len() * percent).div_ceil(100).checked_sub(1)?).copied();
        GroupOutcome {
            group,
            responses: responses.len() as u64,
            response_p50_ns: of_rank(50),
            response_p95_ns: of_rank(95),
            response_p99_ns: of_rank(99),
            response_worst_ns: of_rank(100),
        }
    }
}

/// The outcome of the machine as a whole, over the length of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineOutcome {
    /// How many CPUs the run could use.
    pub cpus: u32,
    /// The kernel's scheduler.
    pub scheduler: String,
    /// The share of all CPU time that was computation.
    pub work_percent: Option<f64>,
    /// The share that was spinning.
    pub spin_percent: Option<f64>,
    /// The share of context switches; unknown on the host.
    pub switch_percent: Option<f64>,
    /// The share in which a CPU was idle.
    pub idle_percent: Option<f64>,
    /// The number of state changes of one CPU or thread that the simulator took from its queue.
    pub events: Option<u64>,
    /// The turns of jobs. Only on a machine with cells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coscheduling: Option<CoschedulingOutcome>,
}

/// The turns of jobs on a machine with cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoschedulingOutcome {
    /// The largest number of slices.
    pub slices_most: u32,
    /// How often a cell has switched to other jobs at a boundary. On the host, all cells switch at
    /// the same time.
    pub turns: u64,
    /// The mean time from a boundary to the end of such a switch.
    pub delay_mean_ns: Option<Span>,
    /// The standard deviation of that time.
    pub delay_sd_ns: Option<Span>,
    /// The times of switches on the host, each too high by at most an eighth or 1 us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches: Option<SwitchTimes>,
}

/// The times of switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchTimes {
    /// From a boundary to the beginning of its switch.
    pub lateness: Percentiles,
    /// From the beginning of a switch to its end.
    pub duration: Percentiles,
    /// From the first process that a switch lets run again to the last.
    pub skew: Percentiles,
}

/// Percentiles of a time. `None` if it was never measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Half of all times are at most this long.
    pub p50_ns: Option<Span>,
    /// Nine in ten are at most this long.
    pub p90_ns: Option<Span>,
}

/// One run: its place in the experiment, and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The world that executed it.
    pub world: World,
    /// The swept values: dotted path to value.
    pub factors: std::collections::BTreeMap<String, toml::Value>,
    /// The number of the repetition, from zero.
    pub repeat: u32,
    /// The seed of this run.
    pub seed: u64,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_of_responses_is_of_the_nearest_rank() {
        let of = |count: u64| {
            GroupOutcome::new("g".into(), &mut (1..=count).rev().map(Span::from_nanos).collect::<Vec<_>>())
        };
        let ranks = |count| {
            let GroupOutcome { response_p50_ns, response_p95_ns, response_p99_ns, response_worst_ns, .. } = of(count);
            [response_p50_ns, response_p95_ns, response_p99_ns, response_worst_ns].map(|span| span.map(Span::as_nanos))
        };
        assert_eq!(ranks(200), [100, 190, 198, 200].map(Some));
        assert_eq!(ranks(3), [2, 3, 3, 3].map(Some));
        assert_eq!(ranks(0), [None; 4]);
    }
}
