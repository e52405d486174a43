//! The types of the doctor's findings.

use serde::Serialize;

use super::probes::Privileges;
use crate::machine::Machine;

/// A part of rowlock that a machine may impede.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Capability {
    /// Barriers and locks that spin, yield or block.
    Waiting,
    /// Running scenarios on this machine, and measuring what it costs.
    Runs,
    /// Ranks of parallel jobs that exchange messages.
    Messages,
    /// Observing what the kernel did during a run.
    Inspection,
    /// Priorities, timeslices and groups: preferring some threads over others, and stopping jobs.
    Control,
}

impl Capability {
    pub(super) const ALL: [Capability; 5] =
        [Capability::Waiting, Capability::Runs, Capability::Messages, Capability::Inspection, Capability::Control];

    /// Its name, and a description.
    pub(super) const fn words(self) -> (&'static str, &'static str) {
        match self {
            Capability::Waiting => ("waiting", "barriers and locks"),
            Capability::Runs => ("runs", "scenarios on this machine, and their figures"),
            Capability::Messages => ("messages", "ranks of parallel jobs, and programs of MPI"),
            Capability::Inspection => ("inspection", "what the kernel reports of a run (--trace needs none of it)"),
            Capability::Control => ("control", "giving some threads priority over others, and letting jobs take turns"),
        }
    }
}

/// How well the machine meets a need; the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    /// The feature is missing.
    No,
    /// Parts of it exist.
    Partly,
    /// It cannot be determined.
    Unknown,
    /// It exists.
    Yes,
}

impl State {
    pub(super) const fn word(self) -> &'static str {
        match self {
            State::No => "no",
            State::Partly => "partly",
            State::Unknown => "unknown",
            State::Yes => "yes",
        }
    }

    /// A verdict with these results of the probes.
    pub(super) fn seen(self, seen: impl Into<String>) -> Verdict {
        Verdict { state: self, seen: seen.into(), costs: Vec::new(), remedy: None }
    }
}

/// An effect of a missing feature, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct CostFinding {
    pub(super) capability: Capability,
    pub(super) what: String,
}

/// One feature that a machine may have or lack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// Its name, which is stable across versions. docs/doctor.md explains each.
    pub(super) name: &'static str,
    /// The capability that needs it most.
    pub(super) capability: Capability,
    #[serde(flatten)]
    pub(super) verdict: Verdict,
}

/// How well the machine has a feature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Verdict {
    pub(super) state: State,
    /// The results of the probes, in words.
    pub(super) seen: String,
    /// The costs of its absence. Empty if it exists.
    pub(super) costs: Vec<CostFinding>,
    /// How to get it: a command or a setting. `None` if it exists or if there is no way.
    pub(super) remedy: Option<String>,
}

impl Verdict {
    /// Adds a cost.
    pub(super) fn costs(mut self, capability: Capability, what: impl Into<String>) -> Verdict {
        self.costs.push(CostFinding { capability, what: what.into() });
        self
    }

    /// Sets the way to get what is missing.
    pub(super) fn remedy(mut self, how: impl Into<String>) -> Verdict {
        self.remedy = Some(how.into());
        self
    }
}

/// All findings about a machine. `Display` writes a text for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorReport {
    pub(super) machine: Machine,
    pub(super) privileges: Privileges,
    /// By capability, the worst first.
    pub(super) findings: Vec<Finding>,
}
