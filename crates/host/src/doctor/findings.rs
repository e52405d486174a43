//! The types of the doctor's findings.

use serde::Serialize;

use super::probes::Privileges;
use crate::machine::Machine;

/// A part of rowlock that a machine may impede.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// Barriers and locks that spin, yield or block.
    Waiting,
    /// Running scenarios on this machine, and measuring what it costs.
    Runs,
    /// Observing what the kernel did during a run.
    Inspection,
    /// Priorities, timeslices and groups: preferring some threads over others.
    Control,
}

impl Capability {
    pub(super) const ALL: [Capability; 4] =
        [Capability::Waiting, Capability::Runs, Capability::Inspection, Capability::Control];

    pub(super) const fn word(self) -> &'static str {
        match self {
            Capability::Waiting => "waiting",
            Capability::Runs => "runs",
            Capability::Inspection => "inspection",
            Capability::Control => "control",
        }
    }
}

/// How well the machine meets a need; the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
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
}

/// An effect of a missing feature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CostFinding {
    /// The affected capability.
    pub capability: Capability,
    /// The effect, in a sentence.
    pub what: String,
}

/// One feature that a machine may have or lack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its name, which is stable across versions. docs/doctor.md explains each.
    pub name: &'static str,
    /// The capability that needs it most.
    pub capability: Capability,
    /// Whether it exists.
    pub state: State,
    /// The results of the probes, in words.
    pub seen: String,
    /// The costs of its absence. Empty if it exists.
    pub costs: Vec<CostFinding>,
    /// How to get it: a command or a setting. `None` if it exists or if there is no way.
    pub remedy: Option<String>,
}

impl Finding {
    pub(super) fn new(name: &'static str, capability: Capability, state: State, seen: impl Into<String>) -> Finding {
        Finding { name, capability, state, seen: seen.into(), costs: Vec::new(), remedy: None }
    }

    /// Adds a cost.
    pub(super) fn costs(mut self, capability: Capability, what: impl Into<String>) -> Finding {
        self.costs.push(CostFinding { capability, what: what.into() });
        self
    }

    /// Sets the way to get what is missing.
    pub(super) fn remedy(mut self, how: impl Into<String>) -> Finding {
        self.remedy = Some(how.into());
        self
    }
}

/// All findings about a machine. `Display` writes a text for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorReport {
    /// The machine.
    pub machine: Machine,
    /// The user's privileges.
    pub privileges: Privileges,
    /// The findings, by capability, the worst first.
    pub findings: Vec<Finding>,
}
