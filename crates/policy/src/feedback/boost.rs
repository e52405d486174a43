//! The boost period of a feedback queue.

use std::fmt;

use crate::units::Span;

/// How often all threads move to the highest level. Printed as a span of time, or `never`.
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
