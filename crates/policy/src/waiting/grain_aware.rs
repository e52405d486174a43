//! The grain-aware rule: spin where the computations between waits are short, block where they are long.
//!
//! Source: Tsafrir and Feitelson, section 6, where it is proposed and left to be tried: "maintain (for each thread) a direct
//! measure of the elapsed time between its few recent synchronization trials (within the same quantum!)". Fine and medium grain
//! (section 2.1: computations shorter than 5 CS) spin for 2CS+, coarse grain blocks.
//!
//! # What is measured
//!
//! The time from going on after a wait to the next arrival: one computation. What the thread waited, and what it took to be
//! woken, is not in it. That is a deviation from the letter of the proposal, and a needed one: the time from arrival to arrival
//! of a thread that blocks holds its sleep and its waking, some CS in itself, so a fine-grained job that once blocked
//! would look coarse, hence block, and look coarse for ever. A computation is as long whichever way the wait before it ended, so
//! a job that would be fine if it spun is fine while it blocks.
//!
//! # The same quantum
//!
//! Between going on and arriving a thread never waits, so both ends lie in one quantum unless it was preempted in between.
//! Then others' quanta are in the measured time; a thread cannot see that, but it only ever makes the time longer. So the
//! *shortest* of the last four counts: three preemptions in a row do not change the class. A thread that was last to arrive
//! did not wait, and two or more of its computations run into one measured time; the shortest passes over them as well. A thread that is
//! nearly always last is taken for coarser than it is, but hardly ever waits.
//!
//! A waiter without a past counts as fine until it has four long computations behind it.

use super::{Bound, Costs, Decision, Observation, Team, TwoPhase};
use crate::units::{Instant, Span};

/// Computations that are shorter than so many thousandths of CS are of fine or medium grain.
const MEDIUM: u64 = 5_000;

/// The grain-aware rule of one waiting thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GrainAware {
    bound: Span,
    /// Computations of this length are coarse.
    coarse: Span,
    /// The last computations, in no order that matters.
    recent: [Span; 4],
    /// Which of them is the oldest.
    oldest: usize,
    /// When the last wait was over.
    went_on: Option<Instant>,
    spin: TwoPhase,
}

impl GrainAware {
    pub(super) const fn new(costs: Costs) -> GrainAware {
        GrainAware {
            bound: Bound::TWO_CS_PLUS.on(costs),
            coarse: costs.cs.scaled(MEDIUM),
            recent: [Span::ZERO; 4],
            oldest: 0,
            went_on: None,
            spin: TwoPhase::new(Span::ZERO),
        }
    }

    pub(super) fn step(&mut self, team: &Team<'_>, seen: Observation) -> Decision {
        if seen == Observation::Arrived {
            if let Some(went_on) = self.went_on.take() {
                self.recent[self.oldest] = team.now.since(went_on);
                self.oldest = (self.oldest + 1) % self.recent.len();
            }
            let is_coarse = self.recent.iter().all(|&computation| computation >= self.coarse);
            self.spin = TwoPhase::new(if is_coarse { Span::ZERO } else { self.bound });
        }
        self.spin.step(seen)
    }

    pub(super) fn over(&mut self, now: Instant) {
        self.went_on = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::CpuId;

    const SPIN: Decision = Decision::Spin(Span::from_micros(15));

    /// Waits once, a computation of `micros` after the last wait, and takes `waited` to do so.
    fn wait(rule: &mut GrainAware, now: &mut Instant, micros: u64, waited: u64) -> Decision {
        *now = *now + Span::from_micros(micros);
        let team =
            Team { now: *now, threads: 2, cpus: 2, own_cpu: CpuId(0), missing: &[], load: 0, movable: false, draw: 0 };
        let decision = rule.step(&team, Observation::Arrived);
        *now = *now + Span::from_micros(waited);
        rule.over(*now);
        decision
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
        let decisions: Vec<Decision> = (0..6).map(|_| wait(&mut rule, &mut now, 30, 1)).collect();
        assert_eq!(decisions, [SPIN, SPIN, SPIN, SPIN, Decision::Block, Decision::Block]);
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
    fn a_job_that_turns_fine_spins_again_at_once() {
        let (mut rule, mut now) = fresh();
        assert_eq!((0..9).map(|_| wait(&mut rule, &mut now, 500, 1)).last(), Some(Decision::Block));
        assert_eq!(wait(&mut rule, &mut now, 5, 1), SPIN);
    }
}
