//! A lock that several fibers may share: the core of a [reader-writer lock](crate::rwlock).
//!
//! Readers and writers take turns. A reader that comes while a writer waits waits, too. When the
//! current readers have left, the writer that has waited longest comes in. When it leaves, all
//! readers that wait by then come in. So a writer waits for the writers before it and one group of
//! readers between each two, and a reader waits for one writer, whatever the others do: neither
//! side starves. The lock is handed over, and no fiber comes in between.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use crate::error::TimedOut;
use crate::gate::{Gate, Gated};
use crate::queue::Queue;
use crate::record::Fiber;
use crate::waits::{Waitable, Woken};
use crate::worker::{CurrentWorker, Worker};

/// The lock alone, without the value that it guards.
pub(crate) struct SharedLock {
    waiting: Readers,
    poisoned: AtomicBool,
}

/// Where readers wait; writers use [`Writers`].
struct Readers(Gate<State>);

struct Writers<'a>(&'a Readers);

#[derive(Default)]
struct State {
    /// How many fibers share it.
    shares: usize,
    /// A fiber has it exclusively.
    excluded: bool,
    readers: Queue,
    writers: Queue,
}

impl Gated for State {
    fn forget_fibers(&mut self) {
        self.readers.forget_fibers();
        self.writers.forget_fibers();
    }
}

impl State {
    fn share(&mut self) -> bool {
        let can = !self.excluded && self.writers.is_empty();
        self.shares += usize::from(can);
        can
    }

    fn exclude(&mut self) -> bool {
        let can = !self.excluded && self.shares == 0;
        self.excluded |= can;
        can
    }

    /// Lets all waiting readers in.
    fn let_readers_in(&mut self, here: &Worker) {
        while let Some(fiber) = self.readers.pop() {
            self.shares += 1;
            here.wake(fiber, Woken::Called);
        }
    }

    /// Lets the next writer in, if there is one and no reader is in.
    fn let_writer_in(&mut self, here: &Worker) {
        if self.shares == 0
            && let Some(fiber) = self.writers.pop()
        {
            self.excluded = true;
            here.wake(fiber, Woken::Called);
        }
    }
}

impl SharedLock {
    pub(crate) const fn new() -> SharedLock {
        let state = State { shares: 0, excluded: false, readers: Queue::new(), writers: Queue::new() };
        SharedLock { waiting: Readers(Gate::new(state)), poisoned: AtomicBool::new(false) }
    }

    /// Waits until it shares the lock.
    #[inline]
    pub(crate) fn share(&self, here: CurrentWorker, deadline: Option<Instant>) -> Result<(), TimedOut> {
        here.safepoint();
        let me = here.current();
        let can = self.waiting.0.enter(&here, |state| {
            let can = state.share();
            if !can {
                state.readers.push(me);
            }
            can
        });
        if can || here.block(&self.waiting, deadline) != Woken::TimedOut { Ok(()) } else { Err(TimedOut) }
    }

    pub(crate) fn try_share(&self, here: CurrentWorker) -> bool {
        here.safepoint();
        self.waiting.0.enter(&here, State::share)
    }

    /// Releases a share.
    #[inline]
    pub(crate) fn unshare(&self, here: CurrentWorker) {
        if self.waiting.0.is_home(&here) {
            self.waiting.0.enter(&here, |state| {
                state.shares -= 1;
                state.let_writer_in(&here);
            });
        }
    }

    /// Waits until it has the lock exclusively.
    #[inline]
    pub(crate) fn exclude(&self, here: CurrentWorker, deadline: Option<Instant>) -> Result<(), TimedOut> {
        here.safepoint();
        let me = here.current();
        let can = self.waiting.0.enter(&here, |state| {
            let can = state.exclude();
            if !can {
                state.writers.push(me);
            }
            can
        });
        if can || here.block(&Writers(&self.waiting), deadline) != Woken::TimedOut { Ok(()) } else { Err(TimedOut) }
    }

    pub(crate) fn try_exclude(&self, here: CurrentWorker) -> bool {
        here.safepoint();
        self.waiting.0.enter(&here, State::exclude)
    }

    /// Releases the exclusive lock.
    #[inline]
    pub(crate) fn unexclude(&self, here: CurrentWorker) {
        if self.waiting.0.is_home(&here) {
            self.waiting.0.enter(&here, |state| {
                state.excluded = false;
                state.let_readers_in(&here);
                state.let_writer_in(&here);
            });
        }
    }

    #[cold]
    pub(crate) fn set_poisoned(&self, poisoned: bool) {
        self.poisoned.store(poisoned, Relaxed);
    }

    #[inline]
    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned.load(Relaxed)
    }
}

impl Waitable for Readers {
    fn leave(&self, fiber: Fiber) -> bool {
        self.0.enter(&CurrentWorker::expect(), |state| state.readers.remove(fiber))
    }

    fn kind(&self) -> &'static str {
        "a reader-writer lock, to read"
    }
}

impl Waitable for Writers<'_> {
    fn leave(&self, fiber: Fiber) -> bool {
        let here = CurrentWorker::expect();
        self.0.0.enter(&here, |state| {
            let waited = state.writers.remove(fiber);
            // It may be the writer that kept readers out.
            if waited && state.writers.is_empty() && !state.excluded {
                state.let_readers_in(&here);
            }
            waited
        })
    }

    fn kind(&self) -> &'static str {
        "a reader-writer lock, to write"
    }
}
