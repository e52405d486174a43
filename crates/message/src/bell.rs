//! The bell of a rank: on it sleep the threads of the rank, and others ring it if one does.
//!
//! # No wakeup is lost
//!
//! A thread that falls asleep and one that changes what it waits for do this:
//!
//! ```text
//!   sleeper                              ringer
//!   1. add to the number of sleepers     a. change a ring
//!   2. read the number of rings          b. fence
//!   3. fence                             c. if there are sleepers:
//!   4. look at the rings again           d.     add to the number of rings
//!   5. sleep if it has not changed       e.     wake all that sleep
//! ```
//!
//! The fences are sequentially consistent, so one comes first. If it is that of the sleeper, the
//! ringer sees the sleeper in c. Then either d precedes 2, and as d releases and 2 acquires, the
//! change is seen in 4. Or d follows 2: the kernel, which compares and falls asleep in one step,
//! finds another number, or the thread sleeps already and e wakes it. If the fence of the ringer
//! comes first, the sleeper sees the change in 4. So a ringer that finds no sleeper, as in most
//! cases, writes nothing.
//!
//! A rank that is killed asleep stays counted. This costs the others a system call in vain for
//! each change, until the job ends.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use policy::Instant;

use crate::sync::{self, AtomicU64};

/// A bell: the numbers of rings and of sleepers, in one cache line.
#[derive(Clone, Copy)]
pub(crate) struct Bell<'a> {
    rings: &'a AtomicU64,
    sleepers: &'a AtomicU64,
}

impl<'a> Bell<'a> {
    /// A bell in the first two words, which are zero at first.
    pub(crate) fn new(words: &'a [AtomicU64]) -> Bell<'a> {
        Bell { rings: &words[0], sleepers: &words[1] }
    }

    /// Wakes all that sleep, after a change. Not before the caller has made it visible.
    #[inline]
    pub(crate) fn ring(self) {
        sync::fence(SeqCst);
        if self.sleepers.load(Relaxed) != 0 && !cfg!(rowlock_canary = "a-bell-is-not-rung") {
            self.rings.fetch_add(1, Release);
            sync::wake_on(self.rings);
        }
    }

    /// Sleeps until a ring or the deadline, unless the awaited change `has_come`. May return early.
    pub(crate) fn sleep(self, deadline: Option<Instant>, has_come: impl FnOnce() -> bool) {
        self.sleepers.fetch_add(1, Relaxed);
        let rings = self.rings.load(Acquire);
        sync::fence(SeqCst);
        if !has_come() {
            sync::sleep_on(self.rings, rings, deadline);
        }
        self.sleepers.fetch_sub(1, Relaxed);
    }
}
