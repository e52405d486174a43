//! Two-phase waiting: spin up to a bound, then block.
//!
//! Source: Ousterhout (1982), as cited by Tsafrir and Feitelson, section 1; the bounds CS, CS+ and 2CS+ are in their sections 4.1 and
//! 4.2. With a bound of `0.54 cs` or `0.62 cs` it is the rule of Lim and Agarwal (1993, section 1 there): the best one for
//! waits that are distributed exponentially (locks) or uniformly (barriers).

use super::{Decision, Observation};
use crate::units::Span;

/// Spins up to a bound, then blocks. Other rules choose the bound anew for each wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TwoPhase {
    limit: Span,
    spun: Span,
}

impl TwoPhase {
    pub(super) const fn new(limit: Span) -> TwoPhase {
        TwoPhase { limit, spun: Span::ZERO }
    }

    pub(super) fn step(&mut self, seen: Observation) -> Decision {
        match seen {
            Observation::Arrived => self.spun = Span::ZERO,
            Observation::Spun(more) => self.spun += more,
            // Having blocked once, it has spent its spinning: a spurious waking earns no more.
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
