//! Fibers that have not started, in a runtime with several workers: they lie in one place, from which any worker takes them.
//!
//! Only these ever move. One that has started stays with its worker, because of all that the language, the compiler and the C library keep for each kernel thread; see
//! [`soundness`](crate::soundness).
//!
//! # Who helps whom
//! Waking another CPU takes 3 to 100 us here, and a fiber that runs there brings its record and its outcome through the caches twice, while a worker that is awake runs dozens of
//! short fibers in a microsecond. So nobody is awakened for a fiber. Instead one worker of those that have nothing to do is the *searcher*: it naps, and looks after each nap
//! whether those who are awake will be done soon by themselves. If fewer have been taken during the nap than lie there still, or none, they will not, and it
//! helps, and makes another sleeper the searcher. If there is nothing for it, its naps become longer, and in the end it sleeps for good. Then the next fiber that
//! comes to lie there alone awakens a sleeper for a searcher, which costs something once in some milliseconds at most.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, fence};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::queue::Queue;
use crate::record::Fiber;

/// The first nap; the kernel makes it half as long again or more.
const SHORTEST: Duration = Duration::from_micros(50);

/// After a nap of this length with nothing to do, the searcher sleeps.
const LONGEST: Duration = Duration::from_micros(1600);

/// The place; see the module.
#[derive(Default)]
pub(crate) struct UnstartedFibers {
    queue: Mutex<Queue>,
    count: AtomicUsize,
    /// How many have been taken, ever.
    taken: AtomicU64,
    /// There is a searcher.
    has_searcher: AtomicBool,
    /// Somebody outside, who takes none, has put some here.
    urgent: AtomicBool,
}

impl UnstartedFibers {
    /// How many there are; it may be otherwise at once.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// One more. True if it is the only one, and there is no searcher.
    pub(crate) fn push(&self, fiber: Fiber) -> bool {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push(fiber);
        let many = self.count.load(Relaxed);
        self.count.store(many + 1, SeqCst);
        drop(queue);
        many == 0 && !self.has_searcher.load(SeqCst)
    }

    /// One from outside.
    pub(crate) fn push_urgently(&self, fiber: Fiber) {
        self.urgent.store(true, Relaxed);
        self.push(fiber);
        fence(SeqCst);
    }

    /// The one that has lain here for longest.
    pub(crate) fn pop(&self) -> Option<Fiber> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let fiber = queue.pop()?;
        self.count.store(self.count.load(Relaxed) - 1, Relaxed);
        self.taken.store(self.taken.load(Relaxed) + 1, Relaxed);
        if queue.is_empty() {
            self.urgent.store(false, Relaxed);
        }
        Some(fiber)
    }

    /// Whether a worker that would sleep must not, as there are some, and nobody else may see to them.
    pub(crate) fn needs_worker(&self) -> bool {
        self.count.load(SeqCst) > 0 && (self.is_urgent() || !self.has_searcher.load(SeqCst))
    }

    /// Whether somebody outside waits for a worker to take one.
    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent.load(Relaxed)
    }

    /// Becomes the searcher, if there is none.
    pub(crate) fn try_search(&self) -> Option<Searcher<'_>> {
        let free = !self.has_searcher.swap(true, AcqRel);
        free.then(|| Searcher { unstarted: self, nap: SHORTEST, taken: self.taken.load(Acquire) })
    }
}

/// The worker that looks whether the others need help; see the module.
pub(crate) struct Searcher<'a> {
    unstarted: &'a UnstartedFibers,
    nap: Duration,
    taken: u64,
}

impl Searcher<'_> {
    /// How long to sleep now.
    pub(crate) fn nap(&self) -> Duration {
        self.nap
    }

    /// Whether it is to help, after a nap.
    pub(crate) fn should_help(&mut self) -> bool {
        let (many, taken) = (self.unstarted.len() as u64, self.unstarted.taken.load(Relaxed));
        let passed = taken.wrapping_sub(std::mem::replace(&mut self.taken, taken));
        self.nap = if passed > 0 || many > 0 { SHORTEST } else { self.nap * 2 };
        many > passed || many > 0 && self.unstarted.is_urgent()
    }

    /// Whether it has looked for long enough.
    pub(crate) fn is_done(&self) -> bool {
        self.nap > LONGEST
    }
}

impl Drop for Searcher<'_> {
    fn drop(&mut self) {
        self.unstarted.has_searcher.store(false, SeqCst);
    }
}
