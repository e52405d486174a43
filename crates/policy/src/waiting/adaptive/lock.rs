//! The adaptive rule where nobody knows who will come, as at a lock: spin for a quarter of CS, then block.
//!
//! What is awaited at a lock mostly comes within a fraction of what a waking costs, or else its owner has lost its CPU, and comes
//! after milliseconds. So a short spin catches nearly all that a long one would, and where more threads than CPUs want a
//! lock, each that spins for longer keeps the owner waiting. Karlin, Li, Manasse and Owicki found the same of locks in real
//! programs ("Empirical studies of competitive spinning for a shared-memory multiprocessor", 1991).

use super::super::{Costs, Decision, Observation};
use crate::units::Span;

/// What of CS the bound is, in thousandths.
const BOUND: u64 = 250;

/// The bound on spinning with these costs.
pub(super) const fn bound(costs: Costs) -> Span {
    costs.cs.scaled(BOUND)
}

/// What to do next, with this bound.
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
