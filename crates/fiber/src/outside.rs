//! What a worker's fibers wait for that no fiber does.

use std::cell::{Cell, OnceCell};
use std::io;
use std::time::Instant;

use crate::calls::Calls;
use crate::reactor::Reactor;
use crate::worker::Worker;

/// A worker's relations with what is no fiber.
#[derive(Default)]
pub(crate) struct Outside {
    /// From the first time on that it is needed.
    reactor: OnceCell<Reactor>,
    pub(crate) calls: Calls,
    /// The runtime ends.
    is_ending: Cell<bool>,
}

impl Outside {
    /// The reactor, made where there was none.
    pub(crate) fn reactor(&self) -> io::Result<&Reactor> {
        if let Some(reactor) = self.reactor.get() {
            return Ok(reactor);
        }
        let reactor = Reactor::new()?;
        Ok(self.reactor.get_or_init(|| reactor))
    }

    /// The runtime ends: who unwinds waits for nothing outside any more.
    pub(crate) fn begin_shutdown(&self) {
        self.is_ending.set(true);
    }

    /// Whether the fiber that asks must not wait for anything outside: its runtime ends, and nobody will wait for it in turn, but it cannot be called off either, as it
    /// unwinds.
    pub(crate) fn is_wait_forbidden(&self, worker: &Worker) -> bool {
        self.is_ending.get() && worker.is_panicking()
    }

    /// Whether a fiber waits for something that comes from outside.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        self.reactor.get().is_some_and(|reactor| reactor.is_awaited() || self.calls.is_awaited())
    }

    /// Wakes those for whom something has come.
    #[cold]
    pub(crate) fn look(&self, worker: &Worker) {
        if let Some(reactor) = self.reactor.get() {
            reactor.look(worker);
            self.calls.look(worker);
        }
    }

    /// Blocks the kernel thread until there may be something to do; not at all if `busy` says that there is, which is asked when the eventcount is listened to.
    #[cold]
    pub(crate) fn sleep(&self, worker: &Worker, until: Option<Instant>, busy: impl FnOnce() -> bool) {
        match (self.reactor(), until) {
            (Ok(reactor), _) => {
                reactor.sleep(worker, until, || busy() || self.calls.is_answered());
                self.calls.look(worker);
            }
            // There are no descriptors left; so nobody waits for one either.
            (Err(_), Some(until)) => std::thread::sleep(until.saturating_duration_since(Instant::now())),
            (Err(_), None) => std::thread::yield_now(),
        }
    }
}
