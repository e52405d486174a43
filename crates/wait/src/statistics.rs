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
    /// Waits in which the thread spun. The last arrival of a round does not.
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
    /// How often a thread found that yielding cost the team too much, and changed how it waits.
    pub overload_marks: u64,
}

impl Statistics {
    /// The successful spin rate: successful spins over all spins, in percent. `None` without spins.
    pub fn ssr_percent(&self) -> Option<f64> {
        (self.spins > 0).then(|| 100.0 * self.successful_spins as f64 / self.spins as f64)
    }

    /// Adds a spin of a wait, whose last one decides whether the wait ended while spinning.
    pub(crate) fn add_spin(&mut self, spent: Span, succeeded: bool) {
        self.spins = 1;
        self.successful_spins = succeeded.into();
        self.spin_time += spent;
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

/// Counts of finished waits, of one party or of all threads at one object.
///
/// Several threads may add at the same time. It has no pointers, and is valid as zeros.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Counters([AtomicU64; 8]);

impl Counters {
    sync::const_fn! {
        /// All zero.
        pub fn new() -> Counters {
            Counters(sync::zeros())
        }
    }

    /// Adds counts from elsewhere, except for the number of waits. Counts of zero cost nothing.
    #[inline]
    pub fn merge(&self, counts: &Statistics) {
        let counts = [
            counts.successful_spins,
            counts.spins.saturating_sub(counts.successful_spins),
            counts.spin_time.as_nanos(),
            counts.yields,
            counts.blocks,
            counts.block_time.as_nanos(),
            counts.moves,
            counts.overload_marks,
        ];
        for (counter, count) in self.0.iter().zip(counts).filter(|&(_, count)| count > 0) {
            counter.fetch_add(count, Relaxed);
        }
    }

    /// Adds these counts to `sum`, except for the number of waits, which is unknown here. In shared
    /// memory they may be anything, so sums wrap around.
    pub fn add_to(&self, sum: &mut Statistics) {
        let [successful, failed, spin_nanos, yields, blocks, block_nanos, moves, overload_marks] =
            self.0.each_ref().map(|counter| counter.load(Relaxed));
        let add = |sum: &mut u64, counted: u64| *sum = sum.wrapping_add(counted);
        add(&mut sum.spins, successful.wrapping_add(failed));
        add(&mut sum.successful_spins, successful);
        sum.spin_time += Span::from_nanos(spin_nanos);
        add(&mut sum.yields, yields);
        add(&mut sum.blocks, blocks);
        sum.block_time += Span::from_nanos(block_nanos);
        add(&mut sum.moves, moves);
        add(&mut sum.overload_marks, overload_marks);
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
        let (spin_time, block_time) = (Span::from_micros(5), Span::from_micros(9));
        let rest =
            Statistics { yields: 2, blocks: 3, block_time, moves: 4, overload_marks: 1, ..Statistics::default() };
        let (mut hit, mut miss) = (Statistics::default(), rest);
        hit.add_spin(spin_time, true);
        miss.add_spin(spin_time, false);
        let spin_time = spin_time + spin_time;
        let waits = Statistics { spins: 2, successful_spins: 1, spin_time, ..rest };
        let others = Statistics { spins: 5, successful_spins: 3, spin_time, ..rest };
        for (added, expected) in [(&[hit, miss, Statistics::default()][..], waits), (&[others], others)] {
            let (counters, mut sum) = (Counters::new(), Statistics { waits: 2, ..Statistics::default() });
            added.iter().for_each(|counts| counters.merge(counts));
            counters.add_to(&mut sum);
            assert_eq!(sum, Statistics { waits: 2, ..expected });
        }
    }

    #[test]
    fn a_spin_succeeds_if_the_wait_ends_in_it() {
        let mut wait = Statistics::default();
        wait.add_spin(Span::from_micros(5), false);
        wait.add_spin(Span::from_micros(2), true);
        assert_eq!((wait.spins, wait.successful_spins, wait.spin_time), (1, 1, Span::from_micros(7)));
    }
}
