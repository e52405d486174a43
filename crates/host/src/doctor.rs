//! The doctor: what this machine allows, what it lacks, what that costs, and how to get it.
//!
//! [`Probes::take`] inspects the machine and changes nothing. [`examine`] is a pure function of the
//! probes, so that tests can examine invented machines.

mod cgroups;
mod control;
mod findings;
mod inspection;
mod kernel;
mod probes;
mod runs;
mod text;
mod waiting;

pub use cgroups::{Cgroups, Controller, Quota};
pub use findings::{Capability, CostFinding, DoctorReport, Finding, State};
pub use kernel::{Kernel, Preemption};
pub use probes::{Perf, Privileges, Probes, Trial, Virtualization};

/// Derives the findings from the probes.
pub fn examine(probes: &Probes) -> DoctorReport {
    let parts = [waiting::findings, runs::findings, inspection::findings, control::findings];
    let mut findings: Vec<Finding> = parts.iter().flat_map(|findings| findings(probes)).collect();
    findings.sort_by_key(|finding| (finding.capability, finding.state));
    DoctorReport { machine: probes.machine.clone(), privileges: probes.privileges.clone(), findings }
}

#[cfg(test)]
mod tests;
