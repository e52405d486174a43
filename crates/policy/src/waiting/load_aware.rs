//! The load-aware rule: spin while there are fewer than K threads for each CPU, else block.
//!
//! Source: Tsafrir and Feitelson, section 6: "load should be a dominant factor in the decision".
//! With more than two threads for each CPU most spins fail; below, in the *intermediate load*
//! range, spinning for 2CS+ pays.
//!
//! Deviations: the paper counts all threads. Here the load is what a world can count
//! ([`Team::load`]). It excludes blocked threads of other programs, which do not compete for a CPU
//! until they are woken. The rule checks the load when a wait starts, and not again in that wait.

use super::rule::Bound;
use super::step::{Costs, Team};
use crate::units::Span;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LoadAware {
    bound: Span,
    /// K in thousandths.
    thousandths: u64,
}

impl LoadAware {
    pub(super) const fn new(thousandths: u64, costs: Costs) -> LoadAware {
        LoadAware { bound: Bound::TWO_CS_PLUS.on(costs), thousandths }
    }

    /// The bound of the next wait.
    pub(super) fn bound(&self, team: &Team<'_>) -> Span {
        let is_light = 1_000 * u128::from(team.load) < u128::from(self.thousandths) * u128::from(team.cpus);
        if is_light { self.bound } else { Span::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::{Decision, Observation, TeamState, WaitingRule};

    #[test]
    fn it_spins_for_2cs_plus_below_k_threads_for_each_cpu_and_blocks_from_there_on() {
        let costs = Costs { cs: Span::from_micros(6), margin: Span::from_micros(3), ..Costs::default() };
        let spin = Decision::Spin(Span::from_micros(15));
        for (rule, load, cpus, expected) in [
            ("load-aware", 0, 2, spin),
            ("load-aware", 3, 2, spin),
            ("load-aware", 4, 2, Decision::Block),
            ("load-aware 1.5", 2, 2, spin),
            ("load-aware 1.5", 3, 2, Decision::Block),
            ("load-aware 0", 0, 2, Decision::Block),
            ("load-aware 18446744073709551", u32::MAX, u32::MAX, spin),
        ] {
            let team = Team { threads: 2, cpus, load, ..Team::default() };
            let mut waiter = rule.parse::<WaitingRule>().unwrap().waiter(costs);
            let decision = waiter.step(&team, &mut TeamState::default(), Observation::Arrived);
            assert_eq!(decision, expected, "{rule}, {load} threads on {cpus} CPUs");
        }
    }
}
