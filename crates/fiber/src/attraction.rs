//! Attraction: a fiber that another worker wakes again and again is brought to that worker.
//!
//! A hand-over between two workers takes 3 to 100 us, because another CPU must be woken, and within
//! one worker some ten nanoseconds. So if one worker has woken a fiber [`TIMES`] times in a row,
//! each within [`QUICK`] of the time before, the fiber moves there. A fiber that computes for
//! longer between two wakeups stays: it may use its own CPU meanwhile.

use std::cell::Cell;

use policy::Span;

/// After so many quick wakeups in a row the fiber moves.
const TIMES: u8 = 4;

/// A wakeup is quick if it follows the one before within this time.
pub(crate) const QUICK: Span = Span::from_micros(100);

/// The wakeups of a fiber by another worker: the worker's index, how many were quick in a row, and
/// when the last one was, in ticks. The thread that wakes the fiber, and then the fiber's worker,
/// touch it.
#[derive(Default)]
pub(crate) struct Attraction(Cell<(u16, u8, u64)>);

impl Attraction {
    /// Another worker wakes the fiber.
    pub(crate) fn count(&self, waker: usize, now: u64, quick: u64) {
        let waker = u16::try_from(waker).unwrap_or(u16::MAX);
        let (before, times, last) = self.0.get();
        let follows = before == waker && now.saturating_sub(last) <= quick;
        self.0.set((waker, if follows { times.saturating_add(1) } else { 1 }, now));
    }

    /// The worker to which the fiber must move, if it is attracted there. It starts anew then.
    pub(crate) fn take(&self) -> Option<usize> {
        let (waker, times, last) = self.0.get();
        (times >= TIMES).then(|| {
            self.0.set((waker, 0, last));
            waker.into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_quick_wakeups_in_a_row_by_one_worker_attract_a_fiber() {
        let attraction = Attraction::default();
        let wake = |waker, times: std::ops::Range<u64>, apart: u64| {
            times.for_each(|time| attraction.count(waker, time * apart, 100));
            attraction.take()
        };
        assert_eq!(wake(1, 0..10, 101), None, "it computes in between");
        assert_eq!(wake(1, 20..23, 100), None, "too few");
        assert_eq!(wake(2, 23..26, 100), None, "another worker");
        assert_eq!(wake(2, 26..27, 100), Some(2));
        assert_eq!(attraction.take(), None, "it starts anew");
    }
}
