//! Events from outside for which a worker's fibers wait.

use std::cell::{Cell, OnceCell};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::io::Errno;

use crate::record::Fiber;
use crate::worker::Worker;

/// The event that a fiber waits for at a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Something to read, or the end of it, or a connection.
    In = 0,
    /// Room to write, or an established connection.
    Out = 1,
}

/// A worker's source of events.
pub(crate) trait EventSource {
    /// Registers the worker's running fiber to be woken when the descriptor is ready.
    fn register(&self, fd: BorrowedFd<'_>, direction: Direction, worker: &Worker) -> Result<(), Errno>;

    /// Removes a fiber. Returns false if it has been woken.
    fn leave(&self, fd: BorrowedFd<'_>, direction: Direction, fiber: Fiber) -> bool;

    /// Whether a fiber is registered.
    fn is_awaited(&self) -> bool;

    /// Wakes the fibers whose descriptors are ready. Does not wait.
    fn look(&self, worker: &Worker);

    /// Lets the next event request a tick, if that is possible.
    fn ask_to_be_watched(&self);

    /// Whether the next event requests a tick.
    fn is_watched(&self) -> bool;

    /// Waits for a descriptor, for this time, or for the worker's eventfd.
    fn sleep(&self, worker: &Worker, until: Option<Instant>);
}

/// Makes an event source for a worker with this eventfd.
pub(crate) type MakeSource = fn(&OwnedFd) -> io::Result<Box<dyn EventSource>>;

/// A worker's access to events from outside.
pub(crate) struct Outside {
    make: MakeSource,
    /// Made when it is first needed.
    source: OnceCell<Box<dyn EventSource>>,
    /// The runtime ends.
    is_ending: Cell<bool>,
}

impl Outside {
    pub(crate) fn new(make: MakeSource) -> Outside {
        Outside { make, source: OnceCell::new(), is_ending: Cell::new(false) }
    }

    /// The runtime ends: fibers that unwind do not wait for events from outside any more.
    pub(crate) fn begin_shutdown(&self) {
        self.is_ending.set(true);
    }

    /// Whether the calling fiber must not wait for events from outside: its runtime ends and no
    /// worker will wait for them, but the fiber cannot be cancelled either, because it unwinds.
    pub(crate) fn is_wait_forbidden(&self) -> bool {
        self.is_ending.get() && std::thread::panicking()
    }

    /// Whether a fiber waits for an event from outside.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited_source().is_some()
    }

    /// The source of events, if a fiber waits for one.
    #[inline]
    pub(crate) fn awaited_source(&self) -> Option<&dyn EventSource> {
        self.source.get().map(|source| &**source).filter(|source| source.is_awaited())
    }
}

impl Worker {
    /// The worker's source of events, made if there is none.
    pub(crate) fn event_source(&self) -> io::Result<&dyn EventSource> {
        if let Some(source) = self.outside.source.get() {
            return Ok(&**source);
        }
        let source = (self.outside.make)(self.inbox().make_eventfd()?)?;
        Ok(&**self.outside.source.get_or_init(|| source))
    }

    /// Wakes the fibers whose events have come.
    #[cold]
    pub(crate) fn look_outside(&self) {
        if let Some(source) = self.outside.source.get() {
            source.look(self);
        }
    }
}
