//! What this machine allows a program that wants to schedule well, what is missing, what that costs, and how to get it.
//!
//! Looking and judging are apart: [`Probes::take`] looks, and changes nothing; [`examine`] judges what was seen, a pure
//! function, so that tests can judge machines that they have made up.

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

/// Judges what was seen.
pub fn examine(probes: &Probes) -> DoctorReport {
    let parts = [waiting::findings, runs::findings, inspection::findings, control::findings];
    let mut findings: Vec<Finding> = parts.iter().flat_map(|findings| findings(probes)).collect();
    findings.sort_by_key(|finding| (finding.capability, finding.state));
    DoctorReport { machine: probes.machine.clone(), privileges: probes.privileges.clone(), findings }
}

#[cfg(test)]
mod tests;
