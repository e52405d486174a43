//! Which ranks write to a rank: a bit for each, in words of the reader's slot.
//!
//! A reader looks only at rings whose bits it has seen, and at the bits before the rings. It misses
//! no record, although bit and record are in different words: the writer sets its bit before its
//! first record, and what makes a reader look at the ring, the bell (`bell.rs`) or the end of the
//! writer, comes after both. The models of the ring begin with this.

use std::sync::atomic::Ordering::{Acquire, Release};

use crate::sync::AtomicU64;

/// The bits of all ranks that write to one.
#[derive(Clone, Copy)]
pub(crate) struct Writers<'a>(&'a [AtomicU64]);

impl<'a> Writers<'a> {
    /// In words that are zero at first.
    pub(crate) fn new(words: &'a [AtomicU64]) -> Writers<'a> {
        Writers(words)
    }

    /// A rank writes from now on.
    pub(crate) fn add(self, rank: u32) {
        self.0[rank as usize / 64].fetch_or(1 << (rank % 64), Release);
    }

    /// Which of 64 ranks write, as bits.
    #[inline]
    pub(crate) fn word(self, word: usize) -> u64 {
        self.0[word].load(Acquire)
    }
}
