//! The grain-aware rule: spin if the computations between waits are short, block if they are long.
//!
//! Source: Tsafrir and Feitelson, section 6, which proposes it and does not try it: "maintain (for
//! each thread) a direct measure of the elapsed time between its few recent synchronization trials
//! (within the same quantum!)". Fine and medium grain (section 2.1: computations shorter than 5 CS)
//! spin for 2CS+, coarse grain blocks.
//!
//! # The measured time
//!
//! The time from the end of a wait to the next arrival: one computation. It excludes the wait and
//! the wakeup. This deviates from the letter of the proposal, and has to: the time from arrival to
//! arrival of a thread that blocks contains its sleep and its wakeup, which take several CS. A
//! fine-grained job that blocked once would look coarse, therefore block, and look coarse forever.
//! The length of a computation does not depend on how the wait before it ended, so a job that would
//! be fine if it spun is fine while it blocks.
//!
//! # The same quantum
//!
//! Between the end of a wait and the next arrival a thread never waits, so both lie in one quantum
//! unless it was preempted in between. Then the measured time contains the quanta of other threads.
//! A thread cannot detect that, but it can only make the time longer. So the *shortest* of the last
//! four counts: three preemptions in a row do not change the class. A thread that arrived last did
//! not wait, and several of its computations merge into one measured time; the shortest ignores
//! them too. A thread that is nearly always last is taken for coarser than it is, but hardly ever
//! waits.
//!
//! A waiter without a history counts as fine until it has measured four long computations.

use super::rule::Bound;
use super::step::Costs;
use crate::units::{Instant, Span};

/// Computations shorter than this many thousandths of CS are of fine or medium grain.
const MEDIUM: u64 = 5_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GrainAware {
    bound: Span,
    /// Computations of at least this length are coarse.
    coarse: Span,
    /// The last computations, in no particular order.
    recent: [Span; 4],
    /// The index of the oldest.
    oldest: usize,
    ended: Option<Instant>,
}

impl GrainAware {
    pub(super) const fn new(costs: Costs) -> GrainAware {
        GrainAware {
            bound: Bound::TWO_CS_PLUS.on(costs),
            coarse: costs.cs.scaled(MEDIUM),
            recent: [Span::ZERO; 4],
            oldest: 0,
            ended: None,
        }
    }

    /// Notes an arrival. Returns the bound of this wait.
    pub(super) fn arrive(&mut self, now: Instant) -> Span {
        if let Some(ended) = self.ended.take() {
            self.recent[self.oldest] = now.since(ended);
            self.oldest = (self.oldest + 1) % self.recent.len();
        }
        let is_coarse = self.recent.iter().all(|&computation| computation >= self.coarse);
        if is_coarse { Span::ZERO } else { self.bound }
    }

    pub(super) fn over(&mut self, now: Instant) {
        self.ended = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPIN: Span = Span::from_micros(15);
    const BLOCK: Span = Span::ZERO;

    /// Waits once, for `waited`, after a computation of `micros`. Returns the bound on spinning.
    fn wait(rule: &mut GrainAware, now: &mut Instant, micros: u64, waited: u64) -> Span {
        *now = *now + Span::from_micros(micros);
        let bound = rule.arrive(*now);
        *now = *now + Span::from_micros(waited);
        rule.over(*now);
        bound
    }

    fn fresh() -> (GrainAware, Instant) {
        let costs = Costs { cs: Span::from_micros(6), margin: Span::from_micros(3), ..Costs::default() };
        (GrainAware::new(costs), Instant::ZERO)
    }

    #[test]
    fn medium_grain_spins_and_coarse_grain_blocks_from_the_fifth_wait_on() {
        let (mut rule, mut now) = fresh();
        assert!((0..9).all(|_| wait(&mut rule, &mut now, 29, 1) == SPIN));
        let (mut rule, mut now) = fresh();
        let bounds = [(); 6].map(|()| wait(&mut rule, &mut now, 30, 1));
        assert_eq!(bounds, [SPIN, SPIN, SPIN, SPIN, BLOCK, BLOCK]);
    }

    #[test]
    fn preemptions_do_not_make_a_fine_grain_coarse() {
        let (mut rule, mut now) = fresh();
        for round in 0..40 {
            let computation = if round % 4 == 0 { 5 } else { 4_000 };
            assert_eq!(wait(&mut rule, &mut now, computation, 1), SPIN, "round {round}");
        }
    }

    #[test]
    fn long_waits_do_not_make_a_fine_grain_coarse() {
        let (mut rule, mut now) = fresh();
        assert!((0..40).all(|_| wait(&mut rule, &mut now, 5, 10_000) == SPIN));
    }

    #[test]
    fn a_job_that_turns_fine_spins_again_immediately() {
        let (mut rule, mut now) = fresh();
        assert_eq!((0..9).map(|_| wait(&mut rule, &mut now, 500, 1)).last(), Some(BLOCK));
        assert_eq!(wait(&mut rule, &mut now, 5, 1), SPIN);
    }
}
