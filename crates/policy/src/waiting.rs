//! Waiting: what a thread does while it waits for others to arrive: spin, yield the CPU, or block.
//!
//! Source: Tsafrir and Feitelson, "Barrier Synchronization on a Loaded SMP using Two-Phase Waiting Algorithms": two-phase
//! waiting spins for a bounded time and then blocks (section 1); the bounds are CS, CS+ and 2CS+ where CS is the cost of a
//! context switch (sections 4.1 and 4.2); the extremes are always-block (section 5.2) and always-spin (section 2.2).
//! Always-yield is not in the paper: it is what the barriers of today's libraries fall back to, and the loser to beat.
//!
//! Deviation: the paper has one CS. On a real machine the cost of waking a waiter that sleeps can be ten times that of a
//! switch on one CPU and more, and it is the former that a bound on spinning competes with; a world fills [`Costs::cs`] with what
//! a *blocked sibling* will cost it.
//!
//! Each rule stands in a module of its own, with its source and its deviations at the head.
//!
//! # The step machine
//!
//! A world that has a thread waiting keeps one [`Waiter`] for it and asks [`Waiter::step`] what to do: once when the
//! thread arrives and finds others missing, and again each time it has done as told and the others are *still* missing.
//! When the wait is over, the world says so once by [`Waiter::over`], with what the thread saw last.
//!
//! ```text
//!            Arrived                Spun(t)                   Yielded(t)            Woken (spuriously)
//!   world ------------> step ------------------> step --------------------> step ------------------->  ...
//!                  \            \                        \                      \
//!                   Spin(n)      Spin(n) | Yield | Block  ...                    Block
//! ```

mod adaptive;
mod bound;
mod grain_aware;
mod load_aware;
mod owner_running;
mod randomized;
mod rule;
mod spin_predictor;
mod two_phase;
mod variable_competitive;

use self::adaptive::Adaptive;
pub use self::bound::Bound;
use self::grain_aware::GrainAware;
use self::load_aware::LoadAware;
use self::owner_running::OwnerRunning;
use self::randomized::Randomized;
pub use self::rule::{ParseRuleError, WaitingRule};
pub use self::spin_predictor::SpinPredictor;
use self::two_phase::TwoPhase;
use self::variable_competitive::VariableCompetitive;
use crate::units::{CpuId, Instant, Span, ThreadId};

/// What a waiting thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Decision {
    /// Watch the barrier without giving up the CPU, for this much running time at the most ([`Span::MAX`]: for ever).
    Spin(Span),
    /// Offer the CPU to others once, by `sched_yield`, and look again.
    Yield,
    /// Give up the CPU until woken.
    Block,
    /// Go over to this CPU, if that is allowed, and be asked again. The scheduler remains free to move the thread on.
    Move(CpuId),
}

/// What a waiting thread last saw; the wait was not over at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Observation {
    /// It has just arrived, and others are missing.
    Arrived,
    /// It has spun for this much running time. Time off the CPU does not count as spinning.
    Spun(Span),
    /// It has yielded, and so much time passed until it ran again.
    Yielded(Span),
    /// It was woken although the others are still missing.
    Woken,
    /// It was told to move, and has, unless it runs on another CPU than it was told to.
    Moved,
}

/// A sibling that has not arrived yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Missing {
    /// Its number in the team.
    pub thread: ThreadId,
    /// The CPU it was on when it last arrived; nothing before its first arrival.
    pub last_seen: Option<CpuId>,
}

/// The team as its waiting member sees it at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Team<'a> {
    /// The world's clock.
    pub now: Instant,
    /// How many threads meet; zero where nobody knows who will come, as at a lock.
    pub threads: u32,
    /// How many CPUs they may use.
    pub cpus: u32,
    /// The CPU that the waiting thread runs on.
    pub own_cpu: CpuId,
    /// Who is missing, by ascending number; at a lock its owner, if anybody knows it. A world may leave it empty where
    /// [`Waiter::inputs`] does not ask for it.
    pub missing: &'a [Missing],
    /// How many threads the machine has to place: all that run or are ready, whosever they are, and those of this team
    /// that have blocked (where a world counts them by the process, those of its process). Zero where [`Waiter::inputs`] does not ask for it.
    pub load: u32,
    /// Whether the world moves threads when it is told to.
    pub movable: bool,
    /// A random number, new for each step and uniform over its range. Zero where [`Waiter::inputs`] does not ask for it.
    pub draw: u32,
}

/// What the members of a team remember together from wait to wait: one word, so that a world can keep it in one atomic.
/// Zero at the start.
///
/// A world reads it before a step and publishes what the step made of it; when two members do so at once, one of the
/// changes may be lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct TeamState(pub u64);

/// What of its world a rule wants to know; what it does not want, a world may spare itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// [`Team::missing`].
    pub missing: bool,
    /// At a lock, its owner among the missing: everybody who takes the lock must then say where.
    pub owner: bool,
    /// [`Team::load`].
    pub load: bool,
    /// [`Team::draw`].
    pub draw: bool,
}

/// What things cost on one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Costs {
    /// CS: what it costs to get a blocked sibling running again.
    pub cs: Span,
    /// The "+" of `cs+` and `2cs+`.
    pub margin: Span,
    /// A `sched_yield` on a CPU that nobody else wants.
    pub lone_yield: Span,
    /// How long another program keeps a CPU that was yielded to it, at least: the scheduler's tick.
    pub tick: Span,
}

/// One thread's side of a waiting rule: the rule on its machine, and what it remembers of its own waits.
///
/// A copy of a fresh waiter is a fresh waiter, so a world makes one from the [`WaitingRule`] and hands out copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    state: RuleState,
}

/// An enum rather than a trait object: the step stands on the fast path of every barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RuleState {
    AlwaysBlock,
    AlwaysSpin,
    AlwaysYield,
    TwoPhase(TwoPhase),
    Adaptive(Adaptive),
    LoadAware(LoadAware),
    GrainAware(GrainAware),
    Randomized(Randomized),
    VariableCompetitive(VariableCompetitive),
    OwnerRunning(OwnerRunning),
}

impl Waiter {
    /// What of its world the rule wants to know.
    pub const fn inputs(&self) -> Inputs {
        let nothing = Inputs { missing: false, owner: false, load: false, draw: false };
        match self.state {
            RuleState::AlwaysBlock | RuleState::AlwaysSpin | RuleState::AlwaysYield | RuleState::TwoPhase(_) => nothing,
            RuleState::GrainAware(_) | RuleState::VariableCompetitive(_) => nothing,
            RuleState::Adaptive(_) => Inputs { missing: true, ..nothing },
            RuleState::OwnerRunning(_) => Inputs { missing: true, owner: true, ..nothing },
            RuleState::LoadAware(_) => Inputs { load: true, ..nothing },
            RuleState::Randomized(_) => Inputs { draw: true, ..nothing },
        }
    }

    /// What to do next, given the team at this moment, what it remembers together, and what this thread last saw.
    ///
    /// Pure: the same waiter, asked the same, answers the same. [`Observation::Arrived`] begins a new wait.
    #[inline]
    pub fn step(&mut self, team: &Team<'_>, state: &mut TeamState, seen: Observation) -> Decision {
        match &mut self.state {
            RuleState::AlwaysBlock => Decision::Block,
            RuleState::AlwaysSpin => Decision::Spin(Span::MAX),
            RuleState::AlwaysYield => Decision::Yield,
            RuleState::TwoPhase(rule) => rule.step(seen),
            RuleState::LoadAware(rule) => rule.step(team, seen),
            RuleState::GrainAware(rule) => rule.step(team, seen),
            RuleState::Randomized(rule) => rule.step(team, seen),
            RuleState::VariableCompetitive(rule) => rule.step(team, *state, seen),
            RuleState::OwnerRunning(rule) => rule.step(team, seen),
            RuleState::Adaptive(adaptive) => adaptive.step(team, state, seen),
        }
    }

    /// The wait is over: what was awaited came while the thread did what it was last told to, or before it went on, and this
    /// is what it saw. To be called once a wait, unless there was no step in it; the changed state is to be published.
    #[inline]
    pub fn over(&mut self, now: Instant, state: &mut TeamState, seen: Observation) {
        match &mut self.state {
            RuleState::AlwaysBlock | RuleState::AlwaysSpin | RuleState::AlwaysYield | RuleState::TwoPhase(_) => {}
            RuleState::LoadAware(_) | RuleState::Randomized(_) | RuleState::OwnerRunning(_) => {}
            RuleState::Adaptive(adaptive) => adaptive.over(now, state, seen),
            RuleState::GrainAware(rule) => rule.over(now),
            RuleState::VariableCompetitive(rule) => rule.over(now, state, seen),
        }
    }

    /// How often this waiter found that giving way to others cost the whole team too much, and turned the team to another
    /// way of waiting.
    pub const fn overload_marks(&self) -> u32 {
        match self.state {
            RuleState::Adaptive(adaptive) => adaptive.overload_marks(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::ParseSpanError;

    const COSTS: Costs =
        Costs { cs: Span::from_micros(6), margin: Span::from_micros(3), lone_yield: Span::ZERO, tick: Span::ZERO };
    const TEAM: Team<'_> = Team {
        now: Instant::ZERO,
        threads: 2,
        cpus: 2,
        own_cpu: CpuId(0),
        missing: &[],
        load: 0,
        movable: false,
        draw: 0,
    };

    fn steps(rule: &str, seen: &[Observation]) -> Vec<Decision> {
        let mut waiter = rule.parse::<WaitingRule>().unwrap().waiter(COSTS);
        let mut state = TeamState::default();
        seen.iter().map(|&seen| waiter.step(&TEAM, &mut state, seen)).collect()
    }

    #[test]
    fn two_phase_spins_to_its_bound_and_then_blocks() {
        let us = Span::from_micros;
        for (rule, limit) in [("cs", 6), ("cs+", 9), ("2cs+", 15), ("5 cs", 30), ("44 us", 44)] {
            let decisions = steps(rule, &[Observation::Arrived, Observation::Spun(us(limit)), Observation::Woken]);
            assert_eq!(decisions, [Decision::Spin(us(limit)), Decision::Block, Decision::Block], "{rule}");
        }
    }

    #[test]
    fn a_spin_that_ended_early_is_resumed_for_the_rest_only() {
        let us = Span::from_micros;
        assert_eq!(
            steps("44 us", &[Observation::Arrived, Observation::Spun(us(40)), Observation::Spun(us(4))]),
            [Decision::Spin(us(44)), Decision::Spin(us(4)), Decision::Block]
        );
    }

    #[test]
    fn each_arrival_begins_a_new_wait() {
        let us = Span::from_micros;
        assert_eq!(
            steps("cs", &[Observation::Arrived, Observation::Spun(us(6)), Observation::Woken, Observation::Arrived]),
            [Decision::Spin(us(6)), Decision::Block, Decision::Block, Decision::Spin(us(6))]
        );
    }

    #[test]
    fn a_bound_of_zero_is_always_block() {
        assert_eq!(steps("0 us", &[Observation::Arrived]), steps("always-block", &[Observation::Arrived]));
    }

    #[test]
    fn always_spin_and_always_yield_never_block() {
        let failures = [Observation::Arrived, Observation::Spun(Span::MAX), Observation::Yielded(Span::MAX)];
        assert!(steps("always-spin", &failures).iter().all(|d| *d == Decision::Spin(Span::MAX)));
        assert!(steps("always-yield", &failures).iter().all(|d| *d == Decision::Yield));
    }

    #[test]
    fn rules_read_in_every_spelling_and_print_in_one() {
        for (text, printed) in [
            ("always-block", "always-block"),
            ("cs", "cs"),
            ("1 cs", "cs"),
            ("cs+", "cs+"),
            ("2cs+", "2cs+"),
            ("2 cs+", "2cs+"),
            ("5cs", "5 cs"),
            ("0.62 cs", "0.62 cs"),
            ("2.5 cs+", "2.5 cs+"),
            ("44us", "44 us"),
            ("load-aware", "load-aware"),
            ("load-aware 2", "load-aware"),
            ("load-aware 2.50", "load-aware 2.5"),
        ] {
            let rule: WaitingRule = text.parse().unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(rule.to_string(), printed);
            assert_eq!(printed.parse(), Ok(rule));
        }
    }

    #[test]
    fn what_is_no_rule_says_why() {
        let error = |text: &str| text.parse::<WaitingRule>().unwrap_err();
        assert_eq!(error("44"), ParseRuleError::MissingUnit("44".into()));
        assert_eq!(error("always-blok"), ParseRuleError::Unknown("always-blok".into()));
        assert_eq!(error("44 parsecs"), ParseRuleError::Unknown("44 parsecs".into()));
        assert_eq!(error("4 m"), ParseRuleError::Span(ParseSpanError::UnknownUnit("m".into())));
        assert_eq!(error("-2 cs"), ParseRuleError::Unknown("-2 cs".into()));
        assert_eq!(error("load-aware -2"), ParseRuleError::Unknown("load-aware -2".into()));
        assert_eq!(error("load-aware2"), ParseRuleError::Unknown("load-aware2".into()));
    }
}
