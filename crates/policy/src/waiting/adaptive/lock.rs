//! The adaptive rule at a lock, at which unknown threads will arrive: spin for a quarter of CS,
//! then block.
//!
//! A lock is mostly released within a fraction of the cost of a wakeup, or else its owner has lost
//! its CPU and releases it after milliseconds. So a short spin succeeds nearly as often as a long
//! one. If more threads than CPUs compete for a lock, each one that spins longer delays the owner.
//! Karlin, Li, Manasse and Owicki found the same for locks in real programs ("Empirical studies of
//! competitive spinning for a shared-memory multiprocessor", 1991).

use super::super::step::{Costs, Decision, Observation};
use crate::units::Span;

/// The bound as a multiple of CS, in thousandths.
const BOUND: u64 = 250;

/// The bound on spinning with these costs.
pub(super) const fn bound(costs: Costs) -> Span {
    costs.cs.scaled(BOUND)
}

/// The next decision, with this bound.
pub(super) const fn step(bound: Span, seen: Observation) -> Decision {
    match seen {
        Observation::Arrived if !bound.is_zero() => Decision::Spin(bound),
        _ => Decision::Block,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_spins_once_and_then_blocks_however_often_it_is_woken() {
        let bound = bound(Costs { cs: Span::from_micros(16), ..Costs::default() });
        let seen = [Observation::Arrived, Observation::Spun(bound), Observation::Woken, Observation::Woken];
        let decisions = seen.map(|seen| step(bound, seen));
        let spin = Decision::Spin(Span::from_micros(4));
        assert_eq!(decisions, [spin, Decision::Block, Decision::Block, Decision::Block]);
    }

    #[test]
    fn without_a_bound_it_blocks() {
        assert_eq!(step(Span::ZERO, Observation::Arrived), Decision::Block);
    }
}
