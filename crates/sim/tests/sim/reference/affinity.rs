//! The CPUs on which each thread may run.

use scenario::{Machine, Setting};

use crate::reference::world::{Cpu, Thread};

/// For each thread, whether it may run on each CPU.
pub(crate) struct Affinity(Vec<Vec<bool>>);

impl Affinity {
    pub(crate) fn new(machine: &Machine, setting: &Setting) -> Affinity {
        let mut threads = Vec::new();
        for (_, job) in setting.jobs_with_copies() {
            let listed = |cpu: u32| job.attributes.cpus.as_ref().is_some_and(|set| set.contains(policy::CpuId(cpu)));
            let is_bound = (0..machine.cpus).any(listed);
            let allowed: Vec<bool> = (0..machine.cpus).map(|cpu| !is_bound || listed(cpu)).collect();
            for _ in 0..job.kind.threads(machine.cpus) {
                threads.push(allowed.clone());
            }
        }
        Affinity(threads)
    }

    pub(crate) fn is_allowed(&self, thread: Thread, cpu: Cpu) -> bool {
        self.0[thread][cpu]
    }
}
