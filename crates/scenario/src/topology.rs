//! The topology of a machine: nodes, cores and hardware threads.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use policy::CpuId;

use crate::keys::MOST_CPUS;

/// How many nodes a machine has, how many cores each node, and how many hardware threads each core.
/// Written as in `"2x8x2"`. A hardware thread is a CPU. The CPUs of a core have consecutive
/// numbers, and so have the cores of a node. The cores of a node share their last cache, and the
/// threads of a core all caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    nodes: u32,
    cores: u32,
    threads: u32,
}

impl Topology {
    /// One node, whose cores have one thread each: at least one core.
    pub const fn flat(cpus: u32) -> Topology {
        Topology { nodes: 1, cores: if cpus == 0 { 1 } else { cpus }, threads: 1 }
    }

    /// Returns `None` if a number is zero or there are more CPUs together than a machine may have.
    pub fn new(nodes: u32, cores: u32, threads: u32) -> Option<Topology> {
        let cpus = u64::from(nodes).checked_mul(cores.into())?.checked_mul(threads.into())?;
        (1..=u64::from(MOST_CPUS)).contains(&cpus).then_some(Topology { nodes, cores, threads })
    }

    /// The number of CPUs.
    pub const fn cpus(self) -> u32 {
        self.nodes * self.cores * self.threads
    }

    /// The number of CPUs of a core.
    pub const fn cpus_of_core(self) -> u32 {
        self.threads
    }

    /// The number of CPUs of a node.
    pub const fn cpus_of_node(self) -> u32 {
        self.cores * self.threads
    }

    /// The CPUs of the core of a CPU.
    pub const fn core(self, cpu: CpuId) -> Range<u32> {
        around(cpu, self.cpus_of_core())
    }

    /// The CPUs of the node of a CPU.
    pub const fn node(self, cpu: CpuId) -> Range<u32> {
        around(cpu, self.cpus_of_node())
    }
}

/// The group of a CPU, if `size` CPUs are one each.
const fn around(cpu: CpuId, size: u32) -> Range<u32> {
    let first = cpu.0 / size * size;
    first..first + size
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}x{}x{}", self.nodes, self.cores, self.threads))
    }
}

/// The reason why a text is not a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a topology is nodes, cores of a node and threads of a core, as in `2x8x2`, at most {MOST_CPUS} CPUs together")]
pub struct ParseTopologyError;

impl FromStr for Topology {
    type Err = ParseTopologyError;

    fn from_str(text: &str) -> Result<Topology, ParseTopologyError> {
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        let numbers: Option<Vec<u32>> = text.split('x').map(number).collect();
        match numbers.as_deref() {
            Some(&[nodes, cores, threads]) => Topology::new(nodes, cores, threads).ok_or(ParseTopologyError),
            _ => Err(ParseTopologyError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_of_a_core_and_cores_of_a_node_are_consecutive() {
        let topology: Topology = "2x3x2".parse().unwrap();
        assert_eq!((topology.cpus(), topology.to_string()), (12, "2x3x2".to_owned()));
        assert_eq!((topology.core(CpuId(7)), topology.node(CpuId(7))), (6..8, 6..12));
        assert_eq!((topology.core(CpuId(5)), topology.node(CpuId(5))), (4..6, 0..6));
        let flat = Topology::flat(5);
        assert_eq!((flat.core(CpuId(3)), flat.node(CpuId(3))), (3..4, 0..5));
    }

    #[test]
    fn a_topology_has_three_numbers_above_zero_and_not_too_many_cpus() {
        for text in ["", "8", "2x8", "2x8x0", "2x8x2x1", "2x-8x2", "2x8x+2", "2 x8x2", "2x64x65", "4294967296x1x1"] {
            assert_eq!(text.parse::<Topology>(), Err(ParseTopologyError), "{text}");
        }
        assert_eq!("2x64x64".parse().map(Topology::cpus), Ok(8_192));
    }
}
