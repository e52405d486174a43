//! The variable-competitive rule: the bound on spinning follows from the last few waits.
//!
//! Source: Karlin, Li, Manasse and Owicki, "Empirical Studies of Competitive Spinning for a
//! Shared-Memory Multiprocessor" (1991), where adaptive strategies did better at locks than fixed
//! ones. The name is from Tsafrir and Feitelson, section 6, who doubt it for barriers. The bound
//! for the next wait is the one of at most CS that would have cost least over the last eight waits.
//! A wait that ends within the bound costs its length; any other costs the bound and CS.
//!
//! Deviations: the memory is the team's, not the thread's, since threads come and go at a lock. It
//! is kept in one word, so lengths are rounded up to the next eighth of a power of two. Two waits
//! that end at the same time may count as one.
//!
//! The exact length of a wait is known only if the thread spun to its end. A thread that blocked
//! learns of the end later, so one CS is subtracted. Short waits therefore bring spinning back even
//! while all threads block.

use super::step::{Costs, Observation, TeamState};
use crate::units::{Instant, Span};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VariableCompetitive {
    cs: Span,
    began: Instant,
}

impl VariableCompetitive {
    pub(super) const fn new(costs: Costs) -> VariableCompetitive {
        VariableCompetitive { cs: costs.cs, began: Instant::ZERO }
    }

    /// Notes an arrival. Returns the bound of this wait.
    pub(super) fn arrive(&mut self, now: Instant, state: TeamState) -> Span {
        self.began = now;
        Memory(state.0).best_bound(self.cs)
    }

    /// `spun` is how long the thread had spun before its last observation.
    pub(super) fn over(&mut self, now: Instant, spun: Span, state: &mut TeamState, seen: Observation) {
        let elapsed = now.since(self.began);
        let waited = match seen {
            Observation::Spun(last) => spun + last,
            Observation::Woken => elapsed - self.cs,
            _ => elapsed,
        };
        *state = TeamState(Memory(state.0).with(waited).0);
    }
}

/// The lengths of the last eight waits, the latest in the lowest byte. A missing wait counts as one
/// of zero length, which costs nothing with any bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Memory(u64);

impl Memory {
    fn with(self, waited: Span) -> Memory {
        Memory(self.0 << 8 | u64::from(code(waited)))
    }

    fn waits(self) -> impl Iterator<Item = Span> + Clone {
        self.0.to_le_bytes().into_iter().map(decoded)
    }

    /// The bound up to CS that would have cost least, the shortest of several; CS without a
    /// history.
    fn best_bound(self, cs: Span) -> Span {
        if self.0 == 0 {
            return cs;
        }
        let cost = |bound| -> Span { self.waits().map(|wait| if wait <= bound { wait } else { bound + cs }).sum() };
        // A bound between two waits succeeds as often as the shorter of them, and costs more.
        let bounds = std::iter::once(Span::ZERO).chain(self.waits()).filter(|&bound| bound <= cs);
        bounds.min_by_key(|&bound| (cost(bound), bound)).unwrap_or(cs)
    }
}

/// The code of the shortest encodable length that is no shorter: 1 to 255, eight to each power of
/// two from 8 ns on.
fn code(length: Span) -> u8 {
    let nanos = length.as_nanos().clamp(1, decoded(u8::MAX).as_nanos());
    let floor = |nanos: u64| -> u64 {
        let above = nanos.max(8).ilog2() - 3;
        (nanos >> above) + 8 * u64::from(above)
    };
    let code = floor(nanos) as u8;
    if decoded(code).as_nanos() < nanos { code + 1 } else { code }
}

/// The length that a code represents: codes below 16 represent themselves, then the steps double
/// with every eight codes.
fn decoded(code: u8) -> Span {
    let above = (code >> 3).saturating_sub(1);
    Span::from_nanos((u64::from(code) - 8 * u64::from(above)) << above)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CS: Span = Span::from_micros(6);

    /// The bound after waits of these lengths in microseconds.
    fn bound_after(waits: &[u64]) -> Span {
        let memory = waits.iter().fold(Memory(0), |memory, &wait| memory.with(Span::from_micros(wait)));
        memory.best_bound(CS)
    }

    fn code_for(micros: u64) -> Span {
        decoded(code(Span::from_micros(micros)))
    }

    #[test]
    fn the_bound_is_the_one_that_would_have_cost_least_in_the_last_eight_waits() {
        assert_eq!(bound_after(&[]), CS, "without a history");
        assert_eq!(bound_after(&[100; 8]), Span::ZERO, "no spin would have succeeded");
        assert_eq!(bound_after(&[2; 8]), code_for(2), "each would");
        assert_eq!(bound_after(&[2, 2, 2, 2, 5, 100, 100, 100]), code_for(2), "a longer one only seldom");
        assert_eq!(bound_after(&[5, 100, 100, 100, 100, 100, 100, 100]), Span::ZERO, "hardly any");
        assert_eq!(bound_after(&[2, 100, 100, 100, 100, 100, 100, 100, 100]), Span::ZERO, "the first is forgotten");
        assert_eq!(bound_after(&[100, 2, 2, 2, 2, 2, 2, 2, 2]), code_for(2), "the first is forgotten");
    }

    #[test]
    fn short_waits_bring_spinning_back_while_all_threads_block() {
        let costs = Costs { cs: CS, ..Costs::default() };
        let mut rule = VariableCompetitive::new(costs);
        let mut state = TeamState((0..8).fold(Memory(0), |memory, _| memory.with(Span::from_millis(1))).0);
        let mut now = Instant::ZERO;
        let blocks = (0..20)
            .take_while(|_| {
                let bound = rule.arrive(now, state);
                now = now + CS + Span::from_micros(1);
                rule.over(now, Span::ZERO, &mut state, Observation::Woken);
                bound.is_zero()
            })
            .count();
        assert!((1..=8).contains(&blocks), "{blocks} waits until it spun again");
    }

    proptest! {
        #[test]
        fn a_code_is_no_shorter_than_its_length_and_less_than_an_eighth_longer(nanos in 1..1_u64 << 33) {
            let back = decoded(code(Span::from_nanos(nanos))).as_nanos();
            prop_assert!(back >= nanos && back - nanos <= nanos / 8, "{nanos} became {back}");
        }

        #[test]
        fn codes_keep_the_order_of_lengths(one: u64, other: u64) {
            let [one, other] = [one, other].map(Span::from_nanos);
            prop_assert!(one > other || code(one) <= code(other));
            prop_assert!(code(one) > 0);
        }

        #[test]
        fn no_other_bound_would_have_cost_less(waits in prop::collection::vec(1_u64..20_000, 1..9), other in 0_u64..6_000) {
            let memory = waits.iter().fold(Memory(0), |memory, &wait| memory.with(Span::from_nanos(wait)));
            let cost = |bound: Span| -> u64 {
                memory.waits().map(|wait| if wait <= bound { wait } else { bound + CS }.as_nanos()).sum()
            };
            prop_assert!(cost(memory.best_bound(CS)) <= cost(Span::from_nanos(other)));
            prop_assert!(memory.best_bound(CS) <= CS);
        }
    }
}
