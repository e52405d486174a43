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
//! # The step machine
//!
//! A world that has a thread waiting keeps one [`Waiter`] for it and asks [`Waiter::step`] what to do: once when the
//! thread arrives and finds others missing, and again each time it has done as told and the others are *still* missing.
//! When the wait ends the world simply stops asking. So a rule never sees success; it sees arrivals, and the failures of
//! what it chose.
//!
//! ```text
//!            Arrived                Spun(t)                   Yielded(t)            Woken (spuriously)
//!   world ------------> step ------------------> step --------------------> step ------------------->  ...
//!                  \            \                        \                      \
//!                   Spin(n)      Spin(n) | Yield | Block  ...                    Block
//! ```

use std::fmt;
use std::str::FromStr;

use crate::units::{self, CpuId, Instant, ParseSpanError, Span, ThreadId};

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
    /// How many threads meet.
    pub threads: u32,
    /// How many CPUs they may use.
    pub cpus: u32,
    /// The CPU that the waiting thread runs on.
    pub own_cpu: CpuId,
    /// Who is missing, by ascending number. A world may leave it empty while [`Waiter::looks`] is false.
    pub missing: &'a [Missing],
}

/// What the members of a team remember together from wait to wait: one word, so that a world can keep it in one atomic.
/// Zero at the start.
///
/// A world reads it before a step and publishes what the step made of it; when two members do so at once, one of the
/// changes may be lost. None of today's rules uses it; strikes against a whole team will.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct TeamState(pub u64);

/// What a rule's multiples of CS come to on one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Costs {
    /// CS: what it costs to get a blocked sibling running again.
    pub cs: Span,
    /// The "+" of `cs+` and `2cs+`.
    pub margin: Span,
}

/// A bound on spinning as it is written: a span, or a multiple of CS with or without the margin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bound {
    /// So much running time, whatever a context switch costs.
    Fixed(Span),
    /// A multiple of CS.
    OfCs {
        /// In thousandths, so that rules compare exactly.
        thousandths: u64,
        /// Whether the margin is added: the "+".
        plus: bool,
    },
}

impl Bound {
    /// The bound on a machine with these costs.
    ///
    /// ```
    /// # use rowlock_policy::{Span, waiting::{Bound, Costs}};
    /// let costs = Costs { cs: Span::from_micros(6), margin: Span::from_micros(3) };
    /// let bound: Bound = "5 cs".parse()?;
    /// assert_eq!(bound.on(costs), Span::from_micros(30));
    /// # Ok::<(), rowlock_policy::waiting::ParseRuleError>(())
    /// ```
    pub const fn on(self, costs: Costs) -> Span {
        match self {
            Bound::Fixed(span) => span,
            Bound::OfCs { thousandths, plus: false } => costs.cs.scaled(thousandths),
            Bound::OfCs { thousandths, plus: true } => {
                let (base, margin) = (costs.cs.scaled(thousandths), costs.margin);
                Span::from_nanos(base.as_nanos().saturating_add(margin.as_nanos()))
            }
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Bound::Fixed(span) => span.fmt(f),
            Bound::OfCs { thousandths, plus } => {
                let text = match (thousandths, plus) {
                    (1000, false) => "cs".to_owned(),
                    (1000, true) => "cs+".to_owned(),
                    (2000, true) => "2cs+".to_owned(),
                    _ => {
                        let fraction = format!("{:03}", thousandths % 1000);
                        let fraction = fraction.trim_end_matches('0');
                        let point = if fraction.is_empty() { "" } else { "." };
                        format!("{}{point}{fraction} cs{}", thousandths / 1000, if plus { "+" } else { "" })
                    }
                };
                f.pad(&text)
            }
        }
    }
}

impl FromStr for Bound {
    type Err = ParseRuleError;

    /// Reads `"44 us"`, `cs`, `"5 cs"`, `cs+`, `2cs+`: a blank before the `cs` is as good as none.
    fn from_str(text: &str) -> Result<Bound, ParseRuleError> {
        let trimmed = text.trim();
        let (body, plus) = trimmed.strip_suffix('+').map_or((trimmed, false), |body| (body, true));
        let Some(multiple) = body.trim_end().strip_suffix("cs") else {
            return match trimmed.parse() {
                Ok(span) => Ok(Bound::Fixed(span)),
                Err(ParseSpanError::MissingUnit(number)) => Err(ParseRuleError::MissingUnit(number)),
                Err(ParseSpanError::NotANumber(_)) => Err(ParseRuleError::Unknown(text.to_owned())),
                Err(why) => Err(ParseRuleError::Span(why)),
            };
        };
        let multiple = multiple.trim();
        let thousandths = if multiple.is_empty() { Some(1000) } else { units::thousandths(multiple) };
        let thousandths = thousandths.ok_or_else(|| ParseRuleError::Unknown(text.to_owned()))?;
        Ok(Bound::OfCs { thousandths, plus })
    }
}

/// A waiting rule as it is written in a scenario: not yet tied to a machine's costs.
///
/// [`crate::table::WAITING`] lists the ways to write one. What is printed reads back as the same rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Block at once (AB).
    AlwaysBlock,
    /// Never give up the CPU.
    AlwaysSpin,
    /// Yield the CPU again and again, and never block.
    AlwaysYield,
    /// Two-phase: spin up to a bound, then block.
    TwoPhase(Bound),
}

impl Rule {
    /// The rule on a machine with these costs, ready to be asked by one waiting thread.
    pub const fn waiter(self, costs: Costs) -> Waiter {
        let kind = match self {
            Rule::AlwaysBlock => Kind::AlwaysBlock,
            Rule::AlwaysSpin => Kind::AlwaysSpin,
            Rule::AlwaysYield => Kind::AlwaysYield,
            Rule::TwoPhase(bound) => Kind::TwoPhase { limit: bound.on(costs), spun: Span::ZERO },
        };
        Waiter { kind }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::AlwaysBlock => f.pad("always-block"),
            Rule::AlwaysSpin => f.pad("always-spin"),
            Rule::AlwaysYield => f.pad("always-yield"),
            Rule::TwoPhase(bound) => bound.fmt(f),
        }
    }
}

impl FromStr for Rule {
    type Err = ParseRuleError;

    fn from_str(text: &str) -> Result<Rule, ParseRuleError> {
        let named = crate::table::WAITING.iter().filter_map(|entry| entry.rule);
        match named.into_iter().find(|rule| rule.to_string() == text.trim()) {
            Some(rule) => Ok(rule),
            None => text.parse().map(Rule::TwoPhase),
        }
    }
}

/// Why a text is not a waiting rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseRuleError {
    /// No rule is written like this.
    Unknown(String),
    /// A bare number: of what?
    MissingUnit(String),
    /// It would be a span, but for this.
    Span(ParseSpanError),
}

impl fmt::Display for ParseRuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(text) => write!(f, "`{text}` is not a waiting rule"),
            Self::MissingUnit(number) => write!(f, "missing unit: write \"{number} us\" or \"{number} cs\""),
            Self::Span(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for ParseRuleError {}

/// One thread's side of a waiting rule: the rule on its machine, and what it remembers of its own waits.
///
/// A copy of a fresh waiter is a fresh waiter, so a world makes one from the [`Rule`] and hands out copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    kind: Kind,
}

/// An enum rather than a trait object: the step stands on the fast path of every barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    AlwaysBlock,
    AlwaysSpin,
    AlwaysYield,
    TwoPhase { limit: Span, spun: Span },
}

impl Waiter {
    /// Whether the rule reads [`Team::missing`]; where it does not, a world may spare itself the collecting.
    pub const fn looks(&self) -> bool {
        match self.kind {
            Kind::AlwaysBlock | Kind::AlwaysSpin | Kind::AlwaysYield | Kind::TwoPhase { .. } => false,
        }
    }

    /// What to do next, given the team at this moment, what it remembers together, and what this thread last saw.
    ///
    /// Pure: the same waiter, asked the same, answers the same. [`Observation::Arrived`] begins a new wait.
    #[inline]
    pub fn step(&mut self, _team: &Team<'_>, _state: &mut TeamState, seen: Observation) -> Decision {
        match &mut self.kind {
            Kind::AlwaysBlock => Decision::Block,
            Kind::AlwaysSpin => Decision::Spin(Span::MAX),
            Kind::AlwaysYield => Decision::Yield,
            Kind::TwoPhase { limit, spun } => {
                match seen {
                    Observation::Arrived => *spun = Span::ZERO,
                    Observation::Spun(more) => *spun += more,
                    Observation::Yielded(_) => {}
                    // Having blocked once, it has spent its spinning: a spurious waking earns no more.
                    Observation::Woken => *spun = *limit,
                }
                if *spun < *limit { Decision::Spin(*limit - *spun) } else { Decision::Block }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs { cs: Span::from_micros(6), margin: Span::from_micros(3) };
    const TEAM: Team<'_> = Team { now: Instant::ZERO, threads: 2, cpus: 2, own_cpu: CpuId(0), missing: &[] };

    fn steps(rule: &str, seen: &[Observation]) -> Vec<Decision> {
        let mut waiter = rule.parse::<Rule>().unwrap().waiter(COSTS);
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
        ] {
            let rule: Rule = text.parse().unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(rule.to_string(), printed);
            assert_eq!(printed.parse(), Ok(rule));
        }
    }

    #[test]
    fn what_is_no_rule_says_why() {
        let error = |text: &str| text.parse::<Rule>().unwrap_err();
        assert_eq!(error("44"), ParseRuleError::MissingUnit("44".into()));
        assert_eq!(error("always-blok"), ParseRuleError::Unknown("always-blok".into()));
        assert_eq!(error("44 parsecs"), ParseRuleError::Unknown("44 parsecs".into()));
        assert_eq!(error("4 m"), ParseRuleError::Span(ParseSpanError::UnknownUnit("m".into())));
        assert_eq!(error("-2 cs"), ParseRuleError::Unknown("-2 cs".into()));
    }
}
