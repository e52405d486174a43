//! The load of the machine over time: how many threads are runnable, and how many exist.

use policy::Instant;

use super::EffectiveLoad;
use super::timeline::Buckets;

/// Counts the threads of a run.
#[derive(Clone, Debug)]
pub(super) struct Load {
    cpus: u32,
    /// Runnable threads, and all threads.
    counts: [u32; 2],
    since: Instant,
    buckets: Buckets<2>,
}

impl Load {
    pub(super) fn new(cpus: u32) -> Load {
        Load { cpus, counts: [0; 2], since: Instant::ZERO, buckets: Buckets::new() }
    }

    /// Changes the numbers of runnable threads and of all threads.
    pub(super) fn change(&mut self, at: Instant, by: [i32; 2]) {
        self.buckets.add(self.since, at, &self.counts);
        self.since = at;
        for (count, by) in self.counts.iter_mut().zip(by) {
            *count = count.saturating_add_signed(by);
        }
    }

    /// The load up to the end of the run.
    pub(super) fn finish(mut self, end: Instant) -> EffectiveLoad {
        self.change(end, [0; 2]);
        EffectiveLoad { cpus: self.cpus, runnable: self.buckets.level(end, 0), all: self.buckets.level(end, 1) }
    }
}
