//! The boost period of a feedback queue.

use std::fmt;
use std::str::FromStr;

use crate::ParseError;
use crate::units::Span;

/// How often all threads move to the highest level. Written as a span of time above zero, or
/// `never`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Boost {
    /// After each such span of time.
    Every(Span),
    /// Not at all: a thread that has moved down stays there.
    Never,
}

impl Boost {
    /// The period, if there is one.
    pub const fn period(self) -> Option<Span> {
        match self {
            Boost::Every(period) => Some(period),
            Boost::Never => None,
        }
    }
}

impl fmt::Display for Boost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Boost::Every(span) => span.fmt(f),
            Boost::Never => f.pad("never"),
        }
    }
}

impl FromStr for Boost {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Boost, ParseError> {
        match text.parse::<Span>() {
            _ if text == "never" => Ok(Boost::Never),
            Ok(Span::ZERO) => {
                Err(ParseError("a boost period cannot be zero: write a time above zero, or `never`".to_owned()))
            }
            Ok(span) => Ok(Boost::Every(span)),
            Err(why) => Err(ParseError(format!("{why}, nor is it `never`"))),
        }
    }
}
