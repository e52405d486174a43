//! The generation word: how many rounds are complete, and whether somebody sleeps until the next one is.
//!
//! | bits | state | meaning | who leaves it, and how |
//! |---|---|---|---|
//! | `g`, 0 | awake | `g` rounds are complete; nobody sleeps | a waiter that goes to sleep: sets the bit |
//! | `g`, 1 | asleep | `g` rounds are complete; somebody sleeps, or is about to | the last arriver: `g + 1`, 0, and wakes all |
//!
//! The last arriver leaves "awake" in the same way, to `g + 1`, 0, and has nobody to wake. There is no other transition.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use policy::Instant;

use crate::sync::{Futex, Scope};

/// A round of the barrier, counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Round(pub(crate) u64);

/// A value of the generation word: the completed rounds modulo 2^31, and below them the bit for sleepers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Generation(u32);

impl Generation {
    const SLEEPERS: u32 = 1;
    const ROUND: u32 = 2;

    /// As it is while `round` is under way and nobody sleeps.
    const fn before(round: Round) -> Generation {
        Generation((round.0 as u32).wrapping_mul(Self::ROUND))
    }

    /// Whether `round` is complete. Right as long as a waiter lags behind by fewer than 2^30 rounds.
    const fn has_completed(self, round: Round) -> bool {
        self.0.wrapping_sub(Self::before(round).0) as i32 >= Self::ROUND as i32
    }

    const fn has_sleepers(self) -> bool {
        self.0 & Self::SLEEPERS != 0
    }

    const fn with_sleepers(self) -> Generation {
        Generation(self.0 | Self::SLEEPERS)
    }

    /// One more round is complete, and nobody sleeps.
    const fn next(self) -> Generation {
        Generation((self.0 & !Self::SLEEPERS).wrapping_add(Self::ROUND))
    }
}

/// The generation word.
#[derive(Debug)]
pub(crate) struct Word(Futex);

impl Word {
    /// No round is complete and nobody sleeps.
    pub(crate) fn new() -> Word {
        Word(Futex::new(Generation::before(Round(0)).0))
    }

    /// Whether `round` is complete. What its parties did before they arrived is then visible.
    #[inline]
    pub(crate) fn has_completed(&self, round: Round) -> bool {
        Generation(self.0.word().load(Acquire)).has_completed(round)
    }

    /// The last arriver's transition: completes `round` and wakes all sleepers. Makes visible what happened before it.
    #[inline]
    pub(crate) fn complete(&self, round: Round, scope: Scope) {
        // Mostly nobody sleeps: guessing so saves fetching the cache line twice.
        let mut seen = Generation::before(round);
        while let Err(actual) = self.0.word().compare_exchange(seen.0, seen.next().0, Release, Relaxed) {
            seen = Generation(actual);
        }
        if seen.has_sleepers() && !cfg!(rowlock_canary = "a-barrier-forgets-its-sleepers") {
            self.0.wake_all(scope);
        }
    }

    /// The sleeper's transition: sleeps until woken or to the deadline, unless `round` is complete. May return early.
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

    /// Wakes the sleepers for no reason, as the kernel may.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn wake_spuriously(&self) {
        self.0.wake_all(Scope::Process);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_complete_from_its_end_on() {
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
    fn rounds_go_on_beyond_the_width_of_the_word() {
        for last in [(1_u64 << 31) - 1, (1 << 32) - 1, (1 << 40) - 1] {
            let before = Generation::before(Round(last));
            assert!(!before.has_completed(Round(last)));
            assert!(before.next().has_completed(Round(last)));
            assert_eq!(before.with_sleepers().next(), Generation::before(Round(last + 1)));
        }
    }
}
