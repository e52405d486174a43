//! The occupancy of CPUs, for kernels with a queue for each CPU.
//!
//! It tells which CPUs have no thread, which has the fewest threads, and which has the longest
//! queue to take one from. A scheduler may count weights instead of threads. It notes every change,
//! so that it never has to look at all CPUs.

use policy::{CpuId, CpuSet};

use crate::engine::winner::{Key, WinnerTree};
use crate::kernels::domains::Domains;

/// The occupancy of all CPUs. Initially no CPU has a thread.
#[derive(Clone, Debug)]
pub(crate) struct Occupancy {
    cpus: u32,
    /// The CPUs without a thread.
    pub(crate) free: CpuSet,
    /// The CPUs by the number of threads.
    fewest: WinnerTree<u64>,
    /// The CPUs by the number of waiting threads, the largest first. CPUs without any have no key.
    longest: WinnerTree<u64>,
}

impl Occupancy {
    pub(crate) fn new(cpus: usize) -> Occupancy {
        let mut fewest = WinnerTree::new(cpus);
        (0..cpus).for_each(|cpu| fewest.set(cpu, 0));
        let free = crate::cpu_ids(cpus).collect();
        Occupancy { cpus: cpus as u32, free, fewest, longest: WinnerTree::new(cpus) }
    }

    /// Notes the number of threads of a CPU, and how many of them wait behind the running one.
    pub(crate) fn note(&mut self, cpu: CpuId, threads: usize, waiting: usize) {
        if threads == 0 {
            self.free.insert(cpu);
        } else {
            self.free.remove(cpu);
        }
        self.fewest.set(cpu.index(), threads as u64);
        self.longest.set(cpu.index(), if waiting == 0 { u64::NEVER } else { u64::NEVER - waiting as u64 });
    }

    /// The CPU of `allowed` with the fewest threads; of equal ones, the lowest.
    pub(crate) fn emptiest(&self, allowed: Option<&CpuSet>) -> CpuId {
        let all = || CpuId(self.fewest.winner().0 as u32);
        let Some(allowed) = allowed else { return all() };
        let there = allowed.iter().filter(|cpu| cpu.0 < self.cpus);
        there.min_by_key(|cpu| self.fewest.key(cpu.index())).unwrap_or_else(all)
    }

    /// The CPU of `allowed` with the fewest threads in the core with the fewest threads in the node
    /// with the fewest threads; of equal ones, the lowest. The same as [`Occupancy::emptiest`] if
    /// the domains are flat.
    pub(crate) fn emptiest_by_levels(&self, domains: &Domains, allowed: Option<&CpuSet>) -> CpuId {
        if domains.is_flat() {
            return self.emptiest(allowed);
        }
        let may = |cpu: &u32| allowed.is_none_or(|set| set.contains(CpuId(*cpu)));
        let threads =
            |first: u32, count: u32| -> u64 { (first..first + count).map(|cpu| self.fewest.key(cpu as usize)).sum() };
        let mut among = 0..self.cpus;
        for level in domains.levels().iter().rev() {
            let groups = among.clone().step_by(level.group as usize);
            let groups = groups.filter(|&first| (first..first + level.group).any(|cpu| may(&cpu)));
            let Some(first) = groups.min_by_key(|&first| threads(first, level.group)) else { break };
            among = first..first + level.group;
        }
        CpuId(among.start)
    }

    /// The CPU with the most waiting threads among some; of equal ones, the first.
    pub(crate) fn longest_among(&self, cpus: impl Iterator<Item = CpuId>) -> Option<CpuId> {
        let key = |cpu: &CpuId| self.longest.key(cpu.index());
        cpus.filter(|cpu| key(cpu) != u64::NEVER).min_by_key(key)
    }

    /// The other CPU with the most waiting threads; of equal ones, the next after `cpu`,
    /// cyclically.
    pub(crate) fn longest_after(&self, cpu: CpuId) -> Option<CpuId> {
        let (longest, key) = self.longest.winner_after(cpu.index());
        (key != u64::NEVER).then_some(CpuId(longest as u32))
    }

    /// Ignores the waiting threads of a CPU until they are noted again.
    pub(crate) fn pass_over(&mut self, cpu: CpuId) {
        self.longest.set(cpu.index(), u64::NEVER);
    }

    /// All other CPUs with waiting threads, in that order.
    pub(crate) fn all_longest_after(&self, cpu: CpuId) -> impl Iterator<Item = CpuId> {
        let key = |cpu: &u32| self.longest.key(*cpu as usize);
        let around = (1..self.cpus).map(|offset| (cpu.0 + offset) % self.cpus);
        let mut loaded: Vec<u32> = around.filter(|cpu| key(cpu) != u64::NEVER).collect();
        loaded.sort_by_key(key);
        loaded.into_iter().map(CpuId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_occupancy_agrees_with_a_scan_of_all_cpus(
            cpus in 1_usize..140,
            changes in prop::collection::vec((0_usize..140, 0_usize..4), 0..60),
            from in 0_u32..140,
            allowed in prop::option::of(prop::collection::vec(0_u32..140, 1..9)),
        ) {
            let mut occupancy = Occupancy::new(cpus);
            let mut threads = vec![0; cpus];
            for (cpu, count) in changes {
                threads[cpu % cpus] = count;
                occupancy.note(CpuId((cpu % cpus) as u32), count, count.saturating_sub(1));
            }
            let from = from % cpus as u32;
            let allowed: Option<CpuSet> = allowed.map(|list| list.into_iter().map(CpuId).collect());
            let may = |cpu: &u32| allowed.as_ref().is_none_or(|set| set.contains(CpuId(*cpu)));
            let mut around = (0..cpus as u32).map(|offset| (from + offset) % cpus as u32);
            let free = around.find(|cpu| may(cpu) && threads[*cpu as usize] == 0);
            prop_assert_eq!(occupancy.free.first_from(CpuId(from), allowed.as_ref()).map(|cpu| cpu.0), free);
            let emptiest = (0..cpus as u32).filter(may).min_by_key(|cpu| threads[*cpu as usize]);
            prop_assert!(emptiest.is_none_or(|cpu| occupancy.emptiest(allowed.as_ref()) == CpuId(cpu)));
            let others = (1..cpus as u32).map(|offset| (from + offset) % cpus as u32);
            let loaded = others.filter(|cpu| threads[*cpu as usize] > 1).rev().max_by_key(|cpu| threads[*cpu as usize]);
            prop_assert_eq!(occupancy.longest_after(CpuId(from)).map(|cpu| cpu.0), loaded);
            prop_assert_eq!(occupancy.all_longest_after(CpuId(from)).next().map(|cpu| cpu.0), loaded);
        }
    }
}
