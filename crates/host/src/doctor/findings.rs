//! The types of what the doctor finds.

use serde::Serialize;

use super::probes::Privileges;
use crate::machine::Machine;

/// What rowlock does, and what a machine may make harder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// Barriers and locks that spin, yield or block.
    Waiting,
    /// Running scenarios on this machine, and measuring what it costs.
    Runs,
    /// Seeing what the kernel did during a run.
    Inspection,
    /// Priorities, timeslices and groups: what it takes to favour some threads over others.
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

/// Whether something is as rowlock would like it; the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It is missing.
    No,
    /// Some of it is there.
    Partly,
    /// It cannot be told.
    Unknown,
    /// It is there.
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

/// What something that is missing makes harder or impossible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CostFinding {
    /// What rowlock does worse.
    pub capability: Capability,
    /// How it does worse, in a sentence.
    pub what: String,
}

/// One thing that a machine may allow or lack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its name, which stays the same from version to version; docs/doctor.md says what each means.
    pub name: &'static str,
    /// What needs it most.
    pub capability: Capability,
    /// Whether it is there.
    pub state: State,
    /// What was seen.
    pub seen: String,
    /// What it costs that it is not there; none where it is.
    pub costs: Vec<CostFinding>,
    /// How to get it: a command or a setting; nothing where it is there or where nothing helps.
    pub remedy: Option<String>,
}

impl Finding {
    pub(super) fn new(name: &'static str, capability: Capability, state: State, seen: impl Into<String>) -> Finding {
        Finding { name, capability, state, seen: seen.into(), costs: Vec::new(), remedy: None }
    }

    /// The same, with what it costs.
    pub(super) fn costs(mut self, capability: Capability, what: impl Into<String>) -> Finding {
        self.costs.push(CostFinding { capability, what: what.into() });
        self
    }

    /// The same, with how to get what is missing.
    pub(super) fn remedy(mut self, how: impl Into<String>) -> Finding {
        self.remedy = Some(how.into());
        self
    }
}

/// All findings about a machine. Printed, it is a text for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorReport {
    /// The machine.
    pub machine: Machine,
    /// Who asked.
    pub privileges: Privileges,
    /// What was found: by capability, and the worst first.
    pub findings: Vec<Finding>,
}
