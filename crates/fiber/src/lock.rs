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
//!
//! # Why nobody is forgotten
//! Somebody waits, and the word says so by a mark; then giving it back goes through the gate. The mark is set inside the gate by whoever is about to wait, and only
//! while somebody has the lock, in one atomic step. Giving the lock back clears it, and takes one fiber off the list, who comes back in any case: it takes the lock,
//! and sets the mark again if others wait still; or finds it taken, and sets the mark again before it waits. Whoever takes the lock in between finds no
//! mark, and needs none: the fiber that has been woken speaks for those behind it.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Instant;

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

/// The bits that are no address.
const MARKS: usize = WAITED_FOR | POISONED;

/// The lock alone, without what it guards.
pub(crate) struct Lock {
    /// Who has it, by address, and marks.
    word: AtomicUsize,
    waiting: Gate<Queue>,
}

impl Lock {
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
        here.point();
        if !self.acquire(&here, me) {
            self.lock_slowly(here, me);
        }
    }

    #[cold]
    #[inline(never)]
    fn lock_slowly(&self, here: Here, me: Fiber) {
        // Without a deadline it ends in one way only.
        let _ = self.outlast(here, me, None);
    }

    /// The same; fails when the deadline has passed.
    pub(crate) fn lock_until(&self, here: Here, deadline: Instant) -> Result<(), TimedOut> {
        let me = here.current();
        here.point();
        if self.acquire(&here, me) { Ok(()) } else { self.outlast(here, me, Some(deadline)) }
    }

    /// Takes it if it is free.
    #[inline]
    pub(crate) fn try_lock(&self, here: Here) -> bool {
        let me = here.current();
        here.point();
        self.acquire(&here, me) || self.waiting.enter(&here, |waiting| self.acquire_inside(me, waiting, 0))
    }

    #[allow(clippy::panic, reason = "it is what is documented: the fiber would wait for itself")]
    fn outlast(&self, here: Here, me: Fiber, deadline: Option<Instant>) -> Result<(), TimedOut> {
        if deadline.is_none() && self.word.load(Relaxed) & !MARKS == me.address() {
            panic!("a fiber has locked a mutex, and locks it again: it would wait for itself for ever");
        }
        let mut in_vain = false;
        loop {
            let taken = self.waiting.enter(&here, |waiting| {
                let taken = self.acquire_inside(me, waiting, WAITED_FOR);
                if !taken {
                    me.in_vain.set(in_vain);
                    if in_vain { waiting.push_front(me) } else { waiting.push(me) }
                }
                taken
            });
            if taken {
                return Ok(());
            }
            if here.block(self, deadline) == Woken::TimedOut {
                return Err(TimedOut);
            }
            if self.word.load(Relaxed) & !MARKS == me.address() {
                return Ok(());
            }
            in_vain = true;
        }
    }

    /// Takes it, or else sets a mark, in one step.
    fn acquire_inside(&self, me: Fiber, waiting: &Queue, mark: usize) -> bool {
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
        let next = self.waiting.enter(&here, |waiting| {
            let next = waiting.pop();
            let poisoned = self.word.load(Relaxed) & POISONED;
            let word = match next {
                Some(next) if next.in_vain.get() => next.address() | if waiting.is_empty() { 0 } else { WAITED_FOR },
                _ => FREE,
            };
            self.word.store(word | poisoned, Release);
            next
        });
        if let Some(next) = next {
            here.wake(next, Woken::Called);
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

    fn whom(&self) -> Option<Fiber> {
        let address = self.word.load(Relaxed) & !MARKS;
        // SAFETY: whoever has the lock is a fiber of the runtime in which somebody waits for it, so that is not over.
        (address != FREE).then(|| unsafe { Fiber::from_address(address) })
    }
}
