//! Perf events: counters that the kernel keeps per thread and CPU. This module tells which exist.
//! [`switches`] has the records that the kernel writes at context switches.

mod event;
mod ring;
pub mod switches;

use std::io;

use event::{ANY, Attributes, DISABLED, EXCLUDE_HYPERVISOR, EXCLUDE_KERNEL, THIS_THREAD, open};

/// A counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Context switches of a thread of this process, counted by the kernel.
    OwnSwitches,
    /// Cycles of a thread of this process in user mode, counted by the processor.
    OwnCycles,
    /// Context switches on one CPU, of any thread.
    SwitchesOfCpu(u32),
}

const HARDWARE: u32 = 0;
const CPU_CYCLES: u64 = 0;
const CONTEXT_SWITCHES: u64 = 3;

/// Checks whether the kernel would count this for the calling thread. Nothing is counted. Returns
/// the reason of the kernel if it would not.
pub fn probe(counter: Counter) -> io::Result<()> {
    let cpu_number = |cpu: u32| cpu.try_into().map_err(|_| io::Error::from(io::ErrorKind::NotFound));
    let (kind, config, exclude, thread, cpu) = match counter {
        Counter::OwnSwitches => (event::SOFTWARE, CONTEXT_SWITCHES, 0, THIS_THREAD, ANY),
        Counter::OwnCycles => (HARDWARE, CPU_CYCLES, EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR, THIS_THREAD, ANY),
        Counter::SwitchesOfCpu(cpu) => (event::SOFTWARE, CONTEXT_SWITCHES, 0, ANY, cpu_number(cpu)?),
    };
    open(Attributes { kind, config, flags: DISABLED | exclude, ..Attributes::default() }, thread, cpu).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_on_a_missing_cpu_fails() {
        for cpu in [1_000_000, u32::MAX] {
            probe(Counter::SwitchesOfCpu(cpu)).unwrap_err();
        }
    }

    #[test]
    fn probing_leaves_no_file_open() {
        let files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        // Other tests open files meanwhile, but not so many.
        let before = files();
        for _ in 0..200 {
            for counter in [Counter::OwnSwitches, Counter::OwnCycles, Counter::SwitchesOfCpu(0)] {
                let _ = probe(counter);
            }
        }
        assert!(files() < before + 100);
    }
}
