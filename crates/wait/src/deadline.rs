//! Conversion of the standard library's deadlines and timeouts to the clock of waits.

use std::time;

use policy::{Instant, Span};

use crate::sync::now;

/// The deadline has passed before the awaited event occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the deadline passed before the awaited event occurred")]
pub struct TimedOut;

/// The time after this timeout.
pub(crate) fn after(timeout: time::Duration) -> Instant {
    now() + Span::from_nanos(timeout.as_nanos().try_into().unwrap_or(u64::MAX))
}

/// The same time on the other clock, or now if it has passed.
pub(crate) fn at(deadline: time::Instant) -> Instant {
    after(deadline.saturating_duration_since(time::Instant::now()))
}
