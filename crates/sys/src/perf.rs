//! Perf events: counters that the kernel keeps per thread and CPU. This module tells which exist.

use std::io;
use std::mem::size_of;
use std::os::fd::{FromRawFd, OwnedFd};

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

/// The first version of `perf_event_attr`, which every kernel accepts.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config_1: u64,
}

const HARDWARE: u32 = 0;
const CPU_CYCLES: u64 = 0;
const SOFTWARE: u32 = 1;
const CONTEXT_SWITCHES: u64 = 3;
const DISABLED: u64 = 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// Checks whether the kernel would count this for the calling thread. Nothing is counted. Returns
/// the reason of the kernel if it would not.
pub fn probe(counter: Counter) -> io::Result<()> {
    const THIS_THREAD: libc::pid_t = 0;
    const ANY: libc::c_int = -1;
    let cpu_number = |cpu: u32| cpu.try_into().map_err(|_| io::Error::from(io::ErrorKind::NotFound));
    let (kind, config, exclude, pid, cpu) = match counter {
        Counter::OwnSwitches => (SOFTWARE, CONTEXT_SWITCHES, 0, THIS_THREAD, ANY),
        Counter::OwnCycles => (HARDWARE, CPU_CYCLES, EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR, THIS_THREAD, ANY),
        Counter::SwitchesOfCpu(cpu) => (SOFTWARE, CONTEXT_SWITCHES, 0, ANY, cpu_number(cpu)?),
    };
    let attributes = Attributes {
        kind,
        size: size_of::<Attributes>() as u32,
        config,
        flags: DISABLED | exclude,
        ..Attributes::default()
    };
    // SAFETY: the kernel reads as many bytes as `size` says, which exist, and may write that field.
    let opened =
        unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, pid, cpu, ANY, CLOSE_ON_EXEC) };
    let Ok(file @ 0..) = libc::c_int::try_from(opened) else { return Err(io::Error::last_os_error()) };
    // SAFETY: the kernel has just opened this file, and no other code knows the descriptor.
    drop(unsafe { OwnedFd::from_raw_fd(file) });
    Ok(())
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
