#![doc = include_str!("../../sleepers.md")]

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use policy::Instant;

use crate::sync::{self, AtomicU64, Futex, Scope};

/// A value on which threads can sleep, and the number of sleepers. Both are zero in zeroed memory.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct CountedFutex(Futex<AtomicU64>);

/// The result of one change of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) before: u32,
    pub(crate) after: u32,
    /// The number of threads that slept, or were about to.
    pub(crate) sleepers: u32,
}

/// The word: the value in the lower half, the number of sleepers in the upper half.
#[derive(Clone, Copy)]
struct Word(u64);

impl Word {
    const SLEEPER: u64 = 1 << 32;

    const fn value(self) -> u32 {
        self.0 as u32
    }

    const fn sleepers(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn with_value(self, value: u32) -> Word {
        Word(self.0 & !u64::from(u32::MAX) | u64::from(value))
    }
}

impl CountedFutex {
    sync::const_fn! {
        pub(crate) fn new(value: u32) -> CountedFutex {
            CountedFutex(Futex::new(AtomicU64::new(value as u64)))
        }
    }

    /// The value. All that precedes the changes that led to it is visible.
    #[inline]
    pub(crate) fn value(&self) -> u32 {
        Word(self.0.word().load(Acquire)).value()
    }

    /// Replaces the value by the result of `change`. If that is `None`, returns the value as error.
    ///
    /// Publishes what happened before, even if the value stays the same.
    #[inline]
    pub(crate) fn change(&self, change: impl Fn(u32) -> Option<u32>) -> Result<Change, u32> {
        let mut after = 0;
        let update = |word| {
            after = change(Word(word).value())?;
            Some(Word(word).with_value(after).0)
        };
        match self.0.word().fetch_update(AcqRel, Relaxed, update).map(Word) {
            Ok(before) => Ok(Change { before: before.value(), after, sleepers: before.sleepers() }),
            Err(seen) => Err(Word(seen).value()),
        }
    }

    /// Sleeps until woken or the deadline, if `must_sleep` holds for the value. May return early.
    pub(crate) fn sleep(&self, must_sleep: impl Fn(u32) -> bool, deadline: Option<Instant>, scope: Scope) {
        // In shared memory the number of sleepers may be anything, so it wraps around.
        let count = |word| must_sleep(Word(word).value()).then(|| word.wrapping_add(Word::SLEEPER));
        if let Ok(before) = self.0.word().fetch_update(Relaxed, Relaxed, count) {
            self.0.sleep(Word(before).value(), deadline, scope);
            self.0.word().fetch_sub(Word::SLEEPER, Relaxed);
        }
    }

    /// Wakes at most `count` of the threads that slept when the change was made.
    #[inline]
    pub(crate) fn wake(&self, count: u32, of: Change, scope: Scope) {
        if of.sleepers > 0 {
            self.0.wake(count.min(of.sleepers), scope);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_atomic_and_keeps_the_sleepers() {
        let word = CountedFutex::new(5);
        word.0.word().fetch_add(2 * Word::SLEEPER, Relaxed);
        let change = word.change(|value| value.checked_sub(1));
        assert_eq!(change, Ok(Change { before: 5, after: 4, sleepers: 2 }));
        assert_eq!(word.change(|value| value.checked_sub(9)), Err(4));
        let change = word.change(|_| Some(u32::MAX));
        assert_eq!(change, Ok(Change { before: 4, after: u32::MAX, sleepers: 2 }));
        assert_eq!(word.value(), u32::MAX);
    }

    #[test]
    fn a_sleeper_is_counted_only_while_it_sleeps() {
        let word = CountedFutex::new(0);
        word.sleep(|value| value != 0, None, Scope::Process);
        word.sleep(|value| value == 0, Some(Instant::from_nanos(1)), Scope::Process);
        assert_eq!(word.change(Some).map(|change| change.sleepers), Ok(0));
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| word.sleep(|value| value == 0, None, Scope::Process));
            while word.change(Some).map(|change| change.sleepers) == Ok(0) {
                std::thread::yield_now();
            }
            let change = word.change(|_| Some(1)).unwrap();
            assert_eq!(change.sleepers, 1);
            word.wake(1, change, Scope::Process);
            sleeper.join().unwrap();
        });
        assert_eq!(word.change(Some).map(|change| change.sleepers), Ok(0));
    }

    #[test]
    fn a_thread_can_sleep_beside_any_number_of_sleepers() {
        let word = CountedFutex(Futex::new(AtomicU64::new(u64::from(u32::MAX) << 32)));
        word.sleep(|value| value == 0, Some(Instant::from_nanos(1)), Scope::Shared);
        assert_eq!(word.change(Some).map(|change| change.sleepers), Ok(u32::MAX));
    }

    #[test]
    fn a_word_of_zeros_is_the_value_zero_without_sleepers() {
        let word = CountedFutex::new(0);
        assert_eq!(word.0.word().load(Relaxed), 0);
    }
}
