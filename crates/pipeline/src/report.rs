//! What came of a run, for people and for programs.

use std::time::Duration;

use crate::scheduling::EffectiveAttribute;
use policy::priority::StageKind;
use serde::{Deserialize, Serialize};

use crate::machine::MachineReport;
use crate::verdict::Verdict;

/// What came of a run. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// The version of this form: 1.
    pub schema_version: u32,
    /// The program's name.
    pub program: String,
    /// What was run where, as a [`Structure`](crate::Structure) is written: what the program and its environment say, together.
    pub structure: String,
    /// From just before the first thread's start to the last one's end.
    pub clock_ns: u64,
    /// How many CPUs there were for it.
    pub cpus: usize,
    /// How many workers carried stages.
    pub workers: usize,
    /// CPU time of all its threads, outside of the kernel.
    pub user_ns: u64,
    /// CPU time of all its threads, in the kernel.
    pub system_ns: u64,
    /// What the machine did meanwhile.
    #[serde(default)]
    pub machine: MachineReport,
    /// Why it ended early, if it did.
    pub failure: Option<String>,
    /// Its pipelines.
    pub pipelines: Vec<PipelineReport>,
    /// Their stages, in order.
    pub stages: Vec<StageReport>,
}

/// What came of one pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PipelineReport {
    /// Its name.
    pub name: String,
    /// How many buffers were made for it.
    pub buffers: usize,
    /// How many of them were there at the end: all.
    pub buffers_back: usize,
    /// How large each, in bytes.
    pub block: usize,
    /// How many buffers its last stage has passed on.
    pub rounds: u64,
}

/// What came of one stage, all its copies together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageReport {
    /// Its name.
    pub name: String,
    /// The pipeline.
    pub pipeline: String,
    /// What it mostly does, as it says.
    pub kind: StageKind,
    /// What ran it: `workers`, `threads` or `junction`.
    pub place: String,
    /// Whether it may run in copies.
    pub can_fork: bool,
    /// In how many it ran.
    pub copies: usize,
    /// Whether its copies kept the order.
    pub is_ordered: bool,
    /// Whether it was run as one with the stage before it.
    pub is_fused: bool,
    /// Calls.
    pub calls: u64,
    /// Calls whose work was done once more, as `double` in a structure asks for.
    #[serde(default)]
    pub repeated: u64,
    /// What was in the buffers when they went on.
    pub bytes: u64,
    /// How long it was in calls. Where calls are very short this is reckoned from some of them. A junction's work counts for the pipeline that it
    /// has asked for something last.
    pub busy_ns: u64,
    /// How long its threads waited for a buffer from the stage before. Of stages that workers carry: how long there was nothing for them.
    pub starved_ns: u64,
    /// How long the first stage waited for a free buffer: for the stages after it.
    pub blocked_ns: u64,
    /// How long buffers waited before a stage that workers carry until a worker came.
    pub waiting_for_worker_ns: u64,
    /// CPU time outside of the kernel. That of threads that run several stages is divided by how long each was busy.
    pub user_ns: u64,
    /// CPU time in the kernel, divided as well.
    pub system_ns: u64,
    /// How often a buffer was taken while 0, 1, 2, ... others were left in the queue; the last counts all deeper ones.
    pub depths: Vec<u64>,
    /// What became of each wish for how its threads are scheduled.
    #[serde(rename = "grants")]
    pub effective_attributes: Vec<EffectiveAttribute>,
}

impl RunReport {
    /// The reports in a file that `ROWLOCK_PIPELINE_REPORT` named, one a line.
    ///
    /// # Errors
    /// When a line is none.
    pub fn read(lines: &str) -> Result<Vec<RunReport>, serde_json::Error> {
        lines.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str).collect()
    }

    /// From just before the first thread's start to the last one's end.
    pub fn clock(&self) -> Duration {
        Duration::from_nanos(self.clock_ns)
    }

    /// CPU time of all threads.
    pub fn cpu(&self) -> Duration {
        Duration::from_nanos(self.user_ns + self.system_ns)
    }

    /// What limited the run, and how far it was from its floor.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(self, None)
    }

    /// The stage of this name.
    pub fn stage(&self, name: &str) -> Option<&StageReport> {
        self.stages.iter().find(|stage| stage.name == name)
    }
}
