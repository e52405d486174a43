//! The counters of each copy of a stage, which any thread may read at any time.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The number of queue depths that are counted separately. Deeper ones count as the deepest.
pub(crate) const DEPTHS: usize = 65;

/// A counter with one writer at a time, which avoids the cost of an atomic addition.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(more), Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// One counter for each depth of a queue.
#[derive(Debug)]
pub(crate) struct DepthCounters(pub(crate) [Counter; DEPTHS]);

impl Default for DepthCounters {
    fn default() -> DepthCounters {
        DepthCounters(std::array::from_fn(|_| Counter::default()))
    }
}

/// The counters of one copy of a stage. Times are in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) calls: Counter,
    /// Calls whose work was repeated, as a test.
    pub(crate) repeated: Counter,
    /// The number of timed calls, and their total time. Very short calls are timed only now and
    /// then, since reading the clock would take longer.
    pub(crate) timed_calls: Counter,
    pub(crate) timed: Counter,
    /// The filled bytes of all buffers that it passed on.
    pub(crate) bytes: Counter,
    /// How long its thread slept or yielded because there was no buffer.
    pub(crate) waited: Counter,
    /// How long buffers waited here for a worker.
    pub(crate) waited_for_worker: Counter,
    /// How often a buffer was taken from a queue with this many others.
    pub(crate) depths: DepthCounters,
    /// The start of the current call on the run's clock, plus one. 0 between calls and in untimed
    /// calls.
    pub(crate) since: Counter,
}

impl Counters {
    /// The total time in calls, estimated from the timed ones.
    pub(crate) fn busy(&self) -> u64 {
        let (calls, timed_calls) = (self.calls.get(), self.timed_calls.get());
        match timed_calls {
            0 => 0,
            _ if timed_calls >= calls => self.timed.get(),
            _ => (u128::from(self.timed.get()) * u128::from(calls) / u128::from(timed_calls)) as u64,
        }
    }

    /// Records that `taken` buffers were taken one by one, and that `left` remained after the last.
    #[inline]
    pub(crate) fn record_depths(&self, left: usize, taken: usize) {
        (left..left + taken).for_each(|depth| self.depths.0[depth.min(DEPTHS - 1)].add(1));
    }
}
