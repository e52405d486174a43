//! Waiting rules, as they are written.

use std::fmt;
use std::str::FromStr;

use super::adaptive::Adaptive;
use super::{Bound, Costs, Kind, Waiter};
use crate::units::{ParseSpanError, Span};

/// A waiting rule as it is written in a scenario: not yet tied to a machine's costs.
///
/// [`crate::table::WAITING`] lists the ways to write one. What is printed reads back as the same rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rule {
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
}

impl Rule {
    /// Whether what things cost on the machine matters to it.
    pub const fn needs_costs(self) -> bool {
        match self {
            Rule::AlwaysBlock | Rule::AlwaysSpin | Rule::AlwaysYield | Rule::TwoPhase(Bound::Fixed(_)) => false,
            Rule::TwoPhase(Bound::OfCs { .. }) | Rule::Adaptive => true,
        }
    }

    /// The rule on a machine with these costs, ready to be asked by one waiting thread.
    pub const fn waiter(self, costs: Costs) -> Waiter {
        let kind = match self {
            Rule::AlwaysBlock => Kind::AlwaysBlock,
            Rule::AlwaysSpin => Kind::AlwaysSpin,
            Rule::AlwaysYield => Kind::AlwaysYield,
            Rule::TwoPhase(bound) => Kind::TwoPhase { limit: bound.on(costs), spun: Span::ZERO },
            Rule::Adaptive => Kind::Adaptive(Adaptive::new(costs)),
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
            Rule::Adaptive => f.pad("adaptive"),
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
