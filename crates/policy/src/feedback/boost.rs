//! How often a feedback queue forgives.

use std::fmt;
use std::str::FromStr;

use crate::units::{ParseSpanError, Span};

/// How often all threads go to the highest level. Written as a span of time above zero, or `never`.
///
/// ```
/// use rowlock_policy::Span;
/// use rowlock_policy::feedback::Boost;
///
/// assert_eq!("10 ms".parse(), Ok(Boost::Every(Span::from_millis(10))));
/// assert_eq!(Boost::Never.to_string(), "never");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Boost {
    /// After each such time.
    Every(Span),
    /// Not at all: a thread that has gone down stays there.
    Never,
}

impl fmt::Display for Boost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Boost::Every(span) => span.fmt(f),
            Boost::Never => f.pad("never"),
        }
    }
}

/// Why a text does not say how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseBoostError {
    /// It is no span of time.
    Span(ParseSpanError),
    /// No time at all would be all the time.
    Zero,
}

impl fmt::Display for ParseBoostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseBoostError::Span(why) => write!(f, "{why}, nor is it `never`"),
            ParseBoostError::Zero => {
                f.write_str("a boost cannot come all the time: write a time above zero, or `never`")
            }
        }
    }
}

impl std::error::Error for ParseBoostError {}

impl FromStr for Boost {
    type Err = ParseBoostError;

    fn from_str(text: &str) -> Result<Boost, ParseBoostError> {
        if text == "never" {
            return Ok(Boost::Never);
        }
        match text.parse::<Span>() {
            Ok(span) if span.is_zero() => Err(ParseBoostError::Zero),
            Ok(span) => Ok(Boost::Every(span)),
            Err(why) => Err(ParseBoostError::Span(why)),
        }
    }
}
