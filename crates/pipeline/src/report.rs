//! The report of a run, for people and for programs.

use std::time::Duration;

use policy::priority::StageKind;
use serde::{Deserialize, Serialize};

use crate::counters::Takes;
use crate::machine::MachineReport;
use crate::plan::Place;
use crate::scheduling::EffectiveAttribute;
use crate::verdict::Verdict;

/// The results of a run. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// The version of this format: 1.
    pub schema_version: u32,
    /// The program's name.
    pub program: String,
    /// The [`Structure`](crate::Structure) of the run in its text format, as given by the program
    /// and its environment.
    pub structure: String,
    /// From just before the start of the first thread to the end of the last one.
    pub clock_ns: u64,
    /// The number of CPUs that the program could use.
    pub cpus: usize,
    /// The number of workers.
    pub workers: usize,
    /// User CPU time of all its threads.
    pub user_ns: u64,
    /// System CPU time of all its threads.
    pub system_ns: u64,
    /// The machine during the run.
    #[serde(default)]
    pub machine: MachineReport,
    /// Why it ended early, if it did.
    pub failure: Option<String>,
    /// Its pipelines.
    pub pipelines: Vec<PipelineReport>,
    /// Their stages, in order.
    pub stages: Vec<StageReport>,
}

/// The results of one pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PipelineReport {
    /// Its name.
    pub name: String,
    /// The number of its buffers.
    pub buffers: usize,
    /// How many of them were there at the end: all.
    pub buffers_back: usize,
    /// The size of each, in bytes.
    pub block: usize,
    /// How many buffers its last stage has passed on.
    pub rounds: u64,
}

/// The results of one stage, for all its copies together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageReport {
    /// Its name.
    pub name: String,
    /// The name of its pipeline.
    pub pipeline: String,
    /// Its kind, as described by the program.
    pub kind: StageKind,
    /// Its runner.
    pub place: Place,
    /// Whether it may run in copies.
    pub can_fork: bool,
    /// The number of copies.
    pub copies: usize,
    /// Whether its copies kept the order.
    pub is_ordered: bool,
    /// Whether it ran as one with the stage before it.
    pub is_fused: bool,
    /// The number of calls.
    pub calls: u64,
    /// The number of calls whose work was repeated, as `double` in a structure asks for.
    #[serde(default)]
    pub repeated: u64,
    /// The filled bytes of all buffers that it passed on.
    pub bytes: u64,
    /// The total time in calls, `init` and `cleanup` included. If calls are very short, this is
    /// estimated from some of them. The work of a junction is attributed to the pipeline that it
    /// used last.
    pub busy_ns: u64,
    /// How much of that its copies spent in `init` and `cleanup`.
    #[serde(default)]
    pub setup_ns: u64,
    /// How long its threads waited for a buffer from the stage before. For stages of workers: how
    /// long they had no buffer.
    pub starved_ns: u64,
    /// How long the first stage waited for a free buffer, and so for the stages after it.
    pub blocked_ns: u64,
    /// How long buffers waited for a worker before a stage of workers.
    pub waiting_for_worker_ns: u64,
    /// User CPU time. The time of a thread that runs several stages is divided in proportion to
    /// their busy times.
    pub user_ns: u64,
    /// System CPU time, divided in the same way.
    pub system_ns: u64,
    /// How long its threads were ready to run without a CPU, divided in the same way. `None` if
    /// the kernel does not tell.
    #[serde(default)]
    pub waiting_for_cpu_ns: Option<u64>,
    /// How often a buffer was taken from a queue with 0, 1, 2, ... others. The last number includes
    /// all deeper queues.
    pub depths: Vec<u64>,
    /// The result of each request for the scheduling of its threads.
    #[serde(rename = "grants")]
    pub effective_attributes: Vec<EffectiveAttribute>,
}

impl StageReport {
    /// CPU time, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns.saturating_add(self.system_ns)
    }

    /// How many buffers were left in its queue on average when it took one. `None` if it took none.
    pub fn mean_left(&self) -> Option<f64> {
        Takes::of(&self.depths).mean_left()
    }
}

impl RunReport {
    /// Parses the file that `ROWLOCK_PIPELINE_REPORT` named, with one report a line.
    ///
    /// # Errors
    /// If a line is not a report.
    pub fn read(lines: &str) -> Result<Vec<RunReport>, serde_json::Error> {
        lines.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str).collect()
    }

    /// From just before the start of the first thread to the end of the last one.
    pub fn clock(&self) -> Duration {
        Duration::from_nanos(self.clock_ns)
    }

    /// CPU time of all threads, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns.saturating_add(self.system_ns)
    }

    /// Determines the limit of the run and its distance from the floor.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(self, None)
    }

    /// The number of buffers of a stage's pipeline.
    pub(crate) fn buffers_of(&self, stage: &StageReport) -> usize {
        self.pipelines.iter().find(|pipeline| pipeline.name == stage.pipeline).map_or(0, |pipeline| pipeline.buffers)
    }

    /// The stage of this name.
    pub fn stage(&self, name: &str) -> Option<&StageReport> {
        self.stages.iter().find(|stage| stage.name == name)
    }
}
