//! How a job is kept from running, or from competing, as the table says it to all agents.

use serde::{Deserialize, Serialize};

/// How a job is stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopBy {
    /// The mechanism.
    pub mechanism: StopMechanism,
    /// The path of the job's control group below the mount point, for a mechanism that needs one.
    pub group: Option<String>,
    /// Whether its ranks give way by themselves, so that it need not be stopped.
    #[serde(default, skip_serializing_if = "Hint::is_unused")]
    pub hint: Hint,
}

/// Whether the ranks of a job give way by themselves when they read that it is not their turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hint {
    /// That was not asked for.
    #[default]
    Unused,
    /// As far as known, they do.
    Obeyed,
    /// They have used CPUs in the turns of others. So the job is stopped for a while.
    Ignored,
}

impl Hint {
    pub(crate) const fn is_unused(&self) -> bool {
        matches!(self, Hint::Unused)
    }
}

/// How a job may be asked to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopChoice {
    /// By the ranks themselves, and if they do not, by the best mechanism.
    Hint,
    /// By this mechanism.
    By(StopMechanism),
}

impl StopChoice {
    /// All choices.
    pub const ALL: [StopChoice; 4] = [
        StopChoice::By(StopMechanism::Freeze),
        StopChoice::By(StopMechanism::Freezer),
        StopChoice::By(StopMechanism::Signals),
        StopChoice::Hint,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            StopChoice::Hint => "hint",
            StopChoice::By(mechanism) => mechanism.name(),
        }
    }
}

/// A mechanism to stop jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopMechanism {
    /// `cgroup.freeze`, version 2 of control groups.
    Freeze,
    /// The freezer of version 1.
    Freezer,
    /// Signals to each process.
    Signals,
}

impl StopBy {
    /// The name of the mechanism that acts at present.
    pub const fn name(&self) -> &'static str {
        match self.hint {
            Hint::Obeyed => StopChoice::Hint.name(),
            Hint::Unused | Hint::Ignored => self.mechanism.name(),
        }
    }
}

impl StopMechanism {
    /// All mechanisms, the best first.
    pub const ALL: [StopMechanism; 3] = [StopMechanism::Freeze, StopMechanism::Freezer, StopMechanism::Signals];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            StopMechanism::Freeze => "freeze",
            StopMechanism::Freezer => "freezer",
            StopMechanism::Signals => "signals",
        }
    }
}

/// How a job is lowered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum LowerBy {
    /// By the weight of the job's control group.
    Weight {
        /// The version of control groups.
        version: u32,
        /// The path of the group below the mount point.
        group: String,
    },
    /// By `SCHED_IDLE` for each thread that has the ordinary policy.
    SchedIdle,
    /// By a larger nice value for each thread that has the ordinary one.
    Nice {
        /// The ordinary one.
        ordinary: i32,
    },
}

impl LowerBy {
    /// The name of the mechanism.
    pub const fn name(&self) -> &'static str {
        match self {
            LowerBy::Weight { .. } => "weight",
            LowerBy::SchedIdle => "idle",
            LowerBy::Nice { .. } => "nice",
        }
    }

    /// Whether it changes the threads of the job one by one.
    pub(crate) const fn is_of_threads(&self) -> bool {
        matches!(self, LowerBy::SchedIdle | LowerBy::Nice { .. })
    }
}
