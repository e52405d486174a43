//! The errors of this crate.

use std::any::Any;

pub use sys::thread_block::ThreadBlockError;

/// Why a fiber was not spawned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The runtime has no room for another fiber.
    #[error("this runtime has room for {most} fibers at a time (see Config::most)")]
    TooMany {
        /// The maximum number of fibers.
        most: u32,
    },
    /// The process has no address space for the records of fibers, not even for a few.
    #[error(
        "no address space for fibers, not even for {most}: raise the limit of address space (ulimit -v), or set Config::most to fewer: {why}"
    )]
    Room {
        /// The smallest number of fibers that was tried.
        most: u32,
        /// The kernel's error.
        #[source]
        why: std::io::Error,
    },
    /// The runtime is over.
    #[error("the runtime is over, so it takes no more fibers")]
    Over,
    /// The fiber cannot have thread-locals of its own here as
    /// [requested](crate::ThreadControlBlocks), or cannot be interrupted.
    #[error(transparent)]
    Preemption(#[from] PreemptionError),
}

/// Why a fiber cannot be a thread of its own, or cannot be interrupted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PreemptionError {
    /// There are no thread control blocks for fibers.
    #[error("fibers cannot have thread control blocks here (see Config::thread_control_blocks): {0}")]
    Block(#[from] ThreadBlockError),
    /// The kernel has no timer.
    #[error("no timer to interrupt fibers: {0}")]
    Timer(#[source] std::io::Error),
    /// There is no kernel thread for another fiber, or no timer for the thread.
    #[error("no kernel thread for a fiber (see Config::thread_control_blocks): {0}")]
    Thread(#[source] std::io::Error),
    /// There is no stack for the code that runs after an interruption.
    #[error("no memory to interrupt fibers: {0}")]
    Stack(#[source] Box<StackError>),
}

/// Why there is no stack for a fiber.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StackError {
    /// The fiber asked for a stack that is too large.
    #[error("it asked for {asked} bytes, and the largest stack has {most}")]
    TooLarge {
        /// How many bytes it asked for.
        asked: usize,
        /// The size of the largest stack.
        most: usize,
    },
    /// The process has the maximum number of memory mappings, of which each stack's guard takes
    /// some.
    #[error(
        "the process has as many memory mappings as it may have, and each stack's guard takes two: \
         raise the sysctl vm.max_map_count, or use Linux 6.13 or later, where guards take none"
    )]
    Guards,
    /// The kernel has no more memory.
    #[error("no memory for a stack: {0}")]
    Memory(#[source] std::io::Error),
    /// The fiber cannot have a thread control block or a kernel thread.
    #[error(transparent)]
    Preemption(#[from] PreemptionError),
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
    /// It never ran: when its turn came, there was no stack for it.
    #[error("the fiber never ran, because there was no stack for it: {0}")]
    NoStack(#[source] StackError),
    /// It is the calling fiber.
    #[error("a fiber cannot wait for its own end")]
    Itself,
    /// It waits, directly or through others, for the calling fiber.
    #[error("the fibers would wait for each other's end forever: {0}")]
    Cycle(String),
}

/// The deadline has passed before the wait was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the deadline has passed")]
pub struct TimedOut;

/// The message of a panic.
pub(crate) fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
