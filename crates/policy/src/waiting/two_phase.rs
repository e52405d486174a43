//! Two-phase waiting: spin up to a bound, then block.
//!
//! Source: Ousterhout (1982), as cited by Tsafrir and Feitelson, section 1. The bounds CS, CS+ and
//! 2CS+ are in their sections 4.1 and 4.2. With a bound of `0.54 cs` or `0.62 cs` it is the rule of
//! Lim and Agarwal (1993, section 1 there): the best one for exponentially (locks) or uniformly
//! (barriers) distributed waits.

use super::step::{Decision, Observation};
use crate::units::Span;

/// Spins up to a bound, then blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TwoPhase {
    limit: Span,
    spun: Span,
}

impl TwoPhase {
    pub(super) const fn new(limit: Span) -> TwoPhase {
        TwoPhase { limit, spun: Span::ZERO }
    }

    /// A step of a rule that chooses another bound for each wait.
    #[inline]
    pub(super) fn step_with(&mut self, seen: Observation, bound: impl FnOnce() -> Span) -> Decision {
        if seen == Observation::Arrived {
            self.limit = bound();
        }
        self.step(seen)
    }

    #[inline]
    pub(super) fn step(&mut self, seen: Observation) -> Decision {
        match seen {
            Observation::Arrived => self.spun = Span::ZERO,
            Observation::Spun(more) => self.spun += more,
            // After blocking once, the spin budget is used up; a spurious wakeup does not renew it.
            Observation::Woken => self.spun = self.limit,
            _ => {}
        }
        if self.spun < self.limit { Decision::Spin(self.limit - self.spun) } else { Decision::Block }
    }

    /// How long it has spun in this wait, up to the last step.
    pub(super) const fn spun(&self) -> Span {
        self.spun
    }
}
