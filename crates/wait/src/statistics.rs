//! What waiting has come to, counted while it goes on.

use std::sync::atomic::Ordering::Relaxed;

use policy::Span;

use crate::sync::AtomicU64;

/// What the waits at a barrier have come to so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Arrivals, those of last arrivers included.
    pub waits: u64,
    /// Waits in which the thread spun. The last arriver of a round does not wait, so it does not spin.
    pub spins: u64,
    /// Those of them that ended while the thread was spinning.
    pub successful_spins: u64,
    /// Running time spent spinning.
    pub spin_time: Span,
    /// How often a thread yielded its CPU.
    pub yields: u64,
    /// How often a thread went to sleep until woken.
    pub blocks: u64,
}

impl Statistics {
    /// The successful spin rate: successful spins over all spins, in percent. Nothing where nobody spun.
    pub fn ssr_percent(&self) -> Option<f64> {
        (self.spins > 0).then(|| 100.0 * self.successful_spins as f64 / self.spins as f64)
    }
}

/// What one member of the team has counted; only waits that are over.
#[derive(Debug)]
pub(crate) struct Counters {
    successful_spins: AtomicU64,
    failed_spins: AtomicU64,
    spin_nanos: AtomicU64,
    yields: AtomicU64,
    blocks: AtomicU64,
}

impl Counters {
    pub(crate) fn new() -> Counters {
        Counters {
            successful_spins: AtomicU64::new(0),
            failed_spins: AtomicU64::new(0),
            spin_nanos: AtomicU64::new(0),
            yields: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
        }
    }

    /// Adds one wait. What it has not done costs nothing.
    #[inline]
    pub(crate) fn add(&self, wait: &Statistics) {
        let add = |counter: &AtomicU64, n: u64| {
            if n > 0 {
                counter.fetch_add(n, Relaxed);
            }
        };
        add(&self.successful_spins, wait.successful_spins);
        add(&self.failed_spins, wait.spins - wait.successful_spins);
        add(&self.spin_nanos, wait.spin_time.as_nanos());
        add(&self.yields, wait.yields);
        add(&self.blocks, wait.blocks);
    }

    /// Adds what is counted here to `sum`.
    pub(crate) fn add_to(&self, sum: &mut Statistics) {
        let successful = self.successful_spins.load(Relaxed);
        sum.spins += successful + self.failed_spins.load(Relaxed);
        sum.successful_spins += successful;
        sum.spin_time += Span::from_nanos(self.spin_nanos.load(Relaxed));
        sum.yields += self.yields.load(Relaxed);
        sum.blocks += self.blocks.load(Relaxed);
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
    fn what_is_added_is_in_the_sum() {
        let spin_time = Span::from_micros(5);
        let hit = Statistics { spins: 1, successful_spins: 1, spin_time, ..Statistics::default() };
        let miss = Statistics { spins: 1, spin_time, yields: 2, blocks: 3, ..Statistics::default() };
        let counters = Counters::new();
        counters.add(&hit);
        counters.add(&miss);
        let mut sum = Statistics { waits: 2, ..Statistics::default() };
        counters.add_to(&mut sum);
        let spin_time = Span::from_micros(10);
        assert_eq!(sum, Statistics { waits: 2, spins: 2, successful_spins: 1, spin_time, yields: 2, blocks: 3 });
    }
}
