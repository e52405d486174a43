//! What each copy of a stage counts, to be read by others at any time.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The depths of queues that are counted apart; what is deeper counts as the deepest.
pub(crate) const DEPTHS: usize = 65;

/// A number that one thread at a time adds to, without the cost of an atomic addition.
#[derive(Debug, Default)]
pub(crate) struct Tally(AtomicU64);

impl Tally {
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

/// What one copy of a stage has done so far. Times are in nanoseconds.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) calls: Tally,
    /// Calls whose work was done once more, as a test.
    pub(crate) repeated: Tally,
    /// Calls whose time was taken, and their time. Of very short calls only some are timed, since looking at the clock would take longer.
    pub(crate) timed_calls: Tally,
    pub(crate) timed: Tally,
    /// What was in the buffers when they went on.
    pub(crate) bytes: Tally,
    /// How long its thread slept or looked for a buffer.
    pub(crate) waited: Tally,
    /// How long buffers waited before it until a worker came.
    pub(crate) waited_for_worker: Tally,
    /// How often the queue before it was so deep when a buffer was taken, that one not counted.
    pub(crate) depths: [Tally; DEPTHS],
    /// When the present call began, on the run's clock, plus one; 0 between calls and in calls that are not timed.
    pub(crate) since: Tally,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            calls: Tally::default(),
            repeated: Tally::default(),
            timed_calls: Tally::default(),
            timed: Tally::default(),
            bytes: Tally::default(),
            waited: Tally::default(),
            waited_for_worker: Tally::default(),
            depths: std::array::from_fn(|_| Tally::default()),
            since: Tally::default(),
        }
    }
}

impl Counters {
    /// The time in calls, reckoned from those that were timed.
    pub(crate) fn busy(&self) -> u64 {
        let (calls, timed_calls) = (self.calls.get(), self.timed_calls.get());
        match timed_calls {
            0 => 0,
            _ if timed_calls >= calls => self.timed.get(),
            _ => (u128::from(self.timed.get()) * u128::from(calls) / u128::from(timed_calls)) as u64,
        }
    }

    /// So many buffers were taken one after the other, the last of which left so many.
    #[inline]
    pub(crate) fn found_depths(&self, left: usize, taken: usize) {
        (left..left + taken).for_each(|depth| self.depths[depth.min(DEPTHS - 1)].add(1));
    }
}
