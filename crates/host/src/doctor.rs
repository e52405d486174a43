//! The doctor: what this machine allows, what it lacks, what that costs, and how to get it.

mod cgroups;
mod control;
mod findings;
mod inspection;
mod kernel;
mod probes;
mod runs;
mod text;
mod waiting;

pub use findings::DoctorReport;

use crate::error::Error;

/// Examines this machine with the privileges of this process. Changes nothing.
///
/// # Errors
/// If the kernel does not report the allowed CPUs. Any other refusal is a finding.
pub fn examine() -> Result<DoctorReport, Error> {
    Ok(report(&probes::Probes::take()?))
}

/// Derives the findings from the probes.
fn report(probes: &probes::Probes) -> DoctorReport {
    let parts = [waiting::findings, runs::findings, inspection::findings, control::findings];
    let mut findings: Vec<_> = parts.iter().flat_map(|findings| findings(probes)).collect();
    findings.sort_by_key(|finding| (finding.capability, finding.state));
    DoctorReport { machine: probes.machine.clone(), privileges: probes.privileges.clone(), findings }
}

#[cfg(test)]
mod tests;
