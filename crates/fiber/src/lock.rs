//! A lock for one fiber at a time: the core of a [mutex](crate::mutex).
//!
//! One word contains the owner. With one worker, acquiring and releasing the lock are a comparison
//! and a store each; with several, one atomic operation each. All else happens inside the
//! [gate](crate::gate), which lists the waiters.
//!
//! # Which fiber is next
//! A released lock is free: the first waiter is woken, and acquires the lock when it runs, unless
//! another fiber has acquired it before. Handing over the lock would be fairer, but slower.
//! When a queue has formed, because a fiber was stopped while it held the lock, a fiber that
//! releases the lock and wants it again would find it owned by a fiber that does not run yet, and
//! would stop. So the queue would keep its length, with a switch for each acquisition (a *convoy*).
//! A waiter may therefore be passed over, but only once: it then waits at the front, and the lock
//! is handed over to it. Eight fibers that acquire one lock again and again, and yield with it
//! every five hundredth time, need 20 ns each time in this way and 210 ns with handing over
//! (medians of 12 interleaved runs on a busy machine). In one of the twelve it was 200 ns, too:
//! fibers that have been passed over can keep a queue together for a while.
//!
//! # Why no waiter is forgotten
//! If a fiber waits, the word has a mark, and the release goes through the gate. A fiber that is
//! about to wait sets the mark inside the gate, and only while the lock has an owner, in one atomic
//! step. The release clears the mark and takes one fiber off the list, which always tries again: it
//! acquires the lock, and sets the mark again if others still wait, or it finds the lock owned, and
//! sets the mark before it waits. A fiber that acquires the lock in between finds no mark, and
//! needs none: the woken fiber cares for those behind it.
//!
//! # Levels
//! The lock goes to the waiter of the highest level, and at one level to the first. The owner
//! inherits the level of the first waiter, and so does the owner of a lock for which this owner
//! waits, and so on. It drops the inherited level with the last such lock that it holds, not with
//! each. So it may keep a level for longer than the waiter of that level waits, but never for
//! longer than it holds locks.
//!
//! All that is for runtimes with one worker. Several workers have a queue each, and the levels of
//! one mean nothing to the others. There the waiters come in the order in which they arrived, and
//! the owner gets its turn from its own worker, at the next boost at the latest.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Instant;

use policy::feedback::Level;

use crate::error::TimedOut;
use crate::gate::Gate;
use crate::queue::Queue;
use crate::record::Fiber;
use crate::waits::{Waitable, Woken};
use crate::worker::{CurrentWorker, Worker};

/// No owner.
const FREE: usize = 0;

/// A fiber waits, or did when the word was written.
const WAITED_FOR: usize = 1;

/// An owner has panicked.
const POISONED: usize = 2;

/// The owner inherits a level because of this lock.
const INHERITED: usize = 4;

/// The bits that do not belong to the address.
const MARKS: usize = WAITED_FOR | POISONED | INHERITED;

/// The lock alone, without the value that it guards.
pub(crate) struct Lock {
    /// The owner's address, and marks.
    word: AtomicUsize,
    waiting: Gate<Queue>,
}

impl Lock {
    /// The offset of the word, for debuggers.
    pub(crate) const WORD: u64 = std::mem::offset_of!(Lock, word) as u64;

    pub(crate) const fn new() -> Lock {
        Lock { word: AtomicUsize::new(FREE), waiting: Gate::new(Queue::new()) }
    }

    /// Acquires the lock if it is free and not poisoned, and returns whether it was.
    #[inline(always)]
    fn acquire(&self, here: &Worker, me: Fiber) -> bool {
        if self.waiting.is_own(here) {
            let free = self.word.load(Relaxed) == FREE;
            if free {
                self.word.store(me.address(), Relaxed);
            }
            free
        } else {
            self.waiting.is_home(here) && self.word.compare_exchange(FREE, me.address(), Acquire, Relaxed).is_ok()
        }
    }

    /// Waits until it has acquired the lock.
    #[inline(always)]
    pub(crate) fn lock(&self, here: CurrentWorker) {
        let me = here.current();
        here.safepoint();
        if !self.acquire(&here, me) {
            self.lock_slowly(here, me);
        }
    }

    #[cold]
    #[inline(never)]
    fn lock_slowly(&self, here: CurrentWorker, me: Fiber) {
        // Without a deadline it always succeeds.
        let _ = self.lock_contended(here, me, None);
    }

    /// The same; fails if the deadline has passed.
    pub(crate) fn lock_until(&self, here: CurrentWorker, deadline: Instant) -> Result<(), TimedOut> {
        let me = here.current();
        here.safepoint();
        if self.acquire(&here, me) { Ok(()) } else { self.lock_contended(here, me, Some(deadline)) }
    }

    /// Acquires the lock if it is free.
    #[inline]
    pub(crate) fn try_lock(&self, here: CurrentWorker) -> bool {
        let me = here.current();
        here.safepoint();
        self.acquire(&here, me) || self.waiting.enter(&here, |waiting| self.acquire_gated(me, waiting, 0))
    }

    #[allow(clippy::panic, reason = "documented: the fiber would wait for itself")]
    fn lock_contended(&self, here: CurrentWorker, me: Fiber, deadline: Option<Instant>) -> Result<(), TimedOut> {
        if deadline.is_none() && self.word.load(Relaxed) & !MARKS == me.address() {
            panic!("a fiber locks a mutex that it has locked already: it would wait for itself forever");
        }
        let mut was_passed_over = false;
        loop {
            let taken = self.waiting.enter(&here, |waiting| {
                let taken = self.acquire_gated(me, waiting, WAITED_FOR);
                if !taken {
                    me.was_passed_over.set(was_passed_over);
                    insert(&here, waiting, me, was_passed_over);
                }
                taken
            });
            self.raise_owner(&here);
            if taken {
                return Ok(());
            }
            if here.block(self, deadline) == Woken::TimedOut {
                return Err(TimedOut);
            }
            if self.word.load(Relaxed) & !MARKS == me.address() {
                self.raise_owner(&here);
                return Ok(());
            }
            was_passed_over = true;
        }
    }

    /// Acquires the lock, or else sets a mark, in one step.
    fn acquire_gated(&self, me: Fiber, waiting: &Queue, mark: usize) -> bool {
        let others = if waiting.is_empty() { 0 } else { WAITED_FOR };
        let mut word = self.word.load(Relaxed);
        loop {
            let free = word & !MARKS == FREE;
            let new = if free { me.address() | (word & POISONED) | others } else { word | mark };
            match self.word.compare_exchange_weak(word, new, Acquire, Relaxed) {
                Ok(_) => return free,
                Err(now) => word = now,
            }
        }
    }

    /// Raises the owner to the level of the first waiter.
    fn raise_owner(&self, here: &Worker) {
        if !here.is_alone() {
            return;
        }
        let first = self.waiting.enter(here, |waiting| waiting.first());
        if let (Some(first), Some(owner)) = (first, self.owner(here)) {
            if self.word.fetch_or(INHERITED, Relaxed) & INHERITED == 0 {
                owner.inherited_levels.set(owner.inherited_levels.get() + 1);
            }
            here.inherit_level(owner, here.level(first));
        }
    }

    /// The owner, if it is a fiber of this runtime.
    fn owner(&self, here: &Worker) -> Option<Fiber> {
        here.core().records.at(self.word.load(Relaxed) & !MARKS)
    }

    /// Releases the lock.
    #[inline(always)]
    pub(crate) fn unlock(&self, here: CurrentWorker) {
        if self.waiting.is_own(&here) && self.word.load(Relaxed) & MARKS == 0 {
            self.word.store(FREE, Relaxed);
        } else {
            self.unlock_slowly(here);
        }
    }

    #[cold]
    #[inline(never)]
    fn unlock_slowly(&self, here: CurrentWorker) {
        if !self.waiting.is_home(&here) {
            // It was acquired in a runtime that is over. A new owner could not see what was done
            // under it.
            return;
        }
        if !here.is_alone() {
            let me = here.current().address();
            if self.word.compare_exchange(me, FREE, Release, Relaxed).is_ok() {
                return;
            }
        }
        if self.word.load(Relaxed) & INHERITED != 0
            && let Some(owner) = self.owner(&here)
        {
            let inherited = owner.inherited_levels.get().saturating_sub(1);
            owner.inherited_levels.set(inherited);
            if inherited == 0 {
                here.drop_inherited_level(owner);
            }
        }
        let next = self.waiting.enter(&here, |waiting| {
            let next = waiting.pop();
            let word = match next {
                Some(next) if next.was_passed_over.get() => {
                    next.address() | if waiting.is_empty() { 0 } else { WAITED_FOR }
                }
                _ => FREE,
            };
            // Meanwhile another fiber may clear the poison.
            let mut now = self.word.load(Relaxed);
            while let Err(other) = self.word.compare_exchange_weak(now, word | now & POISONED, Release, Relaxed) {
                now = other;
            }
            next
        });
        if let Some(next) = next {
            here.wake(next, Woken::Called);
            if here.is_alone() {
                here.yield_soon_if_outranked(next);
            }
        }
    }

    /// Poisons the lock, because its owner panics.
    #[cold]
    pub(crate) fn poison(&self) {
        self.word.fetch_or(POISONED, Relaxed);
    }

    #[inline(always)]
    pub(crate) fn is_poisoned(&self) -> bool {
        self.word.load(Relaxed) & POISONED != 0
    }

    pub(crate) fn clear_poison(&self) {
        self.word.fetch_and(!POISONED, Relaxed);
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.word.load(Relaxed) & !MARKS != FREE
    }
}

impl Waitable for Lock {
    fn leave(&self, fiber: Fiber) -> bool {
        self.waiting.enter(&CurrentWorker::expect(), |waiting| waiting.remove(fiber))
    }

    fn kind(&self) -> &'static str {
        "a mutex"
    }

    fn blocker(&self) -> Option<Fiber> {
        self.owner(&CurrentWorker::expect())
    }

    fn requeue_raised(&self, fiber: Fiber, here: &Worker) -> Option<Fiber> {
        let waits = self.waiting.enter(here, |waiting| {
            let waits = waiting.remove(fiber);
            if waits {
                insert(here, waiting, fiber, fiber.was_passed_over.get());
            }
            waits
        });
        waits.then(|| self.owner(here)).flatten()
    }
}

/// Inserts a fiber in its place among the waiters.
fn insert(here: &Worker, waiting: &mut Queue, fiber: Fiber, first: bool) {
    waiting.insert(fiber, first, |fiber| if here.is_alone() { here.level(fiber) } else { Level::default() });
}
