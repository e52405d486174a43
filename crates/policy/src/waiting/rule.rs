//! Waiting rules, and bounds on spinning, as they are written.

use std::fmt;
use std::str::FromStr;

use super::step::Costs;
use super::{
    Adaptive, Adaptive1, Colocate, GrainAware, LoadAware, OwnerRunning, RuleState, TwoPhase, VariableCompetitive,
    Waiter,
};
use crate::table::WAITING;
use crate::units::{self, ParseSpanError, Span};

/// A waiting rule as written in a scenario, without the costs of a machine.
///
/// [`crate::table::WAITING`] lists all forms. The printed form parses back to the same rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum WaitingRule {
    /// Block immediately (AB).
    AlwaysBlock,
    /// Never give up the CPU.
    AlwaysSpin,
    /// Yield the CPU repeatedly, and never block.
    AlwaysYield,
    /// Move to the CPU where the team meets, and yield there.
    Colocate,
    /// Two-phase: spin up to a bound, then block.
    TwoPhase(Bound),
    /// Spin while the awaited threads run, yield while only siblings use the CPU, else block; see
    /// the module `adaptive`.
    #[default]
    Adaptive,
    /// The rule before [`Adaptive`](WaitingRule::Adaptive), for comparison. It does not check
    /// whether the awaited threads run; see the module `adaptive_1`.
    Adaptive1,
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

impl WaitingRule {
    /// Whether the rule depends on the costs of the machine.
    pub const fn needs_costs(self) -> bool {
        use WaitingRule::{AlwaysBlock, AlwaysSpin, AlwaysYield, TwoPhase};
        !matches!(self, AlwaysBlock | AlwaysSpin | AlwaysYield | TwoPhase(Bound::Fixed(_)))
    }

    /// Whether it is the adaptive rule or a former one.
    pub const fn is_adaptive(self) -> bool {
        matches!(self, WaitingRule::Adaptive | WaitingRule::Adaptive1)
    }

    /// The rule on a machine with these costs, for one waiting thread.
    pub const fn waiter(self, costs: Costs) -> Waiter {
        // The rule chooses the bound for each wait.
        let spin = TwoPhase::new(Span::ZERO);
        let state = match self {
            WaitingRule::AlwaysBlock => RuleState::TwoPhase(TwoPhase::new(Span::ZERO)),
            WaitingRule::AlwaysSpin => RuleState::AlwaysSpin,
            WaitingRule::AlwaysYield => RuleState::AlwaysYield,
            WaitingRule::Colocate => RuleState::Colocate(Colocate::new(costs)),
            WaitingRule::TwoPhase(bound) => RuleState::TwoPhase(TwoPhase::new(bound.on(costs))),
            WaitingRule::Adaptive => RuleState::Adaptive(Adaptive::new(costs)),
            WaitingRule::Adaptive1 => RuleState::Adaptive1(Adaptive1::new(costs)),
            WaitingRule::LoadAware { thousandths } => RuleState::LoadAware(LoadAware::new(thousandths, costs), spin),
            WaitingRule::GrainAware => RuleState::GrainAware(GrainAware::new(costs), spin),
            WaitingRule::Randomized => RuleState::Randomized(costs.cs, spin),
            WaitingRule::VariableCompetitive => RuleState::VariableCompetitive(VariableCompetitive::new(costs), spin),
            WaitingRule::OwnerRunning => RuleState::OwnerRunning(OwnerRunning::new(costs)),
        };
        Waiter { state }
    }
}

impl fmt::Display for WaitingRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(entry) = WAITING.iter().find(|entry| entry.rule == Some(*self)) {
            return f.pad(entry.form);
        }
        match *self {
            WaitingRule::TwoPhase(bound) => bound.fmt(f),
            WaitingRule::LoadAware { thousandths: k } => f.pad(&format!("load-aware {}", units::of_thousandths(k))),
            // All others are in the table.
            _ => fmt::Debug::fmt(self, f),
        }
    }
}

impl FromStr for WaitingRule {
    type Err = ParseRuleError;

    fn from_str(text: &str) -> Result<WaitingRule, ParseRuleError> {
        let trimmed = text.trim();
        if let Some(rule) = WAITING.iter().find(|entry| entry.form == trimmed).and_then(|entry| entry.rule) {
            return Ok(rule);
        }
        let Some(number) = trimmed.strip_prefix("load-aware ") else { return text.parse().map(WaitingRule::TwoPhase) };
        let thousandths = units::thousandths(number.trim()).ok_or_else(|| ParseRuleError::Unknown(text.to_owned()))?;
        Ok(WaitingRule::LoadAware { thousandths })
    }
}

/// A bound on spinning: a span, or a multiple of CS with or without the margin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Bound {
    /// This much running time, independent of the cost of a context switch.
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
    /// Slightly more than two context switches: `2cs+`.
    pub(crate) const TWO_CS_PLUS: Bound = Bound::OfCs { thousandths: 2000, plus: true };

    /// The bound on a machine with these costs.
    ///
    /// ```
    /// # use rowlock_policy::{Span, waiting::{Bound, Costs}};
    /// let (cs, margin) = (Span::from_micros(6), Span::from_micros(3));
    /// let costs = Costs { cs, margin, ..Costs::default() };
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
                    _ => format!("{} cs{}", units::of_thousandths(thousandths), if plus { "+" } else { "" }),
                };
                f.pad(&text)
            }
        }
    }
}

impl FromStr for Bound {
    type Err = ParseRuleError;

    /// Parses `"44 us"`, `cs`, `"5 cs"`, `cs+`, `2cs+`. A blank before the `cs` is optional.
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

/// The reason why a text is not a waiting rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseRuleError {
    /// No rule has this form.
    #[error("`{0}` is not a waiting rule")]
    Unknown(String),
    /// A number without a unit.
    #[error("missing unit: write \"{0} us\" or \"{0} cs\"")]
    MissingUnit(String),
    /// An invalid span.
    #[error("{0}")]
    Span(ParseSpanError),
}
