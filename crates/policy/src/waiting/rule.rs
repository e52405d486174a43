//! Waiting rules, as they are written.

use std::fmt;
use std::str::FromStr;

use super::{
    Adaptive, Bound, Costs, GrainAware, LoadAware, OwnerRunning, Randomized, RuleState, TwoPhase, VariableCompetitive,
    Waiter,
};
use crate::units::{self, ParseSpanError};

/// A waiting rule as it is written in a scenario: not yet tied to a machine's costs.
///
/// [`crate::table::WAITING`] lists the ways to write one. What is printed reads back as the same rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WaitingRule {
    /// Block at once (AB).
    AlwaysBlock,
    /// Never give up the CPU.
    AlwaysSpin,
    /// Yield the CPU again and again, and never block.
    AlwaysYield,
    /// Two-phase: spin up to a bound, then block.
    TwoPhase(Bound),
    /// Spin where that can help, yield where nobody takes advantage of it, else block: see the module of its name.
    #[default]
    Adaptive,
    /// Spin for 2CS+ while there are fewer than K threads for each CPU, else block.
    LoadAware {
        /// K in thousandths, so that rules compare exactly.
        thousandths: u64,
    },
    /// Spin for 2CS+ where the computations between waits are shorter than 5 CS, else block.
    GrainAware,
    /// Spin for a random time up to CS, then block.
    Randomized,
    /// Spin for what would have cost least over the last waits, then block.
    VariableCompetitive,
    /// Spin while the awaited are taken to be running, else block.
    OwnerRunning,
}

/// What `load-aware` is without a K of its own: two threads for each CPU.
const LOAD_AWARE: WaitingRule = WaitingRule::LoadAware { thousandths: 2000 };

impl WaitingRule {
    /// Whether what things cost on the machine matters to it.
    pub const fn needs_costs(self) -> bool {
        match self {
            WaitingRule::AlwaysBlock
            | WaitingRule::AlwaysSpin
            | WaitingRule::AlwaysYield
            | WaitingRule::TwoPhase(Bound::Fixed(_)) => false,
            WaitingRule::TwoPhase(Bound::OfCs { .. })
            | WaitingRule::Adaptive
            | WaitingRule::LoadAware { .. }
            | WaitingRule::GrainAware => true,
            WaitingRule::Randomized | WaitingRule::VariableCompetitive | WaitingRule::OwnerRunning => true,
        }
    }

    /// The rule on a machine with these costs, ready to be asked by one waiting thread.
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
            WaitingRule::LoadAware { thousandths } => {
                f.pad(&format!("load-aware {}", units::of_thousandths(thousandths)))
            }
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
        match trimmed.strip_prefix("load-aware ") {
            Some(number) => match units::thousandths(number.trim()) {
                Some(thousandths) => Ok(WaitingRule::LoadAware { thousandths }),
                None => Err(ParseRuleError::Unknown(text.to_owned())),
            },
            None => text.parse().map(WaitingRule::TwoPhase),
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
