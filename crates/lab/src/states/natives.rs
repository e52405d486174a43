//! The native CPUs of a job: those on which its threads last ran. Source: Tsafrir and Feitelson, section 4.1.

use policy::{CpuId, Instant};

use super::course::{Buckets, Level};

/// How many native CPUs a job has, over time.
#[derive(Clone, Debug)]
pub(super) struct Natives {
    /// Where each thread last ran.
    last: Vec<Option<CpuId>>,
    /// How many threads last ran on each CPU.
    threads: Vec<u32>,
    count: u32,
    since: Instant,
    buckets: Buckets<1>,
}

impl Natives {
    pub(super) fn new(threads: usize) -> Natives {
        Natives {
            last: vec![None; threads],
            threads: Vec::new(),
            count: 0,
            since: Instant::ZERO,
            buckets: Buckets::new(),
        }
    }

    /// A thread runs on a CPU from now on.
    pub(super) fn runs(&mut self, at: Instant, thread: usize, cpu: CpuId) {
        let before = self.last[thread].replace(cpu);
        if before == Some(cpu) {
            return;
        }
        self.buckets.add(self.since, at, &[self.count]);
        self.since = at;
        if let Some(before) = before {
            self.threads[before.index()] -= 1;
            self.count -= u32::from(self.threads[before.index()] == 0);
        }
        if self.threads.len() <= cpu.index() {
            self.threads.resize(cpu.index() + 1, 0);
        }
        self.count += u32::from(self.threads[cpu.index()] == 0);
        self.threads[cpu.index()] += 1;
    }

    /// How many there were, up to the end of the run.
    pub(super) fn level(mut self, end: Instant) -> Level {
        self.buckets.add(self.since, end, &[self.count]);
        self.buckets.level(end, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_native_as_long_as_a_thread_ran_nowhere_else_since() {
        let mut natives = Natives::new(2);
        let at = Instant::from_nanos;
        // Both on one CPU, then one of them goes over, then the other follows.
        for (now, thread, cpu) in [(100, 0, 3), (110, 1, 3), (200, 1, 5), (250, 1, 5), (300, 0, 5)] {
            natives.runs(at(now), thread, CpuId(cpu));
        }
        let level = natives.level(at(400));
        let pieces = level.means.iter().zip(level.edges.windows(2));
        let spent: f64 = pieces.map(|(mean, edges)| mean * (edges[1] - edges[0]) as f64).sum();
        assert_eq!(spent.round() as u64, 100 + 2 * 100 + 100);
        assert_eq!(level.mean(), 1.0);
    }
}
