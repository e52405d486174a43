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
    /// The time in `init` and `cleanup`.
    pub(crate) setup: Counter,
    /// The start of the current call on the run's clock, plus one. 0 between calls and in untimed
    /// calls.
    pub(crate) since: Counter,
}

/// How many buffers were taken from a queue, and how many others waited there then, in total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Takes {
    taken: u64,
    left: u64,
}

impl Takes {
    /// From how often a buffer was taken with 0, 1, 2, ... others.
    pub(crate) fn of(depths: &[u64]) -> Takes {
        let left = depths.iter().zip(0..).map(|(&count, depth): (&u64, u64)| count * depth);
        Takes { taken: depths.iter().sum(), left: left.sum() }
    }

    pub(crate) fn since(self, before: Takes) -> Takes {
        Takes { taken: self.taken.saturating_sub(before.taken), left: self.left.saturating_sub(before.left) }
    }

    /// How many others waited on average. `None` if no buffer was taken.
    pub(crate) fn mean_left(self) -> Option<f64> {
        (self.taken > 0).then(|| self.left as f64 / self.taken as f64)
    }

    /// The same in thousandths of all `buffers`. Zero if either is unknown.
    pub(crate) fn queued(self, buffers: usize) -> u32 {
        let left = self.mean_left().filter(|_| buffers > 0);
        left.map_or(0.0, |left| left * 1000.0 / buffers as f64).min(1000.0) as u32
    }
}

impl Counters {
    /// The total time in calls, estimated from the timed ones, and in `init` and `cleanup`.
    pub(crate) fn busy(&self) -> u64 {
        let (calls, timed_calls) = (self.calls.get(), self.timed_calls.get());
        let in_calls = match timed_calls {
            0 => 0,
            _ if timed_calls >= calls => self.timed.get(),
            _ => (u128::from(self.timed.get()) * u128::from(calls) / u128::from(timed_calls)) as u64,
        };
        in_calls + self.setup.get()
    }

    /// Calls `init` or `cleanup`, and adds its time. `now` reads the run's clock.
    pub(crate) fn time_setup<V>(&self, now: impl Fn() -> u64, setup: impl FnOnce() -> V) -> V {
        let from = now();
        self.since.set(from + 1);
        let value = setup();
        self.since.set(0);
        self.setup.add(now().saturating_sub(from));
        value
    }

    /// Records that `taken` buffers were taken one by one, and that `left` remained after the last.
    #[inline]
    pub(crate) fn record_depths(&self, left: usize, taken: usize) {
        (left..left + taken).for_each(|depth| self.depths.0[depth.min(DEPTHS - 1)].add(1));
    }
}
