//! The owner-running rule: spin while the awaited threads run, else block.
//!
//! Source: Karlin, Li, Manasse and Owicki (1991), as reported by Tsafrir and Feitelson, section 6:
//! spinning is worthwhile only if the lock is held by a running thread. At barriers, they say, this
//! amounts to always-block.
//!
//! Deviation: no rule can see whether another thread runs. But a thread that was last seen on the
//! waiter's own CPU, and has not been moved since, certainly does not: the waiter runs there. So
//! the awaited threads are *assumed* to be running while none of them was last seen on this CPU.
//! The rule checks again after each CS of spinning. If it is unknown which threads are awaited, it
//! spins for one CS and blocks.
//!
//! Second deviation: it blocks after [`LONGEST_SPIN`] in one wait. A sibling that was never seen,
//! or was moved since, may be ready behind the spinning thread on the same CPU; a real-time thread
//! would keep it waiting forever.

use super::step::{Costs, Decision, Missing, Observation, Team};
use super::two_phase::TwoPhase;
use crate::units::{Instant, Span};

/// The shortest interval between two checks, however cheap a context switch is.
const SHORTEST_CHECK: Span = Span::from_micros(1);

/// How long a waiter assumes, without evidence, that the awaited threads run.
const LONGEST_SPIN: Span = Span::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnerRunning {
    cs: Span,
    began: Instant,
    /// For waits for unknown threads.
    without_owner: TwoPhase,
}

impl OwnerRunning {
    pub(super) const fn new(costs: Costs) -> OwnerRunning {
        OwnerRunning { cs: costs.cs, began: Instant::ZERO, without_owner: TwoPhase::new(costs.cs) }
    }

    pub(super) fn step(&mut self, team: &Team<'_>, seen: Observation) -> Decision {
        let without_owner = self.without_owner.step(seen);
        if seen == Observation::Arrived {
            self.began = team.now;
        }
        let is_here = |missing: &Missing| missing.last_seen == Some(team.own_cpu);
        if team.missing.is_empty() {
            without_owner
        } else if team.missing.iter().any(is_here) || team.now.since(self.began) >= LONGEST_SPIN {
            Decision::Block
        } else {
            Decision::Spin(self.cs.max(SHORTEST_CHECK))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{CpuId, ThreadId};

    const CS: Span = Span::from_micros(6);

    /// The decisions of a thread on CPU 0 that makes these observations at these times, while the
    /// missing threads were last seen on these CPUs.
    fn steps(seen: &[(Span, Observation, &[Option<u32>])]) -> Vec<Decision> {
        let mut rule = OwnerRunning::new(Costs { cs: CS, ..Costs::default() });
        let missing = |cpu: &Option<u32>| Missing { thread: ThreadId(1), last_seen: cpu.map(CpuId) };
        let step = |&(at, seen, last_seen): &(Span, Observation, &[Option<u32>])| {
            let missing: Vec<Missing> = last_seen.iter().map(missing).collect();
            let team = Team { now: Instant::ZERO + at, threads: 3, cpus: 2, missing: &missing, ..Team::default() };
            rule.step(&team, seen)
        };
        seen.iter().map(step).collect()
    }

    #[test]
    fn it_spins_while_no_missing_thread_was_last_seen_here_and_blocks_after_the_longest_spin() {
        use {Decision::Block, Observation::Arrived, Observation::Woken};
        let (spin, spun, start) = (Decision::Spin(CS), Observation::Spun(CS), Span::ZERO);
        let elsewhere: &[Option<u32>] = &[Some(1), None];
        let decisions = steps(&[
            (start, Arrived, elsewhere),
            (start, spun, elsewhere),
            (start, spun, elsewhere),
            (start, spun, &[Some(1), Some(0)]),
        ]);
        assert_eq!(decisions, [spin, spin, spin, Block]);
        // It checks again after a spurious wakeup.
        let decisions = steps(&[(start, Arrived, &[Some(0)]), (start, Woken, &[Some(0)]), (start, Woken, &[Some(1)])]);
        assert_eq!(decisions, [Block, Block, spin]);
        // Without known threads it spins for CS.
        assert_eq!(steps(&[(start, Arrived, &[]), (start, spun, &[]), (start, Woken, &[])]), [spin, Block, Block]);
        let (begin, end) = (Span::from_millis(5), Span::from_millis(15));
        let decisions = steps(&[
            (begin, Arrived, &[None]),
            (end - Span::from_nanos(1), spun, &[None]),
            (end, spun, &[None]),
            (end, Woken, &[None]),
            (end, Arrived, &[None]),
        ]);
        assert_eq!(decisions, [spin, spin, Block, Block, spin]);
    }
}
