//! How many threads are awake: when none is, and some sleep, nobody will ever wake them.
//!
//! Both numbers stand in one word, so that the one who makes the first zero sees the second of the same moment.

use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use crate::sync::AtomicU64;

const ASLEEP: u64 = 1 << 32;

/// The threads of a run.
#[derive(Debug)]
pub(crate) struct Activity(AtomicU64);

impl Activity {
    pub(crate) fn new() -> Activity {
        Activity(AtomicU64::new(0))
    }

    /// A thread has come, awake; said before it starts.
    pub(crate) fn join(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// The calling thread, which rests somewhere already, will sleep. Returns whether everybody sleeps then, for ever.
    #[must_use]
    pub(crate) fn sleep(&self) -> bool {
        is_stuck(self.0.fetch_add(ASLEEP - 1, AcqRel).wrapping_add(ASLEEP - 1))
    }

    /// A thread that rests somewhere is about to be called, by one that is awake.
    pub(crate) fn wake(&self) {
        self.0.fetch_sub(ASLEEP - 1, AcqRel);
    }

    /// The calling thread is gone. Returns whether all that are left sleep, for ever.
    #[must_use]
    pub(crate) fn leave(&self) -> bool {
        is_stuck(self.0.fetch_sub(1, AcqRel) - 1)
    }
}

/// A thread may be called before it sleeps: then the number of sleepers is one too small for a moment, and wraps. Whoever called it is awake.
fn is_stuck(word: u64) -> bool {
    word as u32 == 0 && word >= ASLEEP
}
