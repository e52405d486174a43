//! Bounds on spinning as they are written.

use std::fmt;
use std::str::FromStr;

use super::step::Costs;
use crate::units::{self, ParseSpanError, Span};

/// A bound on spinning: a span, or a multiple of CS with or without the margin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    pub(super) const TWO_CS_PLUS: Bound = Bound::OfCs { thousandths: 2000, plus: true };

    /// The bound on a machine with these costs.
    ///
    /// ```
    /// # use rowlock_policy::{Span, waiting::{Bound, Costs}};
    /// let costs = Costs { cs: Span::from_micros(6), margin: Span::from_micros(3), ..Costs::default() };
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseRuleError {
    /// No rule has this form.
    Unknown(String),
    /// A number without a unit.
    MissingUnit(String),
    /// An invalid span.
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
