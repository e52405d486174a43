//! What can go wrong.

use std::any::Any;

pub use sys::thread_block::ThreadBlockError;

use crate::deadlock::Deadlock;

/// Why there is no new fiber.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// There are as many as the runtime has room for.
    #[error("no more fibers: the most at a time that this runtime has room for is {most} (see Config::most)")]
    TooMany {
        /// How many that is.
        most: u32,
    },
    /// The kernel gives no more memory.
    #[error("no memory for another fiber: {0}")]
    Memory(#[source] std::io::Error),
    /// The kernel gives no address space for the records of fibers, not even of a few.
    #[error(
        "no address space for fibers, not even for {most}: raise the limit of address space (ulimit -v), or set Config::most to fewer: {why}"
    )]
    Room {
        /// The fewest for which there was to be some.
        most: u32,
        /// What the kernel says.
        #[source]
        why: std::io::Error,
    },
    /// The runtime is over.
    #[error("the runtime is over, so there will be no more fibers in it")]
    Over,
    /// It was to be [preemptible](crate::Builder::preemptible), and cannot be here.
    #[error(transparent)]
    Preemption(#[from] PreemptionError),
}

/// Why a fiber cannot be interrupted anywhere.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PreemptionError {
    /// There are no thread control blocks for fibers.
    #[error("fibers cannot be preemptible here: {0}")]
    Block(#[from] ThreadBlockError),
    /// The kernel gives no timer.
    #[error("no timer to interrupt fibers by: {0}")]
    Timer(#[source] std::io::Error),
    /// There is no kernel thread for one more, or no timer to interrupt it by.
    #[error("no kernel thread for a preemptible fiber (see Config::preempt_by): {0}")]
    Thread(#[source] std::io::Error),
    /// There is no stack for what runs when a fiber was interrupted.
    #[error("no memory to interrupt fibers: {0}")]
    Stack(#[source] Box<StackError>),
}

/// Why there is no stack for a fiber.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StackError {
    /// It asked for one that is larger than any.
    #[error("it asked for {asked} bytes, and the largest stack has {most}")]
    TooLarge {
        /// How many bytes it asked for.
        asked: usize,
        /// How many bytes there may be.
        most: usize,
    },
    /// The kernel keeps no more mappings for this process, of which each stack's guard takes some.
    #[error(
        "there are as many memory mappings as a process may have, of which each stack's guard takes two: \
         raise the sysctl vm.max_map_count, or use Linux 6.13 or later, where guards take none"
    )]
    Guards,
    /// The kernel gives no more memory.
    #[error("no memory for a stack: {0}")]
    Memory(#[source] std::io::Error),
    /// It was to be preemptible, and that cannot be.
    #[error(transparent)]
    Preemption(#[from] PreemptionError),
}

/// Why a runtime's first fiber has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It could not be made.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// There is no kernel thread for another worker.
    #[error("no kernel thread for another worker (see Config::workers): {0}")]
    Worker(#[source] std::io::Error),
    /// It waited for something that could never come.
    #[error("{0}")]
    Deadlock(Deadlock),
    /// It left by [`exit`](crate::exit).
    #[error("the first fiber left by exit")]
    Exited,
    /// There is a runtime on this thread.
    #[error("a runtime runs on this thread already: make fibers there")]
    Inside,
    /// A [deterministic](crate::Config::deterministic) runtime, or one by a [scripted clock](crate::Config::clock), was to have several workers.
    #[error("{workers} workers do not go by a seed or a scripted clock: set Config::workers to 1")]
    Workers {
        /// How many.
        workers: u32,
    },
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
    /// It never ran: when its turn came there was no stack for it.
    #[error("the fiber never ran, since there was no stack for it: {0}")]
    NoStack(#[source] StackError),
    /// It is the one that would wait.
    #[error("a fiber cannot wait for its own end")]
    Itself,
    /// It waits, directly or through others, for the one that would wait for it.
    #[error("the fibers would wait for each other's end for ever: {0}")]
    Cycle(String),
}

/// The deadline has passed, and what was awaited has not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the deadline has passed, and what was awaited has not come")]
pub struct TimedOut;

/// What a panic said.
pub(crate) fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
