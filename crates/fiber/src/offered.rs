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
//! A searcher that finds nothing requests fibers that have [started](crate::moving).

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

/// The queue; see the module.
#[derive(Default)]
pub(crate) struct OfferedFibers {
    queue: Mutex<Queue>,
    count: AtomicUsize,
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
        let queue = lock_by_polling(&self.queue);
        queue.push(fiber);
        let many = self.count.load(Relaxed);
        self.count.store(many + 1, SeqCst);
        drop(queue);
        many == 0 && !self.has_searcher.load(SeqCst)
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
        let queue = lock_by_polling(&self.queue);
        let fiber = queue.pop()?;
        self.count.store(self.count.load(Relaxed) - 1, Relaxed);
        self.taken.store(self.taken.load(Relaxed) + 1, Relaxed);
        if queue.is_empty() {
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

    /// Whether the last nap has passed without a fiber that was taken or offered.
    pub(crate) fn has_seen_nothing(&self) -> bool {
        self.nap > SHORTEST
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
