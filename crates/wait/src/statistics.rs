//! Counters of waits.

use std::sync::atomic::Ordering::Relaxed;

use policy::Span;

use crate::sync::{self, AtomicU64};

/// Counts of the waits at an object so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// At a barrier the number of arrivals, including the last ones. Elsewhere the number of waits
    /// that did not succeed immediately, so that a thread that need not wait need not count.
    pub waits: u64,
    /// Waits in which the thread spun. The last arrival of a round does not wait, so it does not
    /// spin.
    pub spins: u64,
    /// Waits that ended while the thread was spinning.
    pub successful_spins: u64,
    /// Running time spent spinning.
    pub spin_time: Span,
    /// How often a thread yielded its CPU.
    pub yields: u64,
    /// How often a thread blocked.
    pub blocks: u64,
    /// Time from blocking to running again.
    pub block_time: Span,
    /// How often a thread migrated to another CPU.
    pub moves: u64,
    /// How often a thread found that yielding cost the team too much, and switched the team to
    /// another way of waiting.
    pub overload_marks: u64,
}

impl Statistics {
    /// The successful spin rate: successful spins over all spins, in percent. `None` without spins.
    pub fn ssr_percent(&self) -> Option<f64> {
        (self.spins > 0).then(|| 100.0 * self.successful_spins as f64 / self.spins as f64)
    }

    /// The sum of both. Each number saturates.
    #[must_use]
    pub fn plus(self, other: Statistics) -> Statistics {
        Statistics {
            waits: self.waits.saturating_add(other.waits),
            spins: self.spins.saturating_add(other.spins),
            successful_spins: self.successful_spins.saturating_add(other.successful_spins),
            spin_time: self.spin_time + other.spin_time,
            yields: self.yields.saturating_add(other.yields),
            blocks: self.blocks.saturating_add(other.blocks),
            block_time: self.block_time + other.block_time,
            moves: self.moves.saturating_add(other.moves),
            overload_marks: self.overload_marks.saturating_add(other.overload_marks),
        }
    }
}

/// Counts of one wait.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaitCounts {
    spun: bool,
    /// Whether its last action was a successful spin.
    succeeded: bool,
    spin_time: Span,
    pub(crate) yields: u64,
    pub(crate) blocks: u64,
    pub(crate) block_time: Span,
    pub(crate) moves: u64,
    pub(crate) overload_marks: u64,
}

impl WaitCounts {
    pub(crate) fn add_spin(&mut self, spent: Span, succeeded: bool) {
        self.spun = true;
        self.succeeded = succeeded;
        self.spin_time += spent;
    }
}

/// Counts of finished waits, of one party or of all threads at one object.
///
/// Several threads may add at the same time. It has no pointers, and is valid as zeros.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Counters {
    successful_spins: AtomicU64,
    failed_spins: AtomicU64,
    spin_nanos: AtomicU64,
    yields: AtomicU64,
    blocks: AtomicU64,
    block_nanos: AtomicU64,
    moves: AtomicU64,
    overload_marks: AtomicU64,
}

impl Counters {
    sync::const_fn! {
        /// All zero.
        pub fn new() -> Counters {
            Counters {
                successful_spins: AtomicU64::new(0),
                failed_spins: AtomicU64::new(0),
                spin_nanos: AtomicU64::new(0),
                yields: AtomicU64::new(0),
                blocks: AtomicU64::new(0),
                block_nanos: AtomicU64::new(0),
                moves: AtomicU64::new(0),
                overload_marks: AtomicU64::new(0),
            }
        }
    }

    /// Adds counts from elsewhere, except for the number of waits.
    pub fn merge(&self, statistics: &Statistics) {
        add(&self.successful_spins, statistics.successful_spins);
        add(&self.failed_spins, statistics.spins.saturating_sub(statistics.successful_spins));
        add(&self.spin_nanos, statistics.spin_time.as_nanos());
        add(&self.yields, statistics.yields);
        add(&self.blocks, statistics.blocks);
        add(&self.block_nanos, statistics.block_time.as_nanos());
        add(&self.moves, statistics.moves);
        add(&self.overload_marks, statistics.overload_marks);
    }

    /// Adds one wait. Counts of zero cost nothing.
    #[inline]
    pub(crate) fn add(&self, wait: &WaitCounts) {
        if wait.spun {
            add(if wait.succeeded { &self.successful_spins } else { &self.failed_spins }, 1);
        }
        add(&self.spin_nanos, wait.spin_time.as_nanos());
        add(&self.yields, wait.yields);
        add(&self.blocks, wait.blocks);
        add(&self.block_nanos, wait.block_time.as_nanos());
        add(&self.moves, wait.moves);
        add(&self.overload_marks, wait.overload_marks);
    }

    /// Adds these counts to `sum`, except for the number of waits, which is unknown here. In shared
    /// memory they may be anything, so sums wrap around.
    pub fn add_to(&self, sum: &mut Statistics) {
        let add = |sum: &mut u64, counted: u64| *sum = sum.wrapping_add(counted);
        let successful = self.successful_spins.load(Relaxed);
        add(&mut sum.spins, successful);
        add(&mut sum.spins, self.failed_spins.load(Relaxed));
        add(&mut sum.successful_spins, successful);
        sum.spin_time += Span::from_nanos(self.spin_nanos.load(Relaxed));
        add(&mut sum.yields, self.yields.load(Relaxed));
        add(&mut sum.blocks, self.blocks.load(Relaxed));
        sum.block_time += Span::from_nanos(self.block_nanos.load(Relaxed));
        add(&mut sum.moves, self.moves.load(Relaxed));
        add(&mut sum.overload_marks, self.overload_marks.load(Relaxed));
    }
}

/// Adding zero costs nothing.
#[inline]
fn add(counter: &AtomicU64, n: u64) {
    if n > 0 {
        counter.fetch_add(n, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_rate_needs_a_spin() {
        assert_eq!(Statistics::default().ssr_percent(), None);
        let spun = Statistics { waits: 8, spins: 4, successful_spins: 3, ..Statistics::default() };
        assert_eq!(spun.ssr_percent(), Some(75.0));
    }

    #[test]
    fn a_sum_saturates() {
        let (most, one) = (
            Statistics { waits: u64::MAX, spins: 1, ..Default::default() },
            Statistics { waits: 1, spins: 2, ..Default::default() },
        );
        assert_eq!(most.plus(one), Statistics { waits: u64::MAX, spins: 3, ..Default::default() });
    }

    #[test]
    fn added_waits_are_in_the_sum() {
        let spin_time = Span::from_micros(5);
        let (mut hit, mut miss) = (
            WaitCounts::default(),
            WaitCounts {
                yields: 2,
                blocks: 3,
                block_time: spin_time,
                moves: 4,
                overload_marks: 1,
                ..WaitCounts::default()
            },
        );
        hit.add_spin(spin_time, true);
        miss.add_spin(spin_time, false);
        let counters = Counters::new();
        counters.add(&hit);
        counters.add(&miss);
        counters.add(&WaitCounts::default());
        let mut sum = Statistics { waits: 2, ..Statistics::default() };
        counters.add_to(&mut sum);
        let (block_time, spin_time) = (spin_time, Span::from_micros(10));
        let expected = Statistics {
            waits: 2,
            spins: 2,
            successful_spins: 1,
            spin_time,
            yields: 2,
            blocks: 3,
            block_time,
            moves: 4,
            overload_marks: 1,
        };
        assert_eq!(sum, expected);
    }

    #[test]
    fn merged_statistics_are_in_the_sum() {
        let statistics = Statistics {
            waits: 0,
            spins: 5,
            successful_spins: 3,
            spin_time: Span::from_micros(7),
            yields: 2,
            blocks: 4,
            block_time: Span::from_micros(9),
            moves: 1,
            overload_marks: 6,
        };
        let (counters, mut sum) = (Counters::new(), Statistics::default());
        counters.merge(&statistics);
        counters.add_to(&mut sum);
        assert_eq!(sum, statistics);
    }

    #[test]
    fn a_spin_succeeds_if_the_wait_ends_in_it() {
        let mut counts = WaitCounts::default();
        counts.add_spin(Span::from_micros(5), false);
        counts.add_spin(Span::from_micros(2), true);
        let counters = Counters::new();
        counters.add(&counts);
        let mut sum = Statistics::default();
        counters.add_to(&mut sum);
        assert_eq!((sum.spins, sum.successful_spins, sum.spin_time), (1, 1, Span::from_micros(7)));
    }
}
