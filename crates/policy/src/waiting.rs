//! Waiting rules: whether a waiting thread spins, yields the CPU, or blocks.
//!
//! Source: Tsafrir and Feitelson, "Barrier Synchronization on a Loaded SMP using Two-Phase Waiting
//! Algorithms". Two-phase waiting spins for a bounded time and then blocks (section 1). The bounds
//! are CS, CS+ and 2CS+, where CS is the cost of a context switch (sections 4.1 and 4.2). The
//! extremes are always-block (section 5.2) and always-spin (section 2.2). Always-yield is not in
//! the paper: the barriers of current libraries fall back to it, and it is the baseline to beat.
//!
//! Deviation: the paper has one CS. On a real machine, waking a sleeping waiter can cost ten times
//! as much as a switch on one CPU or more, and a bound on spinning competes with the former. So a
//! world sets [`Costs::cs`] to what a *blocked sibling* will cost it.
//!
//! Each rule has a module, which states its source and deviations.
//!
//! # The step machine
//!
//! A world keeps one [`Waiter`] for each waiting thread and asks [`Waiter::step`] what to do: once
//! when the thread arrives and finds others missing, and again each time it has followed the
//! decision and the others are *still* missing. When the wait is over, the world calls
//! [`Waiter::over`] once with what the thread saw last: a yield that cost a tick counts even if the
//! others arrived in the meantime, and the next computation is timed from there.
//!
//! ```text
//!           Arrived         Spun(t)                     Yielded(t)         Woken (spuriously)
//!   world ----------> step ----------> step -------------------> step -------------------> ...
//!                 \              \                           \                   \
//!                  Spin(n)        Spin(n) | Yield | Block     ...                 Block
//! ```
//!
//! # Turns
//!
//! Where parallel jobs take turns, a thread waits for threads that run in the same turns as it
//! does. So out of its turn it blocks at once by every rule: it would only take time from another
//! job. A team sleeps until its turn even if all have arrived, since it would go on otherwise.
//! Where it is unknown which threads will come, as at a lock, a block ends as it always does. Only
//! a rule that spins or yields after a block is asked again when the turn may have come
//! ([`Waiter::spins_after_block`]).
//!
//! # Memory
//!
//! A rule can keep memory in two places. Its [`Waiter`] is the memory of one thread, and the
//! [`TeamState`] is one word that the whole team shares. A numbered party of a barrier keeps its
//! waiter from wait to wait. At a lock, threads come and go, so every wait starts with a fresh
//! waiter and only the word of the team survives: a rule that should learn at locks needs it.
//!
//! Copy `randomized.rs` for a new rule without memory of earlier waits, and
//! `variable_competitive.rs` for one with memory. Both only choose the bound of each wait and leave
//! the rest to `two_phase.rs`.

mod adaptive;
mod adaptive_1;
mod colocate;
mod grain;
mod grain_aware;
mod load_aware;
mod owner_running;
mod randomized;
mod rule;
mod spin_predictor;
mod step;
mod two_phase;
mod variable_competitive;

use self::adaptive::Adaptive;
use self::adaptive_1::Adaptive1;
use self::colocate::Colocate;
use self::grain_aware::GrainAware;
use self::load_aware::LoadAware;
use self::owner_running::OwnerRunning;
pub use self::rule::{Bound, ParseRuleError, WaitingRule};
pub use self::spin_predictor::SpinPredictor;
pub use self::step::{Costs, Decision, Inputs, Missing, Observation, Running, Team, TeamState, Turn};
use self::two_phase::TwoPhase;
use self::variable_competitive::VariableCompetitive;
use crate::units::{Instant, Span};

/// A waiting rule on its machine, as one thread applies it, with its memory of earlier waits.
///
/// A copy of a fresh waiter is a fresh waiter, so a world creates one from the [`WaitingRule`] and
/// copies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    state: RuleState,
}

/// An enum rather than a trait object: the step is on the fast path of every barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RuleState {
    AlwaysSpin,
    AlwaysYield,
    Colocate(Colocate),
    TwoPhase(TwoPhase),
    Adaptive(Adaptive),
    Adaptive1(Adaptive1),
    LoadAware(LoadAware, TwoPhase),
    GrainAware(GrainAware, TwoPhase),
    /// With CS.
    Randomized(Span, TwoPhase),
    VariableCompetitive(VariableCompetitive, TwoPhase),
    OwnerRunning(OwnerRunning),
}

impl Waiter {
    /// The inputs that the rule uses.
    pub const fn inputs(&self) -> Inputs {
        let nothing = Inputs { missing: false, running: false, load: false, draw: false };
        match self.state {
            RuleState::Adaptive(_) => Inputs { missing: true, running: true, ..nothing },
            RuleState::Adaptive1(_) => Inputs { missing: true, ..nothing },
            RuleState::OwnerRunning(_) => Inputs { running: true, ..nothing },
            RuleState::LoadAware(..) => Inputs { load: true, ..nothing },
            RuleState::Randomized(..) => Inputs { draw: true, ..nothing },
            RuleState::AlwaysSpin
            | RuleState::AlwaysYield
            | RuleState::Colocate(_)
            | RuleState::TwoPhase(_)
            | RuleState::GrainAware(..)
            | RuleState::VariableCompetitive(..) => nothing,
        }
    }

    /// Decides what to do next, from the team at this moment, its shared memory, and what this
    /// thread last saw.
    ///
    /// Pure: the same waiter with the same input decides the same. Randomness is an input too:
    /// [`Team::draw`]. [`Observation::Arrived`] starts a new wait.
    #[inline]
    pub fn step(&mut self, team: &Team<'_>, state: &mut TeamState, seen: Observation) -> Decision {
        let decision = self.decide(team, state, seen);
        if team.turn.is_others() { Decision::Block } else { decision }
    }

    /// Decides as if there were no turns.
    #[inline]
    fn decide(&mut self, team: &Team<'_>, state: &mut TeamState, seen: Observation) -> Decision {
        match &mut self.state {
            RuleState::AlwaysSpin => Decision::Spin(Span::MAX),
            RuleState::AlwaysYield => Decision::Yield,
            RuleState::Colocate(rule) => rule.step(team, state, seen),
            RuleState::TwoPhase(rule) => rule.step(seen),
            RuleState::LoadAware(rule, spin) => spin.step_with(seen, || rule.bound(team)),
            RuleState::GrainAware(rule, spin) => spin.step_with(seen, || rule.arrive(team.now)),
            RuleState::Randomized(cs, spin) => spin.step_with(seen, || randomized::bound(*cs, team.draw)),
            RuleState::VariableCompetitive(rule, spin) => spin.step_with(seen, || rule.arrive(team.now, *state)),
            RuleState::OwnerRunning(rule) => rule.step(seen),
            RuleState::Adaptive(rule) => rule.step(team, state, seen),
            RuleState::Adaptive1(rule) => rule.step(team, state, seen),
        }
    }

    /// Ends a wait: the awaited event came while the thread followed its last decision, or before
    /// it started to. `seen` is its last observation. Call it once for each wait that had a step.
    /// The world publishes the changed state.
    #[inline]
    pub fn over(&mut self, now: Instant, state: &mut TeamState, seen: Observation) {
        match &mut self.state {
            RuleState::Adaptive(rule) => rule.over(now, state, seen),
            RuleState::Adaptive1(rule) => rule.over(now, state, seen),
            RuleState::GrainAware(rule, _) => rule.over(now),
            RuleState::VariableCompetitive(rule, spin) => rule.over(now, spin.spun(), state, seen),
            RuleState::AlwaysSpin
            | RuleState::AlwaysYield
            | RuleState::Colocate(_)
            | RuleState::TwoPhase(_)
            | RuleState::LoadAware(..)
            | RuleState::Randomized(..)
            | RuleState::OwnerRunning(_) => {}
        }
    }

    /// Whether the rule can spin or yield again in a wait in which it has blocked. So a thread that
    /// blocks out of its turn has to be woken when its turn may have come: no other thread needs
    /// to.
    pub const fn spins_after_block(&self) -> bool {
        use RuleState::{AlwaysSpin, AlwaysYield, Colocate, OwnerRunning};
        matches!(self.state, AlwaysSpin | AlwaysYield | Colocate(_) | OwnerRunning(_))
    }

    /// The number of overload marks that this waiter has set: how often yielding cost the whole
    /// team too much, so that the team changed its way of waiting.
    pub const fn overload_marks(&self) -> u32 {
        match self.state {
            RuleState::Adaptive(rule) => rule.backoffs(),
            RuleState::Adaptive1(rule) => rule.overload_marks(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{CpuId, ParseSpanError, ThreadId};

    fn steps(rule: &str, seen: &[Observation]) -> Vec<Decision> {
        let us = Span::from_micros;
        let costs = Costs { cs: us(6), margin: us(3), ..Costs::default() };
        let team = Team { threads: 2, cpus: 2, ..Team::default() };
        let mut waiter = rule.parse::<WaitingRule>().unwrap().waiter(costs);
        seen.iter().map(|&seen| waiter.step(&team, &mut TeamState::default(), seen)).collect()
    }

    #[test]
    fn two_phase_spins_to_its_bound_and_then_blocks() {
        use {Decision::Block, Observation::Arrived, Observation::Woken};
        let (spin, spun) = (|n| Decision::Spin(Span::from_micros(n)), |n| Observation::Spun(Span::from_micros(n)));
        for (rule, limit) in [("cs", 6), ("cs+", 9), ("2cs+", 15), ("5 cs", 30), ("44 us", 44)] {
            // Each arrival starts a new wait.
            let decisions = steps(rule, &[Arrived, spun(limit), Woken, Arrived]);
            assert_eq!(decisions, [spin(limit), Block, Block, spin(limit)], "{rule}");
        }
        // A spin that ended early is resumed for the rest only.
        assert_eq!(steps("44 us", &[Arrived, spun(40), spun(4)]), [spin(44), spin(4), Block]);
        assert_eq!(steps("0 us", &[Arrived]), [Block]);
        assert_eq!(steps("always-block", &[Arrived]), [Block]);
    }

    #[test]
    fn always_spin_and_always_yield_never_block() {
        let failures = [Observation::Arrived, Observation::Spun(Span::MAX), Observation::Yielded(Span::MAX)];
        assert_eq!(steps("always-spin", &failures), [Decision::Spin(Span::MAX); 3]);
        assert_eq!(steps("always-yield", &failures), [Decision::Yield; 3]);
    }

    #[test]
    fn every_rule_blocks_out_of_its_turn_and_decides_as_without_turns_in_it() {
        use crate::table::WAITING;
        let costs = Costs { cs: Span::from_micros(6), margin: Span::from_micros(3), ..Costs::default() };
        let (spun, until) = (Observation::Spun(Span::from_micros(1)), Instant::from_nanos(1));
        let seen = [Observation::Arrived, spun, Observation::Yielded(Span::ZERO), Observation::Woken, spun];
        for rule in WAITING.iter().map(|entry| entry.example) {
            let decisions = |turn| {
                let (mut waiter, mut state) = (rule.waiter(costs), TeamState::default());
                let missing = [Missing { thread: ThreadId(1), last_seen: Some(CpuId(1)) }];
                let team = Team { threads: 2, cpus: 2, missing: &missing, turn, ..Team::default() };
                seen.map(|seen| waiter.step(&team, &mut state, seen))
            };
            assert_eq!(decisions(Turn::OthersUntil(until)), [Decision::Block; 5], "{rule}");
            assert_eq!(decisions(Turn::OursUntil(until)), decisions(Turn::NoTurns), "{rule}");
            let after_block = decisions(Turn::NoTurns)[3];
            assert_eq!(rule.waiter(costs).spins_after_block(), after_block != Decision::Block, "{rule}");
        }
    }

    #[test]
    fn rules_parse_in_every_spelling_and_print_in_one() {
        let same = ["always-block", "cs", "cs+", "2cs+", "0.62 cs", "2.5 cs+", "load-aware"].map(|text| (text, text));
        let other = [("1 cs", "cs"), ("2 cs+", "2cs+"), ("5cs", "5 cs"), ("44us", "44 us")];
        let loads = [("load-aware 2", "load-aware"), ("load-aware 2.50", "load-aware 2.5")];
        for (text, printed) in same.into_iter().chain(other).chain(loads) {
            let rule: WaitingRule = text.parse().unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(rule.to_string(), printed);
            assert_eq!(printed.parse(), Ok(rule));
        }
    }

    #[test]
    fn an_invalid_rule_is_rejected_with_a_reason() {
        let error = |text: &str| text.parse::<WaitingRule>().unwrap_err();
        assert_eq!(error("44"), ParseRuleError::MissingUnit("44".into()));
        assert_eq!(error("4 m"), ParseRuleError::Span(ParseSpanError::UnknownUnit("m".into())));
        for text in ["always-blok", "44 parsecs", "-2 cs", "load-aware -2", "load-aware2"] {
            assert_eq!(error(text), ParseRuleError::Unknown(text.into()));
        }
    }
}
