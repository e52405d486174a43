//! The doctor: what this machine allows, what it lacks, what that costs, and how to get it.

mod cgroups;
mod control;
mod findings;
mod inspection;
mod kernel;
mod messages;
mod probes;
mod runs;
mod text;
mod waiting;

pub use findings::DoctorReport;

use findings::Capability::{self, Control, Inspection, Messages, Runs, Waiting};
use findings::{Finding, Verdict};
use probes::Probes;

use crate::error::Error;

/// Judges one feature by the probes.
type Judge = fn(&Probes) -> Verdict;

/// Each feature with the capability that needs it most.
const FEATURES: [(&str, Capability, Judge); 23] = [
    ("futexes", Waiting, waiting::futexes),
    ("cpu-number", Waiting, waiting::cpu_number),
    ("several-cpus", Waiting, waiting::several_cpus),
    ("whole-cpus", Waiting, waiting::whole_cpus),
    ("short-tick", Waiting, waiting::short_tick),
    ("kernel-preemption", Waiting, waiting::kernel_preemption),
    ("bare-metal", Runs, runs::bare_metal),
    ("outside-containers", Runs, runs::outside_containers),
    ("one-session", Runs, runs::one_session),
    ("simulated-scheduler", Runs, runs::simulated_scheduler),
    ("memory-reads", Messages, messages::memory_reads),
    ("pmix", Messages, messages::pmix),
    ("tracefs", Inspection, inspection::tracefs),
    ("perf", Inspection, inspection::perf),
    ("run-delay", Inspection, inspection::run_delay),
    ("pressure", Inspection, inspection::pressure),
    ("nice", Control, control::nice),
    ("real-time", Control, control::real_time),
    ("timeslice", Control, control::timeslice),
    ("cgroups", Control, control::cgroups),
    ("job-stops", Control, control::job_stops),
    ("job-lowering", Control, control::job_lowering),
    ("sched-ext", Control, control::sched_ext),
];

/// Examines this machine with the privileges of this process. Leaves nothing changed.
///
/// # Errors
/// If the kernel does not report the allowed CPUs. Any other refusal is a finding.
pub fn examine() -> Result<DoctorReport, Error> {
    Ok(report(&Probes::take()?))
}

/// Derives the findings from the probes.
fn report(probes: &Probes) -> DoctorReport {
    let findings =
        FEATURES.iter().map(|&(name, capability, judge)| Finding { name, capability, verdict: judge(probes) });
    let mut findings: Vec<Finding> = findings.collect();
    findings.sort_by_key(|finding| (finding.capability, finding.verdict.state));
    DoctorReport { machine: probes.machine.clone(), privileges: probes.privileges.clone(), findings }
}

#[cfg(test)]
mod tests;
