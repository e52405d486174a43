//! Conversion of the standard library's durations.

use std::time::Duration;

use policy::Span;

/// A duration as a span, at most 584 years.
pub(crate) fn span(duration: Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
