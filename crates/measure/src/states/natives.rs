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
    count: u32,
    since: Instant,
    buckets: Buckets<1>,
    /// For each CPU that was ever native: since when it is native, and the times that it was.
    set: Vec<Option<Box<(Instant, Buckets<1>)>>>,
}

impl NativeCpuTracker {
    pub(super) fn new(threads: usize) -> NativeCpuTracker {
        NativeCpuTracker {
            last: vec![None; threads],
            threads: Vec::new(),
            count: 0,
            since: Instant::ZERO,
            buckets: Buckets::new(),
            set: Vec::new(),
        }
    }

    /// Records that a thread runs on a CPU from now on.
    pub(super) fn record_run(&mut self, at: Instant, thread: usize, cpu: CpuId) {
        let before = self.last[thread].replace(cpu);
        if before == Some(cpu) {
            return;
        }
        self.buckets.add(self.since, at, &[self.count]);
        self.since = at;
        if let Some(before) = before {
            self.threads[before.index()] -= 1;
            if self.threads[before.index()] == 0 {
                self.count -= 1;
                self.remove(at, before);
            }
        }
        if self.threads.len() <= cpu.index() {
            self.threads.resize(cpu.index() + 1, 0);
        }
        if self.threads[cpu.index()] == 0 {
            self.count += 1;
            self.add(at, cpu);
        }
        self.threads[cpu.index()] += 1;
    }

    fn add(&mut self, at: Instant, cpu: CpuId) {
        if self.set.len() <= cpu.index() {
            self.set.resize(cpu.index() + 1, None);
        }
        match &mut self.set[cpu.index()] {
            Some(known) => known.0 = at,
            new if cpu.index() < MOST_CPUS => *new = Some(Box::new((at, Buckets::new()))),
            _ => (),
        }
    }

    fn remove(&mut self, at: Instant, cpu: CpuId) {
        if let Some(known) = &mut self.set[cpu.index()] {
            let (since, buckets) = &mut **known;
            buckets.add(*since, at, &[1]);
        }
    }

    /// The native CPUs up to the end of the run.
    pub(super) fn finish(mut self, end: Instant) -> NativeCpus {
        self.buckets.add(self.since, end, &[self.count]);
        for cpu in 0..self.threads.len() {
            if self.threads[cpu] > 0 {
                self.remove(end, CpuId(cpu as u32));
            }
        }
        let levels = self.set.iter_mut().enumerate().filter_map(|(cpu, known)| {
            let (_, buckets) = &mut **known.as_mut()?;
            // Extend the pieces to the end, even if the CPU is no longer native.
            buckets.add(Instant::ZERO, end, &[0]);
            Some((CpuId(cpu as u32), buckets.level(end, 0)))
        });
        let set: Vec<_> = levels.collect();
        let set = if self.threads.len() > MOST_CPUS { Vec::new() } else { set };
        NativeCpus { count: self.buckets.level(end, 0), set }
    }
}

#[cfg(test)]
mod tests {
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
        let spent = |level: &Level| {
            let pieces = level.means.iter().zip(level.edges.windows(2));
            pieces.map(|(mean, edges)| mean * (edges[1] - edges[0]) as f64).sum::<f64>().round() as u64
        };
        assert_eq!(spent(&count), 100 + 2 * 100 + 100);
        assert_eq!(count.mean(), 1.0);
        let each: Vec<_> = set.iter().map(|(cpu, level)| (cpu.0, spent(level))).collect();
        assert_eq!(each, [(3, 200), (5, 200)]);
    }
}
