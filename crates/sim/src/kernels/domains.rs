//! Scheduling domains: the sets of CPUs within which a CPU balances, from the smallest to the
//! largest.
//!
//! Source: `sd_init` in `kernel/sched/topology.c` of Linux 5.15 and 6.18, compared with the text in
//! trees of 5.15.100 and 6.18.2. The levels of a CPU are its core, its node, whose cores share the
//! last cache, and the machine. Each is divided into groups, which are its CPUs, cores and nodes. A
//! level with a single group does not exist (`sd_degenerate`).
//!
//! * **Counts**: a CPU without threads takes one only if the other group has at least two more than
//!   its own. That holds for each CPU with a waiting thread if every CPU is a group of its own. It
//!   takes from the group half of the difference (`sibling_imbalance`, `SD_PREFER_SIBLING`).
//! * **Crowded groups**: the same is true of a group in which no thread waits: its threads share a
//!   core or a node, while the CPU's own group has room. Only a running thread can be taken then
//!   (`need_active_balance`). The thread is that of the CPU with the most threads.
//! * **One NUMA node**: nodes differ in their caches only. Linux leaves two threads on one of two
//!   NUMA nodes, each with its own core (`adjust_numa_imbalance`), and here they part.
//!
//! Real kernels of emulated machines agree: `measure/src/states/spreading.rs`.

use std::ops::Range;

use policy::CpuId;
use scenario::Machine;

/// One level of domains. All domains of a level have the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    /// The number of CPUs of a domain.
    pub(crate) size: u32,
    /// The number of CPUs of each of its groups.
    pub(crate) group: u32,
    /// A load is larger than another if it is at least this percentage of it (`imbalance_pct`).
    pub(crate) imbalance_percent: u64,
    /// Hot threads are taken after more failures than this (`cache_nice_tries`).
    pub(crate) nice_tries: u32,
    /// Whether its CPUs share all caches (`SD_SHARE_CPUCAPACITY`).
    pub(crate) is_core: bool,
}

impl Level {
    /// The CPUs of the domain of a CPU.
    pub(crate) fn domain(self, cpu: CpuId) -> Range<u32> {
        around(cpu.0, self.size)
    }

    /// The CPUs of the group of a CPU.
    pub(crate) fn group(self, cpu: CpuId) -> Range<u32> {
        around(cpu.0, self.group)
    }

    /// The failed attempts after which a running thread is taken (`imbalanced_active_balance`).
    pub(crate) fn is_patience_over(self, failures: u32) -> bool {
        failures > self.nice_tries + 2
    }
}

fn around(cpu: u32, size: u32) -> Range<u32> {
    let first = cpu / size * size;
    first..first + size
}

/// The most levels.
pub(crate) const MOST_LEVELS: usize = 3;

/// The levels of a machine, and the CPUs of a core and of a node.
#[derive(Clone, Debug)]
pub(crate) struct Domains {
    cpus: u32,
    core: u32,
    node: u32,
    levels: Vec<Level>,
}

impl Domains {
    pub(crate) fn new(machine: &Machine) -> Domains {
        let topology = machine.topology();
        let (core, node, cpus) = (topology.cpus_of_core(), topology.cpus_of_node(), topology.cpus());
        let of_core = Level { size: core, group: 1, imbalance_percent: 110, nice_tries: 0, is_core: true };
        let of_node = Level { size: node, group: core, imbalance_percent: 117, nice_tries: 1, is_core: false };
        let of_machine = Level { size: cpus, group: node, imbalance_percent: 117, nice_tries: 2, is_core: false };
        let mut levels: Vec<Level> = vec![of_core, of_node, of_machine];
        levels.retain(|level| level.size > level.group);
        if levels.is_empty() {
            levels.push(of_node);
        }
        Domains { cpus, core, node, levels }
    }

    /// The levels, from the smallest to the largest: at least one.
    pub(crate) fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// Whether all CPUs are one domain, in which each is a group.
    #[inline]
    pub(crate) fn is_flat(&self) -> bool {
        self.levels.len() == 1
    }

    /// Whether cores have several CPUs.
    #[inline]
    pub(crate) fn has_siblings(&self) -> bool {
        self.core > 1
    }

    /// The number of CPUs that share the last cache (`sd_llc_size`).
    #[inline]
    pub(crate) fn cpus_of_node(&self) -> u32 {
        self.node
    }

    /// The CPUs of the core of a CPU.
    pub(crate) fn core(&self, cpu: CpuId) -> Range<u32> {
        around(cpu.0, self.core)
    }

    /// The CPUs of the node of a CPU.
    #[inline]
    pub(crate) fn node(&self, cpu: CpuId) -> Range<u32> {
        if self.node == self.cpus { 0..self.cpus } else { around(cpu.0, self.node) }
    }

    /// Whether two CPUs share the last cache (`cpus_share_cache`).
    #[inline]
    pub(crate) fn share_cache(&self, one: CpuId, other: CpuId) -> bool {
        self.node == self.cpus || one.0 / self.node == other.0 / self.node
    }

    /// The percentage by which the smallest domain of two CPUs tells loads apart.
    pub(crate) fn imbalance_percent(&self, one: CpuId, other: CpuId) -> u64 {
        let holds_both = |level: &&Level| level.domain(one).contains(&other.0);
        self.levels.iter().find(holds_both).map_or(117, |level| level.imbalance_percent)
    }
}

/// The others of some consecutive CPUs, cyclically from the one after `cpu`.
pub(crate) fn others(among: Range<u32>, cpu: CpuId) -> impl Iterator<Item = CpuId> {
    (cpu.0 + 1..among.end).chain(among.start..cpu.0).map(CpuId)
}

/// The number of threads of some CPUs.
pub(crate) fn threads_of(cpus: Range<u32>, threads: impl Fn(CpuId) -> usize) -> usize {
    cpus.map(|cpu| threads(CpuId(cpu))).sum()
}

/// By how many threads the group of `from` exceeds that of `cpu`, if by at least two.
pub(crate) fn excess(level: Level, from: CpuId, cpu: CpuId, threads: impl Fn(CpuId) -> usize) -> Option<usize> {
    let (more, fewer) = (threads_of(level.group(from), &threads), threads_of(level.group(cpu), &threads));
    more.checked_sub(fewer).filter(|&excess| excess >= 2)
}

/// The number of threads of the group of a CPU. The CPUs of a group that are asked for one after the
/// other are counted once.
fn threads_of_group(level: Level, threads: impl Fn(CpuId) -> usize) -> impl FnMut(CpuId) -> usize {
    let mut last = (u32::MAX, 0);
    move |cpu| {
        let group = level.group(cpu);
        if last.0 != group.start {
            last = (group.start, threads_of(group, &threads));
        }
        last.1
    }
}

/// Whether the group of a CPU [exceeds](excess) that of `cpu`, for CPUs that are asked for in order.
pub(crate) fn gives(level: Level, cpu: CpuId, threads: impl Fn(CpuId) -> usize) -> impl FnMut(&CpuId) -> bool {
    let own = threads_of(level.group(cpu), &threads);
    let mut of_group = threads_of_group(level, threads);
    move |from| of_group(*from) >= own + 2
}

/// The CPU with the most threads of the group with the most threads, if these are at least two more
/// than in the group of `cpu`, which has none. Of equal groups and CPUs, the first after `cpu`.
/// `None` if each CPU is a group.
pub(crate) fn crowded(level: Level, cpu: CpuId, threads: impl Fn(CpuId) -> usize) -> Option<CpuId> {
    if level.group == 1 {
        return None;
    }
    let own = level.group(cpu);
    let candidates = others(level.domain(cpu), cpu).filter(|other| !own.contains(&other.0));
    let mut of_group = threads_of_group(level, &threads);
    let counted = candidates.map(|cpu| ((of_group(cpu), threads(cpu)), cpu));
    let (_, most) = counted.reduce(|most, other| if other.0 > most.0 { other } else { most })?;
    excess(level, most, cpu, &threads).map(|_| most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domains(topology: &str) -> Domains {
        let topology: scenario::Topology = topology.parse().unwrap();
        Domains::new(&Machine { topology: Some(topology), ..Machine::with_cpus(topology.cpus()) })
    }

    #[test]
    fn levels_with_one_group_do_not_exist() {
        let sizes = |topology: &str| -> Vec<(u32, u32)> {
            domains(topology).levels().iter().map(|level| (level.size, level.group)).collect()
        };
        assert_eq!(sizes("2x4x2"), [(2, 1), (8, 2), (16, 8)]);
        assert_eq!(sizes("1x4x2"), [(2, 1), (8, 2)]);
        assert_eq!(sizes("2x1x2"), [(2, 1), (4, 2)]);
        assert_eq!(sizes("1x8x1"), [(8, 1)]);
        assert_eq!(sizes("1x1x1"), [(1, 1)]);
        assert!(domains("1x8x1").is_flat() && !domains("2x4x1").is_flat());
    }

    #[test]
    fn a_group_is_crowded_if_it_has_two_more_threads_than_the_own_one() {
        let level = domains("1x3x2").levels()[1];
        let crowded = |threads: [usize; 6]| crowded(level, CpuId(2), |cpu| threads[cpu.index()]).map(|cpu| cpu.0);
        assert_eq!(crowded([0, 1, 0, 0, 1, 0]), None);
        assert_eq!(crowded([1, 1, 0, 1, 1, 1]), None);
        assert_eq!(crowded([1, 1, 0, 0, 1, 1]), Some(4));
        assert_eq!(crowded([1, 2, 0, 1, 1, 1]), Some(1));
    }
}
