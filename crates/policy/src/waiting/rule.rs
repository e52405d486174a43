//! Waiting rules as they are written.

use std::fmt;
use std::str::FromStr;

use super::bound::ParseRuleError;
use super::step::Costs;
use super::{
    Adaptive, Bound, GrainAware, LoadAware, OwnerRunning, Randomized, RuleState, TwoPhase, VariableCompetitive, Waiter,
};
use crate::units;

/// A waiting rule as written in a scenario, without the costs of a machine.
///
/// [`crate::table::WAITING`] lists all forms. The printed form parses back to the same rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WaitingRule {
    /// Block immediately (AB).
    AlwaysBlock,
    /// Never give up the CPU.
    AlwaysSpin,
    /// Yield the CPU repeatedly, and never block.
    AlwaysYield,
    /// Two-phase: spin up to a bound, then block.
    TwoPhase(Bound),
    /// Spin if that can help, yield if no other program takes advantage of it, else block; see the
    /// module `adaptive`.
    #[default]
    Adaptive,
    /// Spin for 2CS+ while there are fewer than K threads for each CPU, else block.
    LoadAware {
        /// K in thousandths, so that rules compare exactly.
        thousandths: u64,
    },
    /// Spin for 2CS+ if the computations between waits are shorter than 5 CS, else block.
    GrainAware,
    /// Spin for a random time up to CS, then block.
    Randomized,
    /// Spin for the time that would have cost least over the last waits, then block.
    VariableCompetitive,
    /// Spin while the awaited threads are assumed to run, else block.
    OwnerRunning,
}

/// `load-aware` without an explicit K: two threads for each CPU.
const LOAD_AWARE: WaitingRule = WaitingRule::LoadAware { thousandths: 2000 };

impl WaitingRule {
    /// Whether the rule depends on the costs of the machine.
    pub const fn needs_costs(self) -> bool {
        match self {
            WaitingRule::AlwaysBlock | WaitingRule::AlwaysSpin | WaitingRule::AlwaysYield => false,
            WaitingRule::TwoPhase(bound) => matches!(bound, Bound::OfCs { .. }),
            _ => true,
        }
    }

    /// The rule on a machine with these costs, for one waiting thread.
    pub const fn waiter(self, costs: Costs) -> Waiter {
        let state = match self {
            WaitingRule::AlwaysBlock => RuleState::AlwaysBlock,
            WaitingRule::AlwaysSpin => RuleState::AlwaysSpin,
            WaitingRule::AlwaysYield => RuleState::AlwaysYield,
            WaitingRule::TwoPhase(bound) => RuleState::TwoPhase(TwoPhase::new(bound.on(costs))),
            WaitingRule::Adaptive => RuleState::Adaptive(Adaptive::new(costs)),
            WaitingRule::LoadAware { thousandths } => RuleState::LoadAware(LoadAware::new(thousandths, costs)),
            WaitingRule::GrainAware => RuleState::GrainAware(GrainAware::new(costs)),
            WaitingRule::Randomized => RuleState::Randomized(Randomized::new(costs)),
            WaitingRule::VariableCompetitive => RuleState::VariableCompetitive(VariableCompetitive::new(costs)),
            WaitingRule::OwnerRunning => RuleState::OwnerRunning(OwnerRunning::new(costs)),
        };
        Waiter { state }
    }
}

impl fmt::Display for WaitingRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            WaitingRule::AlwaysBlock => f.pad("always-block"),
            WaitingRule::AlwaysSpin => f.pad("always-spin"),
            WaitingRule::AlwaysYield => f.pad("always-yield"),
            WaitingRule::TwoPhase(bound) => bound.fmt(f),
            WaitingRule::Adaptive => f.pad("adaptive"),
            LOAD_AWARE => f.pad("load-aware"),
            WaitingRule::LoadAware { thousandths: k } => f.pad(&format!("load-aware {}", units::of_thousandths(k))),
            WaitingRule::GrainAware => f.pad("grain-aware"),
            WaitingRule::Randomized => f.pad("randomized"),
            WaitingRule::VariableCompetitive => f.pad("variable-competitive"),
            WaitingRule::OwnerRunning => f.pad("owner-running"),
        }
    }
}

impl FromStr for WaitingRule {
    type Err = ParseRuleError;

    fn from_str(text: &str) -> Result<WaitingRule, ParseRuleError> {
        let trimmed = text.trim();
        let named = crate::table::WAITING.iter().filter_map(|entry| entry.rule);
        if let Some(rule) = named.into_iter().find(|rule| rule.to_string() == trimmed) {
            return Ok(rule);
        }
        let Some(number) = trimmed.strip_prefix("load-aware ") else { return text.parse().map(WaitingRule::TwoPhase) };
        let thousandths = units::thousandths(number.trim()).ok_or_else(|| ParseRuleError::Unknown(text.to_owned()))?;
        Ok(WaitingRule::LoadAware { thousandths })
    }
}
