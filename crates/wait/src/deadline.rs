//! Deadlines, and their conversion to the clock of waits.

use std::time;

use policy::{Instant, Span};

use crate::sync::now;

/// The deadline has passed before the awaited event occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the deadline passed before the awaited event occurred")]
pub struct TimedOut;

/// When a thread stops waiting: at a [`time::Instant`], or after a timeout that begins now, a
/// [`time::Duration`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(pub(crate) Option<Instant>);

impl Deadline {
    /// The thread waits for the event, however long that takes.
    pub const NEVER: Deadline = Deadline(None);
}

impl From<time::Duration> for Deadline {
    fn from(timeout: time::Duration) -> Deadline {
        Deadline(Some(now() + Span::from_nanos(timeout.as_nanos().try_into().unwrap_or(u64::MAX))))
    }
}

impl From<time::Instant> for Deadline {
    fn from(deadline: time::Instant) -> Deadline {
        deadline.saturating_duration_since(time::Instant::now()).into()
    }
}
