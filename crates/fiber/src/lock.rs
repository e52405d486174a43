//! A lock that lets one fiber in at a time: what is in a [mutex](crate::mutex).
//!
//! One word says who has it. With one worker taking it and giving it back are a comparison and a store each; with several, one atomic operation each. All else
//! happens inside the [gate], where those are listed who wait.
//!
//! # Who comes next
//! A lock that is given back is free: the first of those who wait is woken, and takes it when it comes to run, if nobody else has come before it. Handing it over
//! at once would be fairer and slower: once a queue has formed, because a fiber was stopped while it had the lock, whoever gives it back and wants it
//! again would find it taken by somebody who does not run yet, stop, and so the queue would stay as long as it is, with a switch for each time
//! that the lock is taken (a *convoy*). So a fiber may be passed by; but only once: who has come in vain waits at the front, and then the lock is handed over.
//! Eight fibers that take one lock again and again, and yield with it at every five hundredth time, need 20 ns a time so and 210 ns with handing over (medians of 12 interleaved
//! runs on a busy machine). In one of the twelve it was 200 ns, too: those who have come in vain can keep a queue together for a while.
//!
//! # Why nobody is forgotten
//! Somebody waits, and the word says so by a mark; then giving it back goes through the gate. The mark is set inside the gate by whoever is about to wait, and only
//! while somebody has the lock, in one atomic step. Giving the lock back clears it, and takes one fiber off the list, who comes back in any case: it takes the lock,
//! and sets the mark again if others wait still; or finds it taken, and sets the mark again before it waits. Whoever takes the lock in between finds no
//! mark, and needs none: the fiber that has been woken speaks for those behind it.
//!
//! # Levels
//! The lock goes to the highest level of those who wait, and at one level to who came first. Whoever has the lock while somebody waits is lent the level of the first of
//! them, and so is, if it waits for a lock itself, who has that one. It gives that back with the last such lock that it has, not with each: so it may be
//! at a level for longer than the one whose level that is waits, but never for longer than it has locks.
//!
//! All that is for runtimes with one worker. Between several each has a queue of its own, where levels mean nothing to the others: there those who wait come in
//! the order in which they came, and who has the lock gets its turn from its own worker, at the next boost at the latest.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Instant;

use policy::feedback::Level;

use crate::error::TimedOut;
use crate::gate::Gate;
use crate::queue::Queue;
use crate::record::Fiber;
use crate::waits::{Waits, Woken};
use crate::worker::{Here, Worker};

/// Nobody has it.
const FREE: usize = 0;

/// Somebody waits, or did when the word was written.
const WAITED_FOR: usize = 1;

/// Whoever had it has panicked.
const POISONED: usize = 2;

/// Whoever has it is lent a level for it.
const INHERITED: usize = 4;

/// The bits that are no address.
const MARKS: usize = WAITED_FOR | POISONED | INHERITED;

/// The lock alone, without what it guards.
pub(crate) struct Lock {
    /// Who has it, by address, and marks.
    word: AtomicUsize,
    waiting: Gate<Queue>,
}

impl Lock {
    /// Where the word is, for debuggers.
    pub(crate) const WORD: u64 = std::mem::offset_of!(Lock, word) as u64;

    pub(crate) const fn new() -> Lock {
        Lock { word: AtomicUsize::new(FREE), waiting: Gate::new(Queue::new()) }
    }

    /// Whether it was free and clean, and has been taken.
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

    /// Waits until it has the lock.
    #[inline(always)]
    pub(crate) fn lock(&self, here: Here) {
        let me = here.current();
        here.safepoint();
        if !self.acquire(&here, me) {
            self.lock_slowly(here, me);
        }
    }

    #[cold]
    #[inline(never)]
    fn lock_slowly(&self, here: Here, me: Fiber) {
        // Without a deadline it ends in one way only.
        let _ = self.lock_contended(here, me, None);
    }

    /// The same; fails when the deadline has passed.
    pub(crate) fn lock_until(&self, here: Here, deadline: Instant) -> Result<(), TimedOut> {
        let me = here.current();
        here.safepoint();
        if self.acquire(&here, me) { Ok(()) } else { self.lock_contended(here, me, Some(deadline)) }
    }

    /// Takes it if it is free.
    #[inline]
    pub(crate) fn try_lock(&self, here: Here) -> bool {
        let me = here.current();
        here.safepoint();
        self.acquire(&here, me) || self.waiting.enter(&here, |waiting| self.acquire_gated(me, waiting, 0))
    }

    #[allow(clippy::panic, reason = "it is what is documented: the fiber would wait for itself")]
    fn lock_contended(&self, here: Here, me: Fiber, deadline: Option<Instant>) -> Result<(), TimedOut> {
        if deadline.is_none() && self.word.load(Relaxed) & !MARKS == me.address() {
            panic!("a fiber has locked a mutex, and locks it again: it would wait for itself for ever");
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

    /// Takes it, or else sets a mark, in one step.
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

    /// Lends whoever has it the level of the first of those who wait.
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

    /// Who has it, if that is a fiber of this runtime.
    fn owner(&self, here: &Worker) -> Option<Fiber> {
        here.core().records.at(self.word.load(Relaxed) & !MARKS)
    }

    /// Gives it back.
    #[inline(always)]
    pub(crate) fn unlock(&self, here: Here) {
        if self.waiting.is_own(&here) && self.word.load(Relaxed) & MARKS == 0 {
            self.word.store(FREE, Relaxed);
        } else {
            self.unlock_slowly(here);
        }
    }

    #[cold]
    #[inline(never)]
    fn unlock_slowly(&self, here: Here) {
        if !self.waiting.is_home(&here) {
            // It was taken in a runtime that is over. Whoever would take it now could not see what was done under it.
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
            // Meanwhile somebody may say that it is not poisoned any more.
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

    /// Whoever has it has panicked.
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

impl Waits for Lock {
    fn leave(&self, fiber: Fiber) -> bool {
        self.waiting.enter(&Here::expect(), |waiting| waiting.remove(fiber))
    }

    fn kind(&self) -> &'static str {
        "a mutex"
    }

    fn blocker(&self) -> Option<Fiber> {
        self.owner(&Here::expect())
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

/// Puts a fiber in its place among those who wait.
fn insert(here: &Worker, waiting: &mut Queue, fiber: Fiber, first: bool) {
    waiting.insert(fiber, first, |fiber| if here.is_alone() { here.level(fiber) } else { Level::default() });
}
