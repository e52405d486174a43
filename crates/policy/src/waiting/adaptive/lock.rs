//! The adaptive rule where nobody knows who will come, as at a lock: spin to the bound, then block; and the same again after a
//! waking in vain, since who was woken has paid for it already and the lock is mostly held for less than a waking takes.

use super::super::{Decision, Observation};
use crate::units::Span;

/// What to do next, with this bound on spinning.
pub(super) const fn step(bound: Span, seen: Observation) -> Decision {
    match seen {
        Observation::Arrived | Observation::Woken if !bound.is_zero() => Decision::Spin(bound),
        _ => Decision::Block,
    }
}
