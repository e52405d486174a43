//! What this machine allows a program that wants to schedule well, what is missing, what that costs, and how to get it.
//!
//! Looking and judging are apart: [`Probes::take`] looks, and changes nothing; [`examine`] judges what was seen, a pure
//! function, so that tests can judge machines that they have made up.

mod cgroups;
mod control;
mod inspection;
mod kernel;
mod probes;
mod runs;
mod text;
mod waiting;

pub use cgroups::{Cgroups, Controller, Quota};
pub use kernel::{Kernel, Preemption};
pub use probes::{Machinery, Perf, Privileges, Probes, Trial};

use serde::Serialize;

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
    const ALL: [Capability; 4] = [Capability::Waiting, Capability::Runs, Capability::Inspection, Capability::Control];

    const fn word(self) -> &'static str {
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
    const fn word(self) -> &'static str {
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
pub struct Cost {
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
    pub costs: Vec<Cost>,
    /// How to get it: a command or a setting; nothing where it is there or where nothing helps.
    pub remedy: Option<String>,
}

impl Finding {
    fn new(name: &'static str, capability: Capability, state: State, seen: impl Into<String>) -> Finding {
        Finding { name, capability, state, seen: seen.into(), costs: Vec::new(), remedy: None }
    }

    /// The same, with what it costs.
    fn costs(mut self, capability: Capability, what: impl Into<String>) -> Finding {
        self.costs.push(Cost { capability, what: what.into() });
        self
    }

    /// The same, with how to get what is missing.
    fn remedy(mut self, how: impl Into<String>) -> Finding {
        self.remedy = Some(how.into());
        self
    }
}

/// All findings about a machine. Printed, it is a text for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// Who asked.
    pub privileges: Privileges,
    /// What was found: by capability, and the worst first.
    pub findings: Vec<Finding>,
}

/// Judges what was seen.
pub fn examine(probes: &Probes) -> Report {
    let findings = [waiting::findings, runs::findings, inspection::findings, control::findings];
    let mut findings: Vec<Finding> = findings.iter().flat_map(|findings| findings(probes)).collect();
    findings.sort_by_key(|finding| (finding.capability, finding.state));
    Report { machine: probes.machine.clone(), privileges: probes.privileges.clone(), findings }
}

#[cfg(test)]
mod tests;
