//! The queue of fibers that any worker of a runtime may take: unstarted ones, and ready ones that a
//! worker has given away.
//!
//! # When workers help each other
//! Waking another CPU takes 3 to 100 us here. A fiber that runs there moves its record and its
//! outcome through the caches twice, while a worker that is awake runs dozens of short fibers in a
//! microsecond. So no worker is woken for a fiber. Instead one of the idle workers is the
//! *searcher*: it naps, and checks after each nap whether the other workers will soon be done by
//! themselves. If they have taken fewer fibers during the nap than are still queued, or none, they
//! will not. Then the searcher helps, and makes another sleeper the searcher. If there is nothing
//! to do, its naps become longer, and in the end it sleeps for good. After that, the next fiber
//! that is pushed to the empty queue wakes a sleeper as the searcher, which costs something once in
//! some milliseconds at most.
//!
//! Started fibers are in the queues of their workers, which no other worker touches. So a searcher
//! that finds nothing *requests* some. A worker with ready fibers sees the request when it next
//! reads its clock, and gives half of them away. That is late by the time for which a fiber reaches
//! no safepoint, or by a tick if it is preemptible.
//!
//! # Interrupted fibers
//! A fiber that was interrupted outside the runtime may hold a lock for which a worker waits. Such
//! a worker [donates its timeslice](crate::preempt) to interrupted fibers, one of which has the
//! lock. So the fiber must be among the recipients of some worker at all times, and while it is in
//! this queue it is among those of all. A handler that donates *borrows* it, without waiting, and
//! pushes it again when the next one's turn comes.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, fence};
use std::time::Duration;

use crate::queue::Queue;
use crate::record::Fiber;
use crate::sync::lock_by_polling;

/// The first nap; the kernel makes it half as long again or more.
const SHORTEST: Duration = Duration::from_micros(50);

/// After a nap of this length with nothing to do, the searcher sleeps for good.
const LONGEST: Duration = Duration::from_micros(1600);

/// All of them, oldest first.
#[derive(Default)]
struct Queues {
    /// Those that were interrupted outside the runtime. They may hold locks for which workers wait.
    interrupted: Queue,
    others: Queue,
}

/// The queue; see the module.
#[derive(Default)]
pub(crate) struct OfferedFibers {
    queues: Mutex<Queues>,
    count: AtomicUsize,
    /// How many of them were interrupted outside the runtime.
    interrupted: AtomicUsize,
    /// How many have ever been taken.
    taken: AtomicU64,
    has_searcher: AtomicBool,
    /// A thread outside, which takes none, has pushed some.
    urgent: AtomicBool,
    /// A worker has nothing to do.
    requested: AtomicBool,
}

impl OfferedFibers {
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Pushes a fiber. Returns true if it is the only one, and there is no searcher.
    pub(crate) fn push(&self, fiber: Fiber) -> bool {
        let queues = lock_by_polling(&self.queues);
        queues.others.push(fiber);
        self.add_one() && !self.has_searcher.load(SeqCst)
    }

    /// The same for a fiber that was interrupted outside the runtime.
    pub(crate) fn push_interrupted(&self, fiber: Fiber) -> bool {
        let queues = lock_by_polling(&self.queues);
        self.add_interrupted(&queues, fiber) && !self.has_searcher.load(SeqCst)
    }

    fn add_interrupted(&self, queues: &Queues, fiber: Fiber) -> bool {
        queues.interrupted.push(fiber);
        self.interrupted.store(self.interrupted.load(Relaxed) + 1, SeqCst);
        self.add_one()
    }

    fn pop_interrupted(&self, queues: &Queues) -> Option<Fiber> {
        let fiber = queues.interrupted.pop()?;
        self.interrupted.store(self.interrupted.load(Relaxed) - 1, Relaxed);
        self.count.store(self.count.load(Relaxed) - 1, Relaxed);
        Some(fiber)
    }

    /// Counts one that was pushed. Returns whether it is the only one. The caller has the lock.
    fn add_one(&self) -> bool {
        let many = self.count.load(Relaxed);
        self.count.store(many + 1, SeqCst);
        many == 0
    }

    pub(crate) fn has_interrupted(&self) -> bool {
        self.interrupted.load(Relaxed) > 0
    }

    /// Takes the oldest interrupted fiber, if there is one. It never waits, so that a handler may
    /// call it: it does nothing if the lock is taken.
    pub(crate) fn try_borrow(&self, borrowed: &Cell<Option<Fiber>>) {
        if self.has_interrupted()
            && let Ok(queues) = self.queues.try_lock()
        {
            borrowed.set(self.pop_interrupted(&queues));
        }
    }

    /// Pushes such a fiber again, in the same way.
    pub(crate) fn try_return(&self, borrowed: &Cell<Option<Fiber>>) {
        if let Ok(queues) = self.queues.try_lock()
            && let Some(fiber) = borrowed.take()
        {
            self.add_interrupted(&queues, fiber);
        }
    }

    /// Requests started fibers of other workers. Returns false if some are requested already.
    pub(crate) fn request(&self) -> bool {
        !self.requested.swap(true, Relaxed)
    }

    #[inline(always)]
    pub(crate) fn is_requested(&self) -> bool {
        self.requested.load(Relaxed)
    }

    /// Takes over the request, if there is one.
    pub(crate) fn take_request(&self) -> bool {
        self.requested.swap(false, Relaxed)
    }

    /// Pushes a fiber from outside.
    pub(crate) fn push_urgently(&self, fiber: Fiber) {
        self.urgent.store(true, Relaxed);
        self.push(fiber);
        fence(SeqCst);
    }

    pub(crate) fn pop(&self) -> Option<Fiber> {
        let queues = lock_by_polling(&self.queues);
        let fiber = self.pop_interrupted(&queues).or_else(|| {
            let fiber = queues.others.pop()?;
            self.count.store(self.count.load(Relaxed) - 1, Relaxed);
            Some(fiber)
        })?;
        self.taken.store(self.taken.load(Relaxed) + 1, Relaxed);
        if queues.others.is_empty() {
            self.urgent.store(false, Relaxed);
        }
        Some(fiber)
    }

    /// Whether a worker must not sleep, because there are fibers that no other worker may take.
    pub(crate) fn needs_worker(&self) -> bool {
        self.count.load(SeqCst) > 0 && (self.is_urgent() || !self.has_searcher.load(SeqCst))
    }

    /// Whether a thread outside waits for a worker to take one.
    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent.load(Relaxed)
    }

    /// Makes the caller the searcher, if there is none.
    pub(crate) fn try_search(&self) -> Option<Searcher<'_>> {
        let free = !self.has_searcher.swap(true, AcqRel);
        free.then(|| Searcher { offered: self, nap: SHORTEST, taken: self.taken.load(Acquire) })
    }
}

/// The worker that checks whether the others need help; see the module.
pub(crate) struct Searcher<'a> {
    offered: &'a OfferedFibers,
    nap: Duration,
    taken: u64,
}

impl Searcher<'_> {
    pub(crate) fn nap(&self) -> Duration {
        self.nap
    }

    /// Whether it must help, after a nap.
    pub(crate) fn should_help(&mut self) -> bool {
        let (many, taken) = (self.offered.len() as u64, self.offered.taken.load(Relaxed));
        let passed = taken.wrapping_sub(std::mem::replace(&mut self.taken, taken));
        self.nap = if passed > 0 || many > 0 { SHORTEST } else { self.nap * 2 };
        many > passed || many > 0 && self.offered.is_urgent()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.nap > LONGEST
    }
}

impl Drop for Searcher<'_> {
    fn drop(&mut self) {
        self.offered.has_searcher.store(false, SeqCst);
    }
}
