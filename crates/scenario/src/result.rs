//! What a world reports of one run. The field names are those of `--format json`, which is a contract.

use policy::Span;
use serde::{Deserialize, Serialize};

/// Which world executed a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    /// The simulated machine.
    Sim,
    /// The machine that we run on.
    Host,
}

impl World {
    /// As it is written on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            World::Sim => "sim",
            World::Host => "host",
        }
    }
}

/// What came out of one run in one world.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The jobs in the order of the scenario, copies one by one.
    pub jobs: Vec<JobOutcome>,
    /// The machine as a whole.
    pub machine: MachineOutcome,
}

/// What came out of one job. Sums are over its threads, to the job's own end (for endless jobs: to the end of the run).
///
/// What does not exist is `None`: SSR without a spin, completion of an endless job, rounds of a job without barriers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobOutcome {
    /// Its name.
    pub job: String,
    /// From the common start to the end of its last thread.
    pub completion_ns: Option<Span>,
    /// How often its threads have met.
    pub rounds: Option<u64>,
    /// Successful spins over all spins in percent, the last arriver not counted.
    pub ssr_percent: Option<f64>,
    /// CPU time used, spinning included.
    pub cpu_ns: Option<Span>,
    /// The part of it that was spent spinning.
    pub spin_ns: Option<Span>,
    /// The part of it that was computation, as asked for by the scenario.
    pub delivered_work_ns: Option<Span>,
    /// How often its threads blocked.
    pub voluntary_switches: Option<u64>,
    /// How often a CPU was taken from its threads, or they yielded it to somebody: as Linux counts, which sees in both a
    /// thread that could have gone on.
    pub involuntary_switches: Option<u64>,
    /// The stages of a pipeline; empty for other jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageOutcome>,
}

/// What came out of one stage of a pipeline: sums over its copies, to the job's own end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageOutcome {
    /// Its name.
    pub stage: String,
    /// How long it had something to do: a buffer in its hands or, in the simulator, one that it could have taken.
    pub busy_ns: Option<Span>,
    /// The part of it that was computation, as asked for by the scenario.
    pub computed_ns: Option<Span>,
    /// The part of it that the device or a message took, with the wait for the device.
    pub device_ns: Option<Span>,
    /// How long it had nothing to do: no buffer to take.
    pub starved_ns: Option<Span>,
    /// What the kernel refused of how its threads were to be scheduled, in words; empty in the simulator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

/// What came out of the machine as a whole, over the length of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineOutcome {
    /// How many CPUs the run could use.
    pub cpus: u32,
    /// The kernel's scheduler.
    pub scheduler: String,
    /// Share of all CPU time that was computation.
    pub work_percent: Option<f64>,
    /// Share that was spinning.
    pub spin_percent: Option<f64>,
    /// Share that went into context switches; not known on the host.
    pub switch_percent: Option<f64>,
    /// Share in which a CPU had nothing to do.
    pub idle_percent: Option<f64>,
    /// State changes of one CPU or thread taken from the simulator's queue.
    pub events: Option<u64>,
}

/// One run: where it stands in the experiment, and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Which world executed it.
    pub world: World,
    /// The swept values: dotted path to value.
    pub factors: std::collections::BTreeMap<String, toml::Value>,
    /// The number of the repetition, from zero.
    pub repeat: u32,
    /// The seed of this run.
    pub seed: u64,
    /// What came out.
    #[serde(flatten)]
    pub outcome: Outcome,
}
