//! The boost period of a feedback queue.

use std::fmt;
use std::str::FromStr;

use crate::units::{ParseSpanError, Span};

/// How often all threads move to the highest level. Written as a span of time above zero, or
/// `never`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// The reason why a text is not a boost period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseBoostError {
    /// It is not a span of time.
    Span(ParseSpanError),
    /// A period of zero.
    Zero,
}

impl fmt::Display for ParseBoostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseBoostError::Span(why) => write!(f, "{why}, nor is it `never`"),
            ParseBoostError::Zero => f.write_str("a boost period cannot be zero: write a time above zero, or `never`"),
        }
    }
}

impl std::error::Error for ParseBoostError {}

impl FromStr for Boost {
    type Err = ParseBoostError;

    fn from_str(text: &str) -> Result<Boost, ParseBoostError> {
        match text.parse::<Span>() {
            _ if text == "never" => Ok(Boost::Never),
            Ok(Span::ZERO) => Err(ParseBoostError::Zero),
            Ok(span) => Ok(Boost::Every(span)),
            Err(why) => Err(ParseBoostError::Span(why)),
        }
    }
}
