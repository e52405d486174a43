//! The model of a scenario: a machine, the jobs that run on it, and the experiment around them.

use policy::waiting::WaitingRule;
use policy::{CpuSet, Span};
use serde::{Deserialize, Serialize};

use crate::arrival::Arrival;
use crate::coscheduling::Coscheduling;
use crate::distribution::Distribution;
use crate::draw::{Law, Normal};
use crate::fibers::Fibers;
use crate::keys::job::KINDS;
pub use crate::machine::{Cfs, Linux24, Machine, MachineKeys, default_slice};
use crate::message::Message;
pub use crate::named::{Accounting, Arrivals, Granularity, Scheduler, TickPhase, Tie};
use crate::pipeline::Pipeline;

/// A valid scenario file.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// A description for readers.
    pub title: String,
    /// Every combination of the swept values, in the order of the file (the last factor varies
    /// fastest). Without swept values there is one arm without factors. Never empty.
    pub arms: Vec<Arm>,
    /// How it is run and compared.
    pub experiment: Experiment,
}

/// One combination of the swept values, and the resulting setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// The swept dotted paths and their values in this arm, in the order of the file. Paths that
    /// vary together are one factor: its name is all of them, joined by
    /// [`crate::keys::PATH_SEPARATOR`], and its value is a list.
    pub factors: Vec<(String, toml::Value)>,
    /// The machine and the jobs.
    pub setting: Setting,
}

/// A machine and the jobs on it: the input of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The machine, as far as the file specifies it.
    pub machine: MachineKeys,
    /// The jobs, in the order of the file; their names are unique.
    pub jobs: Vec<Job>,
    /// How they share the cells of the machine, if it has cells.
    pub coscheduling: Option<Coscheduling>,
    /// Whether jobs that have finished continue until all have finished once (and count once).
    pub keep_running: bool,
}

impl Setting {
    /// The number of threads of all jobs together on a machine with this many CPUs.
    pub fn threads(&self, cpus: u32) -> u64 {
        self.jobs.iter().map(|job| u64::from(job.copies) * u64::from(job.kind.threads(cpus))).sum()
    }

    /// The jobs with one item for each copy: `crew`, or `crew.0`, `crew.1`, ... if there are
    /// several.
    pub fn jobs_with_copies(&self) -> impl Iterator<Item = (String, &Job)> {
        self.jobs.iter().flat_map(|job| (0..job.copies).map(move |copy| (job.name_of_copy(copy), job)))
    }
}

/// A group of threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// How many jobs like this there are; zero in an arm without it.
    pub copies: u32,
    /// The work of its threads.
    pub kind: JobKind,
    /// How the kernel schedules its threads.
    pub attributes: Attributes,
    /// When it arrives.
    pub arrival: Arrival,
}

impl Job {
    /// The name of one of its copies, as in [`Setting::jobs_with_copies`].
    pub fn name_of_copy(&self, copy: u32) -> String {
        match self.copies {
            1 => self.name.clone(),
            _ => format!("{}.{copy}", self.name),
        }
    }

    /// A job with this many copies that arrives at the start of the run, with default scheduling
    /// attributes.
    pub fn new(name: impl Into<String>, copies: u32, kind: JobKind) -> Job {
        Job { name: name.into(), copies, kind, attributes: Attributes::default(), arrival: Arrival::default() }
    }
}

/// The scheduling attributes of threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// Their nice value, -20 to 19.
    pub nice: i8,
    /// The CPUs on which they may run; `None` for all.
    pub cpus: Option<CpuSet>,
    /// The slice that they request, if it is not that of the machine.
    pub slice: Option<Span>,
}

/// The work of a job's threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum JobKind {
    /// Every thread computes, then all meet at a barrier, repeatedly.
    Barrier {
        /// How many threads meet, at least one.
        threads: u32,
        /// The time between two barriers.
        compute: Compute,
        /// How often they meet, at least once.
        rounds: u64,
        /// How they wait for each other.
        waiting: WaitingRule,
    },
    /// Every thread computes, then acquires the job's lock, computes with it and releases it,
    /// repeatedly.
    Lock {
        /// How many threads contend, at least one.
        threads: u32,
        /// The time that a thread computes without the lock.
        compute: Distribution,
        /// The time that it computes with the lock.
        critical: Distribution,
        /// How often each thread acquires the lock, at least once.
        rounds: u64,
        /// How they wait for each other.
        waiting: WaitingRule,
    },
    /// Every thread only computes.
    Cpu {
        /// The number of threads, at least one.
        threads: u32,
        /// How long each of them computes, drawn for each; without it, until the other jobs have
        /// ended.
        work: Option<Distribution>,
    },
    /// A real program. The simulator replaces it by a `cpu` job of its CPU time.
    Command {
        /// The program and its arguments; never empty.
        argv: Vec<String>,
        /// On how many threads the simulator spreads its CPU time.
        threads: u32,
        /// Its CPU time, if the file states it; else it is measured.
        work: Option<Span>,
    },
    /// Buffers pass through stages that read, compute, communicate and write.
    Pipeline(Pipeline),
    /// User-level threads under a feedback queue.
    Fibers(Fibers),
    /// Ranks that exchange messages.
    Message(Message),
}

impl JobKind {
    /// How many threads it has on a machine with this many CPUs.
    pub fn threads(&self, cpus: u32) -> u32 {
        match self {
            JobKind::Barrier { threads, .. }
            | JobKind::Lock { threads, .. }
            | JobKind::Cpu { threads, .. }
            | JobKind::Command { threads, .. } => *threads,
            JobKind::Pipeline(pipeline) => pipeline.threads(cpus),
            JobKind::Fibers(fibers) => fibers.workers,
            JobKind::Message(message) => message.ranks(),
        }
    }

    /// Whether the job runs until the others have ended.
    pub const fn is_endless(&self) -> bool {
        matches!(self, JobKind::Cpu { work: None, .. })
    }

    /// The name in scenario files.
    pub const fn name(&self) -> &'static str {
        match self {
            JobKind::Barrier { .. } => KINDS[0],
            JobKind::Lock { .. } => KINDS[1],
            JobKind::Cpu { .. } => KINDS[2],
            JobKind::Command { .. } => KINDS[3],
            JobKind::Pipeline(_) => KINDS[4],
            JobKind::Fibers(_) => KINDS[5],
            JobKind::Message(_) => KINDS[6],
        }
    }
}

/// The time that a thread computes between two barriers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Compute {
    /// Drawn from this distribution.
    Drawn(Distribution),
    /// Relative to CS.
    Granularity(Granularity),
}

impl Compute {
    /// The law to draw from on a machine with this CS.
    pub fn on(&self, cs: Span) -> Law {
        match self {
            Compute::Drawn(distribution) => distribution.law(),
            Compute::Granularity(granularity) => Law::Normal(granularity.on(cs)),
        }
    }

    /// The mean on a machine with this CS, in nanoseconds.
    pub fn mean(&self, cs: Span) -> f64 {
        match self {
            Compute::Drawn(distribution) => distribution.mean(),
            Compute::Granularity(granularity) => granularity.on(cs).mean,
        }
    }
}

impl Granularity {
    fn on(self, cs: Span) -> Normal {
        /// Standard deviation over mean.
        const VARIATION: f64 = 0.1;
        /// Nine tenths of a normal distribution lie below the mean plus this many deviations.
        const NINE_TENTHS: f64 = 1.2816;
        let multiple = match self {
            Granularity::Fine => 1.0,
            Granularity::Medium => 5.0,
            Granularity::Coarse => 20.0,
        };
        let mean = multiple * cs.as_nanos() as f64 / (1.0 + NINE_TENTHS * VARIATION);
        Normal { mean, sd: VARIATION * mean }
    }
}

/// How a scenario is run and compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// How often every arm is run, at least once.
    pub repeat: u32,
    /// Repeat `r` of every arm uses `seed + r`, so that all arms face equal draws.
    pub seed: u64,
    /// The factor that is compared, or a path of one; its first value is the baseline of speed-ups.
    pub compare: Option<String>,
    /// The plots' axis: a factor, a path of one, [`X_THREADS`] or [`X_LOAD`].
    ///
    /// [`X_THREADS`]: crate::keys::experiment::X_THREADS
    ///
    /// [`X_LOAD`]: crate::keys::experiment::X_LOAD
    pub x: Option<String>,
}
