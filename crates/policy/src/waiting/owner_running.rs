//! The owner-running rule: spin while the awaited threads run, else block.
//!
//! Source: Karlin, Li, Manasse and Owicki (1991), as reported by Tsafrir and Feitelson, section 6:
//! spinning is worthwhile only if the lock is held by a running thread. At barriers, they say, this
//! amounts to always-block.
//!
//! Deviation: the rule checks whether they run when the wait starts, and again after each CS of
//! spinning, since a check is not free. If that is unknown, the rule spins for one CS and blocks.

use super::step::{Costs, Decision, Observation, Running};
use super::two_phase::TwoPhase;
use crate::units::Span;

/// The shortest interval between two checks, however cheap a context switch is.
const SHORTEST_INTERVAL: Span = Span::from_micros(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnerRunning {
    interval: Span,
    /// How it waits if it is unknown whether the awaited threads run.
    two_phase: TwoPhase,
    /// Whether a check of this wait has found nothing.
    is_unknown: bool,
}

impl OwnerRunning {
    pub(super) const fn new(costs: Costs) -> OwnerRunning {
        let interval = if costs.cs.as_nanos() < SHORTEST_INTERVAL.as_nanos() { SHORTEST_INTERVAL } else { costs.cs };
        OwnerRunning { interval, two_phase: TwoPhase::new(costs.cs), is_unknown: false }
    }

    pub(super) fn step(&mut self, seen: Observation) -> Decision {
        match seen {
            Observation::Arrived => {
                self.is_unknown = false;
                Decision::CheckRunning
            }
            Observation::Checked(Running::All) => Decision::Spin(self.interval),
            Observation::Checked(Running::NotAll) => Decision::Block,
            Observation::Checked(Running::Unknown) => {
                self.is_unknown = true;
                self.two_phase.step(Observation::Arrived)
            }
            seen if self.is_unknown => self.two_phase.step(seen),
            _ => Decision::CheckRunning,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::Decision::{Block, CheckRunning};
    use crate::waiting::Observation::{Arrived, Checked, Spun, Woken};

    const CS: Span = Span::from_micros(6);
    const SPIN: Decision = Decision::Spin(CS);

    /// The decisions of a thread that makes these observations.
    fn steps(seen: &[Observation]) -> Vec<Decision> {
        let mut rule = OwnerRunning::new(Costs { cs: CS, ..Costs::default() });
        seen.iter().map(|&seen| rule.step(seen)).collect()
    }

    #[test]
    fn it_spins_while_all_missing_threads_run_and_checks_that_again_after_each_cs_and_each_wakeup() {
        let (all, not_all) = (Checked(Running::All), Checked(Running::NotAll));
        let decisions = steps(&[Arrived, all, Spun(CS), all, Spun(CS), not_all, Woken, all]);
        assert_eq!(decisions, [CheckRunning, SPIN, CheckRunning, SPIN, CheckRunning, Block, CheckRunning, SPIN]);
    }

    #[test]
    fn it_spins_for_cs_and_blocks_if_it_is_unknown_whether_they_run_until_the_next_wait() {
        let decisions = steps(&[Arrived, Checked(Running::Unknown), Spun(CS), Woken, Arrived]);
        assert_eq!(decisions, [CheckRunning, SPIN, Block, Block, CheckRunning]);
        let decisions = steps(&[Arrived, Checked(Running::All), Spun(CS), Checked(Running::Unknown), Spun(CS)]);
        assert_eq!(decisions, [CheckRunning, SPIN, CheckRunning, SPIN, Block]);
    }

    #[test]
    fn checks_are_not_more_frequent_if_switches_cost_next_to_nothing() {
        let mut rule = OwnerRunning::new(Costs::default());
        assert_eq!(rule.step(Checked(Running::All)), Decision::Spin(SHORTEST_INTERVAL));
    }
}
