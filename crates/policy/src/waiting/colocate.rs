//! Colocate: the team meets on one CPU, and its threads yield to each other there.
//!
//! Source: our own. A yield to a sibling costs one switch, so a round of fine-grained threads takes
//! less time on one CPU than the wakeups of threads on several. Coarse-grained threads lose all
//! parallelism.
//!
//! The CPU is that of the thread that first waits. A thread moves there, but is not bound to it: if
//! the scheduler takes it elsewhere, it comes back at its next wait, at most once a tick. Where no
//! thread can be moved, the rule is the same as always-yield.

use super::step::{Costs, Decision, Observation, Team, TeamState};
use crate::units::{CpuId, Instant, Span};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Colocate {
    tick: Span,
    moved: Option<Instant>,
}

impl Colocate {
    pub(super) const fn new(costs: Costs) -> Colocate {
        Colocate { tick: costs.with_tick().tick, moved: None }
    }

    /// The word of the team holds the number of its CPU, plus one.
    pub(super) fn step(&mut self, team: &Team<'_>, state: &mut TeamState, seen: Observation) -> Decision {
        if state.0 == 0 {
            state.0 = u64::from(team.own_cpu.0) + 1;
        }
        let cpu = CpuId((state.0 - 1) as u32);
        let may_move = self.moved.is_none_or(|moved| team.now.since(moved) > self.tick);
        if seen == Observation::Arrived && team.movable && cpu != team.own_cpu && may_move {
            self.moved = Some(team.now);
            return Decision::Move(cpu);
        }
        Decision::Yield
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_move_to_the_cpu_of_the_first_and_yield_there() {
        let mut state = TeamState::default();
        let team = |own_cpu, millis: u64, movable| {
            let now = Instant::from_nanos(millis * 1_000_000);
            Team { now, threads: 2, cpus: 2, own_cpu, movable, ..Team::default() }
        };
        let [mut first, mut second] = [Colocate::new(Costs::default()); 2];
        let (here, there) = (CpuId(0), CpuId(1));
        assert_eq!(first.step(&team(here, 1, true), &mut state, Observation::Arrived), Decision::Yield);
        assert_eq!(second.step(&team(there, 1, true), &mut state, Observation::Arrived), Decision::Move(here));
        assert_eq!(second.step(&team(here, 1, true), &mut state, Observation::Moved), Decision::Yield);
        // It comes back after a tick, if threads can be moved at all.
        assert_eq!(second.step(&team(there, 5, true), &mut state, Observation::Arrived), Decision::Yield);
        assert_eq!(second.step(&team(there, 6, true), &mut state, Observation::Arrived), Decision::Move(here));
        assert_eq!(second.step(&team(there, 99, false), &mut state, Observation::Arrived), Decision::Yield);
    }
}
