//! The standard library's durations as spans.

use std::time::Duration;

use policy::Span;

/// A duration as a span; 584 years at the most.
pub(crate) fn span(duration: Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
