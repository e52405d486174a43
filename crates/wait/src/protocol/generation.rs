//! The generation word: the number of complete rounds, and whether a thread sleeps.
//!
//! | bits | state | meaning | transitions out |
//! |---|---|---|---|
//! | `g`, 0 | awake | `g` rounds are complete, no thread sleeps | a waiter that goes to sleep sets the bit |
//! | `g`, 1 | asleep | `g` rounds are complete, a thread sleeps or is about to | the last arrival: to `g + 1`, 0, and wakes all |
//!
//! The last arrival also leaves "awake" to `g + 1`, 0, and wakes none.
//!
//! At a barrier with an arrival tree, another bit tells that the ticket counter counts the arrivals
//! of rounds after `g`, and those of round `g` from now on if there are any. It is set once, by an
//! arrival or together with the next round, and never cleared. No other transition exists.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use policy::Instant;

use crate::sync::{AtomicU32, Futex, Scope};

/// A round of the barrier, counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Round(pub(crate) u64);

/// A value of the word: the completed rounds modulo 2^30, and below them the bits for sleepers and
/// for the ticket counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u32);

impl Generation {
    const SLEEPERS: u32 = 1;
    const COUNTED: u32 = 2;
    const ROUND: u32 = 4;

    /// The value during `round` while no thread sleeps.
    const fn before(round: Round) -> Generation {
        Generation((round.0 as u32).wrapping_mul(Self::ROUND))
    }

    /// Whether `round` is the first one that is not complete, or 2^30 rounds away from it.
    pub(crate) const fn is_before(self, round: Round) -> bool {
        self.0 & !(Self::SLEEPERS | Self::COUNTED) == Self::before(round).0
    }

    /// Whether the ticket counter counts the arrivals of later rounds.
    pub(crate) const fn is_counted(self) -> bool {
        self.0 & Self::COUNTED != 0
    }

    const fn counted(self) -> Generation {
        Generation(self.0 | Self::COUNTED)
    }

    /// Whether `round` is complete. Correct if a waiter lags behind by fewer than 2^29 rounds.
    const fn has_completed(self, round: Round) -> bool {
        self.0.wrapping_sub(Self::before(round).0) as i32 >= Self::ROUND as i32
    }

    const fn has_sleepers(self) -> bool {
        self.0 & Self::SLEEPERS != 0
    }

    const fn with_sleepers(self) -> Generation {
        Generation(self.0 | Self::SLEEPERS)
    }

    /// The value after one more round, without sleepers.
    const fn next(self) -> Generation {
        Generation((self.0 & !Self::SLEEPERS).wrapping_add(Self::ROUND))
    }
}

/// The generation word.
#[derive(Debug)]
pub(crate) struct GenerationWord(Futex);

impl GenerationWord {
    /// No round is complete and no thread sleeps.
    pub(crate) fn new() -> GenerationWord {
        GenerationWord(Futex::new(AtomicU32::new(Generation::before(Round(0)).0)))
    }

    /// Whether `round` is complete. If so, what its parties did before they arrived is visible.
    #[inline]
    pub(crate) fn has_completed(&self, round: Round) -> bool {
        self.generation().has_completed(round)
    }

    /// The value. What the parties of the complete rounds did before they arrived is visible.
    #[inline]
    pub(crate) fn generation(&self) -> Generation {
        Generation(self.0.word().load(Acquire))
    }

    /// Has the arrivals of later rounds counted by the ticket counter. Fails if the word has
    /// another value.
    #[cold]
    pub(crate) fn count_from(&self, seen: Generation) -> bool {
        self.0.word().compare_exchange(seen.0, seen.counted().0, Release, Relaxed).is_ok()
    }

    /// The last arrival: completes `round` and wakes all sleepers. Publishes what happened before.
    /// `counts`: the ticket counter counts the arrivals of later rounds.
    #[inline]
    pub(crate) fn complete(&self, round: Round, counts: bool, scope: Scope) {
        let next = |seen: Generation| if counts { seen.next().counted() } else { seen.next() };
        // Usually no thread sleeps. This guess avoids fetching the cache line twice.
        let mut seen = Generation::before(round);
        while let Err(actual) = self.0.word().compare_exchange(seen.0, next(seen).0, Release, Relaxed) {
            seen = Generation(actual);
        }
        if seen.has_sleepers() && !cfg!(rowlock_canary = "a-barrier-forgets-its-sleepers") {
            self.0.wake(u32::MAX, scope);
        }
    }

    /// A sleeper: sleeps until woken or the deadline, unless `round` is complete. May return early.
    pub(crate) fn sleep(&self, round: Round, deadline: Option<Instant>, scope: Scope) {
        let mut seen = Generation(self.0.word().load(Relaxed));
        while !seen.has_completed(round) {
            if !seen.has_sleepers()
                && let Err(actual) = self.0.word().compare_exchange(seen.0, seen.with_sleepers().0, Relaxed, Relaxed)
            {
                seen = Generation(actual);
                continue;
            }
            return self.0.sleep(seen.with_sleepers().0, deadline, scope);
        }
    }

    /// Wakes the sleepers spuriously, as the kernel may.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn wake_spuriously(&self) {
        self.0.wake(u32::MAX, Scope::Process);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_round_stays_complete() {
        let before = Generation::before(Round(6));
        assert!(!before.has_completed(Round(6)));
        assert!(!before.with_sleepers().has_completed(Round(6)));
        assert!(before.next().has_completed(Round(6)));
        assert!(before.next().next().with_sleepers().has_completed(Round(6)));
        assert!(!before.next().has_completed(Round(7)));
    }

    #[test]
    fn completing_a_round_clears_the_sleepers_bit() {
        let asleep = Generation::before(Round(6)).with_sleepers();
        assert!(asleep.has_sleepers());
        assert_eq!(asleep.next(), Generation::before(Round(7)));
    }

    #[test]
    fn the_switch_to_the_ticket_counter_changes_no_round_and_stays() {
        let word = GenerationWord::new();
        let before = word.generation();
        assert!(!before.is_counted() && before.is_before(Round(0)) && !before.is_before(Round(1)));
        assert!(before.with_sleepers().is_before(Round(0)));
        word.complete(Round(0), false, Scope::Process);
        assert!(!word.count_from(before) && word.count_from(word.generation()));
        for round in 1..4 {
            let generation = word.generation();
            assert!(generation.is_counted() && generation.is_before(Round(round)));
            assert!(word.has_completed(Round(round - 1)) && !word.has_completed(Round(round)));
            word.complete(Round(round), false, Scope::Process);
        }
        let word = GenerationWord::new();
        word.complete(Round(0), true, Scope::Process);
        assert!(word.generation().is_counted() && word.has_completed(Round(0)));
    }

    #[test]
    fn rounds_continue_beyond_the_width_of_the_word() {
        for last in [(1_u64 << 30) - 1, (1 << 32) - 1, (1 << 40) - 1] {
            let before = Generation::before(Round(last));
            assert!(!before.has_completed(Round(last)));
            assert!(before.next().has_completed(Round(last)));
            assert_eq!(before.with_sleepers().next(), Generation::before(Round(last + 1)));
        }
    }
}
