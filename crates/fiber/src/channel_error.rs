//! Why a channel did not take or give a value.

use std::fmt;

/// Nobody is left who could receive the value, which is here.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nobody is left who could receive the value")]
pub struct SendError<T>(pub T);

/// Why a value was not sent at once; it is here.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TrySendError<T> {
    /// There is no room.
    #[error("the channel has no room for the value")]
    Full(T),
    /// Nobody is left who could receive it.
    #[error("nobody is left who could receive the value")]
    Closed(T),
}

/// Why a value was not sent in time; it is here.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendTimeoutError<T> {
    /// The deadline has passed.
    #[error("the deadline has passed, and the channel had no room for the value")]
    TimedOut(T),
    /// Nobody is left who could receive it.
    #[error("nobody is left who could receive the value")]
    Closed(T),
}

/// Nobody is left who could send a value, and all that were sent have been received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody is left who could send a value")]
pub struct RecvError;

/// Why no value was received at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TryRecvError {
    /// There is none.
    #[error("there is no value in the channel")]
    Empty,
    /// Nobody is left who could send one.
    #[error("nobody is left who could send a value")]
    Closed,
}

/// Why no value was received in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecvTimeoutError {
    /// The deadline has passed.
    #[error("the deadline has passed, and no value has come")]
    TimedOut,
    /// Nobody is left who could send one.
    #[error("nobody is left who could send a value")]
    Closed,
}

// The values need not be shown, so they need not be such that they can be.

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
