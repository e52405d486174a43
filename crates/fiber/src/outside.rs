//! Events from outside for which a worker's fibers wait.

use std::cell::{Cell, OnceCell};
use std::io;
use std::time::Instant;

use crate::calls::Calls;
use crate::reactor::Reactor;
use crate::worker::Worker;

/// A worker's sources of events from outside.
#[derive(Default)]
pub(crate) struct Outside {
    /// Created when it is first needed.
    reactor: OnceCell<Reactor>,
    pub(crate) calls: Calls,
    /// The runtime ends.
    is_ending: Cell<bool>,
}

impl Outside {
    /// The reactor, created if there is none.
    pub(crate) fn reactor(&self) -> io::Result<&Reactor> {
        if let Some(reactor) = self.reactor.get() {
            return Ok(reactor);
        }
        let reactor = Reactor::new()?;
        Ok(self.reactor.get_or_init(|| reactor))
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
        self.reactor.get().is_some_and(|reactor| reactor.is_awaited() || self.calls.is_awaited())
    }

    /// Wakes the fibers whose events have come.
    #[cold]
    pub(crate) fn look(&self, worker: &Worker) {
        if let Some(reactor) = self.reactor.get() {
            reactor.look(worker);
            self.calls.look(worker);
        }
    }

    /// Blocks the kernel thread until there may be something to do. Does not block if `busy`
    /// returns true, which is called when the worker already listens to the eventcount.
    #[cold]
    pub(crate) fn sleep(&self, worker: &Worker, until: Option<Instant>, busy: impl FnOnce() -> bool) {
        match (self.reactor(), until) {
            (Ok(reactor), _) => {
                reactor.sleep(worker, until, || busy() || self.calls.is_answered());
                self.calls.look(worker);
            }
            // There are no descriptors left, so no fiber waits for one either.
            (Err(_), Some(until)) => std::thread::sleep(until.saturating_duration_since(Instant::now())),
            (Err(_), None) => std::thread::yield_now(),
        }
    }
}
