//! Deadlines: the standard library's clock and timeouts on the clock that waits go by.

use std::time;

use policy::{Instant, Span};

use crate::sync::now;

/// The deadline has passed, and what was awaited has not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the deadline has passed, and what was awaited has not come")]
pub struct TimedOut;

/// When so much time has passed from now on.
pub(crate) fn after(timeout: time::Duration) -> Instant {
    now() + Span::from_nanos(timeout.as_nanos().try_into().unwrap_or(u64::MAX))
}

/// The same moment; now, where that has passed.
pub(crate) fn at(deadline: time::Instant) -> Instant {
    after(deadline.saturating_duration_since(time::Instant::now()))
}
