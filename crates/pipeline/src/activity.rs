//! Counts the awake and the sleeping threads, to detect a deadlock: if none is awake, no sleeper
//! will ever be woken.
//!
//! Both counts are in one word, so the thread that makes the first one zero sees the second at the
//! same moment.

#[cfg(loom)]
use loom::sync::atomic::AtomicU64;
#[cfg(not(loom))]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

const ASLEEP: u64 = 1 << 32;

/// The threads of a run.
#[derive(Debug, Default)]
pub(crate) struct Activity(AtomicU64);

impl Activity {
    /// Adds an awake thread, before it starts.
    pub(crate) fn join(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// The calling thread, which is already on a list of sleepers, is about to sleep. Returns
    /// whether all threads now sleep forever.
    #[must_use]
    pub(crate) fn sleep(&self) -> bool {
        is_stuck(self.0.fetch_add(ASLEEP - 1, AcqRel).wrapping_add(ASLEEP - 1))
    }

    /// Called by an awake thread before it wakes a sleeper.
    pub(crate) fn wake(&self) {
        self.0.fetch_sub(ASLEEP - 1, AcqRel);
    }

    /// The calling thread ends. Returns whether all remaining threads sleep forever.
    #[must_use]
    pub(crate) fn leave(&self) -> bool {
        is_stuck(self.0.fetch_sub(1, AcqRel) - 1)
    }
}

/// A thread may be woken before it sleeps. Then the count of sleepers is briefly one too low and
/// wraps, but the thread that woke it is awake.
fn is_stuck(word: u64) -> bool {
    word as u32 == 0 && word >= ASLEEP
}
