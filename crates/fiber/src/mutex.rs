//! A lock that lets one fiber in at a time.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::gate::Gate;
use crate::queue::Queue;
use crate::record::Fiber;
use crate::waits::{Waits, Woken};
use crate::worker::{Here, Worker};

/// Nobody has it.
const FREE: usize = 0;

/// The lock alone, without what it guards.
pub(crate) struct Lock {
    /// Who has it, by address; with 1 added where somebody waits.
    owner: AtomicUsize,
    waiting: Gate<Queue>,
}

const WAITED_FOR: usize = 1;

impl Lock {
    pub(crate) const fn new() -> Lock {
        Lock { owner: AtomicUsize::new(FREE), waiting: Gate::new(Queue::new()) }
    }

    #[inline(always)]
    fn acquire(&self, here: &Worker, me: Fiber) -> bool {
        if here.is_alone() {
            let free = self.owner.load(Relaxed) == FREE;
            if free {
                self.owner.store(me.address(), Relaxed);
            }
            free
        } else {
            self.owner.compare_exchange(FREE, me.address(), Acquire, Relaxed).is_ok()
        }
    }

    #[inline(always)]
    pub(crate) fn lock(&self) {
        let here = Here::expect();
        let me = here.current();
        here.point();
        if !(self.waiting.is_home(&here) && self.acquire(&here, me)) {
            self.lock_slowly(here, me);
        }
    }

    #[cold]
    #[inline(never)]
    fn lock_slowly(&self, here: Here, me: Fiber) {
        let got = self.waiting.enter(&here, |waiting| {
            if self.acquire(&here, me) {
                return true;
            }
            waiting.push(me);
            self.owner.fetch_or(WAITED_FOR, Relaxed);
            false
        });
        if !got {
            here.block(self, None);
        }
    }

    #[inline(always)]
    pub(crate) fn unlock(&self) {
        let here = Here::expect();
        if here.is_alone() {
            if self.owner.load(Relaxed) & WAITED_FOR == 0 {
                return self.owner.store(FREE, Relaxed);
            }
        } else if self.owner.compare_exchange(here.current().address(), FREE, Release, Relaxed).is_ok() {
            return;
        }
        self.hand_over(here);
    }

    #[cold]
    fn hand_over(&self, here: Here) {
        let next = self.waiting.enter(&here, |waiting| {
            let next = waiting.pop();
            let mark = if waiting.is_empty() { 0 } else { WAITED_FOR };
            self.owner.store(next.map_or(FREE, |next| next.address() | mark), Release);
            next
        });
        if let Some(next) = next {
            here.wake(next, Woken::Called);
        }
    }
}

impl Waits for Lock {
    fn leave(&self, fiber: Fiber) -> bool {
        self.waiting.enter(&Here::expect(), |waiting| waiting.remove(fiber))
    }

    fn kind(&self) -> &'static str {
        "a mutex"
    }
}
