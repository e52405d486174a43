//! Errors of channels.

use std::fmt;

/// The channel has no receivers any more. Contains the value.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the channel has no receivers any more")]
pub struct SendError<T>(pub T);

/// Why a value was not sent at once. Contains the value.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TrySendError<T> {
    /// There is no room.
    #[error("the channel has no room for the value")]
    Full(T),
    /// There are no receivers any more.
    #[error("the channel has no receivers any more")]
    Closed(T),
}

/// Why a value was not sent in time. Contains the value.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendTimeoutError<T> {
    /// The deadline has passed.
    #[error("the deadline has passed, and the channel had no room for the value")]
    TimedOut(T),
    /// There are no receivers any more.
    #[error("the channel has no receivers any more")]
    Closed(T),
}

/// The channel has no senders any more, and all values have been received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the channel has no senders any more")]
pub struct RecvError;

/// Why no value was received at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TryRecvError {
    /// There is none.
    #[error("there is no value in the channel")]
    Empty,
    /// There are no senders any more.
    #[error("the channel has no senders any more")]
    Closed,
}

/// Why no value was received in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecvTimeoutError {
    /// The deadline has passed.
    #[error("the deadline has passed, and no value has arrived")]
    TimedOut,
    /// There are no senders any more.
    #[error("the channel has no senders any more")]
    Closed,
}

// The values are not shown, so they need not implement `Debug`.

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendError(..)")
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, TrySendError::Full(_)) { "Full(..)" } else { "Closed(..)" })
    }
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, SendTimeoutError::TimedOut(_)) { "TimedOut(..)" } else { "Closed(..)" })
    }
}
