//! The native CPUs of a job: those on which its threads last ran.
//!
//! Source: Tsafrir and Feitelson, section 4.1.

use policy::{CpuId, Instant};

use super::timeline::{Buckets, Level};

/// At most this many CPUs are tracked individually.
const MOST_CPUS: usize = 64;

/// The native CPUs of a job over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NativeCpus {
    /// The number of native CPUs.
    pub count: Level,
    /// For each CPU that was ever native, the share of the time that it was. Empty on a machine
    /// with more than 64 CPUs.
    pub set: Vec<(CpuId, Level)>,
}

/// Tracks the native CPUs of a job.
#[derive(Clone, Debug)]
pub(super) struct NativeCpuTracker {
    /// The CPU on which each thread last ran.
    last: Vec<Option<CpuId>>,
    /// The number of threads that last ran on each CPU.
    threads: Vec<u32>,
    count: Buckets<1>,
    /// For each CPU that was ever native, whether it is.
    set: Vec<Option<Box<Buckets<1>>>>,
}

impl NativeCpuTracker {
    pub(super) fn new(threads: usize) -> NativeCpuTracker {
        NativeCpuTracker { last: vec![None; threads], threads: Vec::new(), count: Buckets::new(), set: Vec::new() }
    }

    /// Records that a thread runs on a CPU from now on.
    pub(super) fn record_run(&mut self, at: Instant, thread: usize, cpu: CpuId) {
        let before = self.last[thread].replace(cpu);
        if before == Some(cpu) {
            return;
        }
        if let Some(before) = before {
            self.threads[before.index()] -= 1;
            if self.threads[before.index()] == 0 {
                self.set_native(at, before, false);
            }
        }
        if self.threads.len() <= cpu.index() {
            self.threads.resize(cpu.index() + 1, 0);
            self.set.resize(cpu.index() + 1, None);
        }
        self.threads[cpu.index()] += 1;
        if self.threads[cpu.index()] == 1 {
            self.set_native(at, cpu, true);
        }
    }

    fn set_native(&mut self, at: Instant, cpu: CpuId, is_native: bool) {
        self.count.change(at, |count| count[0] = if is_native { count[0] + 1 } else { count[0] - 1 });
        if cpu.index() < MOST_CPUS {
            let known = self.set[cpu.index()].get_or_insert_with(|| Box::new(Buckets::new()));
            known.change(at, |count| count[0] = is_native.into());
        }
    }

    /// The native CPUs up to the end of the run.
    pub(super) fn finish(mut self, end: Instant) -> NativeCpus {
        let known = self.set.iter_mut().enumerate().filter(|_| self.threads.len() <= MOST_CPUS);
        let level = |(cpu, known): (usize, &mut Option<Box<Buckets<1>>>)| {
            Some((CpuId(cpu as u32), known.as_mut()?.level(end, 0)))
        };
        NativeCpus { count: self.count.level(end, 0), set: known.filter_map(level).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::timeline::total;
    use super::*;

    #[test]
    fn a_cpu_is_native_until_all_threads_that_last_ran_there_have_run_elsewhere() {
        let mut natives = NativeCpuTracker::new(2);
        let at = Instant::from_nanos;
        // Both threads run on one CPU. Then one of them moves, and the other follows.
        for (now, thread, cpu) in [(100, 0, 3), (110, 1, 3), (200, 1, 5), (250, 1, 5), (300, 0, 5)] {
            natives.record_run(at(now), thread, CpuId(cpu));
        }
        let NativeCpus { count, set } = natives.finish(at(400));
        let spent = |level: &Level| total(&level.edges, &level.means).round() as u64;
        assert_eq!(spent(&count), 100 + 2 * 100 + 100);
        assert_eq!(count.mean(), 1.0);
        let each: Vec<_> = set.iter().map(|(cpu, level)| (cpu.0, spent(level))).collect();
        assert_eq!(each, [(3, 200), (5, 200)]);
    }
}
