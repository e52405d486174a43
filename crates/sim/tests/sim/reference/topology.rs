//! Which CPUs are one core and one node, and the levels at which `cfs` and `eevdf` balance.

use scenario::Machine;

use crate::reference::world::Cpu;

#[derive(Clone)]
pub(crate) struct Topology {
    cpus: usize,
    of_core: usize,
    of_node: usize,
}

/// A level of domains, as at the head of `sim::kernels::domains`.
#[derive(Clone, Copy)]
pub(crate) struct Level {
    /// The number of CPUs of a domain, and of each of its groups.
    pub(crate) size: usize,
    pub(crate) group: usize,
    pub(crate) percent: i128,
    pub(crate) tries: u32,
}

impl Level {
    pub(crate) fn shares_all_caches(self) -> bool {
        self.percent == 110
    }

    fn are_one_group(self, one: Cpu, other: Cpu) -> bool {
        one / self.group == other / self.group
    }
}

impl Topology {
    pub(crate) fn new(machine: &Machine) -> Topology {
        let written = machine.topology.map(|topology| topology.to_string());
        let numbers = written.unwrap_or(format!("1x{}x1", machine.cpus));
        let numbers: Vec<usize> = numbers.split('x').map(|number| number.parse().unwrap()).collect();
        assert_eq!(numbers.iter().product::<usize>(), machine.cpus as usize);
        Topology { cpus: machine.cpus as usize, of_core: numbers[2], of_node: numbers[1] * numbers[2] }
    }

    pub(crate) fn has_siblings(&self) -> bool {
        self.of_core > 1
    }

    pub(crate) fn cpus_of_node(&self) -> usize {
        self.of_node
    }

    pub(crate) fn are_one_core(&self, one: Cpu, other: Cpu) -> bool {
        one / self.of_core == other / self.of_core
    }

    pub(crate) fn are_one_node(&self, one: Cpu, other: Cpu) -> bool {
        one / self.of_node == other / self.of_node
    }

    pub(crate) fn core(&self, cpu: Cpu) -> Vec<Cpu> {
        (0..self.cpus).filter(|&other| self.are_one_core(cpu, other)).collect()
    }

    pub(crate) fn node(&self, cpu: Cpu) -> Vec<Cpu> {
        (0..self.cpus).filter(|&other| self.are_one_node(cpu, other)).collect()
    }

    pub(crate) fn levels(&self) -> Vec<Level> {
        let core = Level { size: self.of_core, group: 1, percent: 110, tries: 0 };
        let node = Level { size: self.of_node, group: self.of_core, percent: 117, tries: 1 };
        let machine = Level { size: self.cpus, group: self.of_node, percent: 117, tries: 2 };
        let mut levels = Vec::new();
        for level in [core, node, machine] {
            if level.size > level.group {
                levels.push(level);
            }
        }
        if levels.is_empty() {
            levels.push(node);
        }
        levels
    }

    /// Whether there is more than one level.
    pub(crate) fn has_levels(&self) -> bool {
        self.levels().len() > 1
    }

    /// The CPUs of the domain of a CPU.
    pub(crate) fn domain(&self, level: Level, cpu: Cpu) -> Vec<Cpu> {
        (0..self.cpus).filter(|&other| other / level.size == cpu / level.size).collect()
    }

    /// The other CPUs of its domain, from the one after it on, cyclically.
    pub(crate) fn others(&self, level: Level, cpu: Cpu) -> Vec<Cpu> {
        let all = (1..self.cpus).map(|offset| (cpu + offset) % self.cpus);
        all.filter(|&other| other / level.size == cpu / level.size).collect()
    }

    /// The threads of the group of a CPU.
    fn in_group(&self, level: Level, cpu: Cpu, threads: &dyn Fn(Cpu) -> usize) -> usize {
        (0..self.cpus).filter(|&other| level.are_one_group(cpu, other)).map(threads).sum()
    }

    /// By how many threads the group of a CPU exceeds that of another one: at least two, or zero.
    pub(crate) fn excess(&self, level: Level, from: Cpu, to: Cpu, threads: &dyn Fn(Cpu) -> usize) -> usize {
        let more = self.in_group(level, from, threads);
        let excess = more.saturating_sub(self.in_group(level, to, threads));
        if excess >= 2 { excess } else { 0 }
    }

    /// The CPU with the most threads in the group with the most, if that is crowded.
    pub(crate) fn crowded(&self, level: Level, cpu: Cpu, threads: &dyn Fn(Cpu) -> usize) -> Option<Cpu> {
        if level.group == 1 {
            return None;
        }
        let mut most: Option<Cpu> = None;
        for other in self.others(level, cpu) {
            let key = |cpu| (self.in_group(level, cpu, threads), threads(cpu));
            if !level.are_one_group(cpu, other) && most.is_none_or(|most| key(other) > key(most)) {
                most = Some(other);
            }
        }
        most.filter(|&most| self.excess(level, most, cpu, threads) > 0)
    }

    /// The CPU for a new thread, of those on which it may run.
    pub(crate) fn emptiest(&self, allowed: Vec<Cpu>, load: &dyn Fn(Cpu) -> i128) -> Cpu {
        let sum = |cpus: Vec<Cpu>| -> i128 { cpus.into_iter().map(load).sum() };
        let key = |&cpu: &Cpu| {
            let (node, core) = (sum(self.node(cpu)), sum(self.core(cpu)));
            (node, cpu / self.of_node, core, cpu / self.of_core, load(cpu), cpu)
        };
        allowed.into_iter().min_by_key(key).unwrap()
    }
}
