//! What can go wrong.

use std::any::Any;

use crate::deadlock::Deadlock;

/// Why there is no new fiber.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// There are as many as the runtime has room for.
    #[error("there are {most} fibers already, the most that this runtime has room for (see Config::most)")]
    TooMany {
        /// How many that is.
        most: u32,
    },
    /// The kernel gives no more memory.
    #[error("no memory for another fiber: {0}")]
    Memory(#[source] std::io::Error),
}

/// Why a runtime's first fiber has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It could not be made.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// It waited for something that could never come.
    #[error("{0}")]
    Deadlock(Deadlock),
    /// It left by [`exit`](crate::exit).
    #[error("the first fiber left by exit")]
    Exited,
    /// There is a runtime on this thread.
    #[error("a runtime runs on this thread already: make fibers there")]
    Inside,
}

/// Why a fiber has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// It panicked, with this payload.
    #[error("the fiber panicked: {}", message(.0.as_ref()))]
    Panicked(Box<dyn Any + Send>),
    /// Its runtime ended before it did.
    #[error("the fiber's runtime ended before it did")]
    Cancelled,
    /// It left by [`exit`](crate::exit).
    #[error("the fiber left by exit")]
    Exited,
    /// It is the one that would wait.
    #[error("a fiber cannot wait for its own end")]
    Itself,
    /// It waits, directly or through others, for the one that would wait for it.
    #[error("the fibers would wait for each other's end for ever: {0}")]
    Cycle(String),
}

/// What a panic said.
fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
