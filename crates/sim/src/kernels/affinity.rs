//! Affinity: the CPUs on which threads may run.

use policy::{CpuId, CpuSet, ThreadId};
use scenario::Machine;

use crate::kernels::roster::Roster;

/// The CPUs on which each thread may run. A set with none or all of the machine's CPUs binds no
/// thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Affinity {
    /// The CPUs of each job's threads, if they are bound. Empty if no thread is bound.
    of_jobs: Vec<Option<CpuSet>>,
    /// The job of each thread. Empty if no thread is bound.
    job_of: Vec<u32>,
}

impl Affinity {
    pub(crate) fn new(machine: &Machine, roster: &Roster) -> Affinity {
        let there = |set: &CpuSet| set.iter().filter(|cpu| cpu.0 < machine.cpus).collect::<CpuSet>();
        let binds = |set: &CpuSet| (1..machine.cpus as usize).contains(&set.iter().count());
        let bound = roster.jobs().iter().map(|job| job.attributes.cpus.as_ref().map(there).filter(binds));
        let of_jobs: Vec<Option<CpuSet>> = bound.collect();
        if of_jobs.iter().all(Option::is_none) {
            return Affinity::default();
        }
        let threads = (0..roster.len() as u32).map(ThreadId);
        Affinity { of_jobs, job_of: threads.map(|thread| roster.job_of(thread) as u32).collect() }
    }

    /// Whether every thread may run everywhere.
    #[inline]
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.of_jobs.is_empty()
    }

    /// The CPUs that a thread is bound to. `None` if it may run everywhere.
    #[inline]
    pub(crate) fn of(&self, thread: ThreadId) -> Option<&CpuSet> {
        if self.is_unrestricted() { None } else { self.of_jobs[self.job_of[thread.index()] as usize].as_ref() }
    }

    #[inline]
    pub(crate) fn is_allowed(&self, thread: ThreadId, cpu: CpuId) -> bool {
        self.of(thread).is_none_or(|set| set.contains(cpu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::Attributes;

    #[test]
    fn a_set_with_none_or_all_of_the_cpus_binds_no_thread() {
        let mut roster = Roster::default();
        for cpus in ["0-3", "4,17", "0-9"] {
            roster.enter(1, Attributes { cpus: cpus.parse().ok(), ..Attributes::default() }, false);
        }
        assert!(Affinity::new(&Machine::with_cpus(4), &roster).is_unrestricted());
        roster.enter(2, Attributes { cpus: "2,7".parse().ok(), ..Attributes::default() }, false);
        let affinity = Affinity::new(&Machine::with_cpus(4), &roster);
        assert!(!affinity.is_unrestricted() && affinity.is_allowed(ThreadId(0), CpuId(3)));
        assert!(affinity.is_allowed(ThreadId(4), CpuId(2)) && !affinity.is_allowed(ThreadId(4), CpuId(3)));
    }
}
