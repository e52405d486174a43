//! The latch: a countdown that opens it once and permanently.
//!
//! Its word is a counted futex (`sleepers.md` in this crate's folder). The value is the number of
//! missing counts. The change to zero wakes all sleepers. An open latch stays open.

use std::fmt;

use policy::Instant;

use crate::deadline::{Deadline, TimedOut};
use crate::protocol::counted_futex::CountedFutex;
use crate::protocol::wait_loop::Awaited;
use crate::protocol::wait_state::WaitState;
use crate::statistics::Statistics;
use crate::sync::{self, Scope};
use crate::waiting::Waiting;

/// A latch, at which threads wait until it has been counted down to zero: then it is open.
///
/// Like C++20's `std::latch`. All that precedes the counts is visible to the threads that pass.
///
/// ```
/// # use rowlock_wait::Latch;
/// let ready = Latch::new(2);
/// std::thread::scope(|scope| {
///     scope.spawn(|| ready.count_down());
///     scope.spawn(|| ready.count_down());
///     ready.wait();
///     assert!(ready.is_open());
/// });
/// ```
pub struct Latch {
    /// The number of missing counts.
    missing: CountedFutex,
    wait_state: WaitState,
    waiting: Waiting,
}

impl Latch {
    sync::const_fn! {
        /// A latch that opens after `count` counts, for threads that wait by the adaptive rule.
        pub fn new(count: u32) -> Latch {
            Latch::with(count, Waiting::ADAPTIVE)
        }

        /// A latch that opens after `count` counts, for threads that wait like this.
        pub fn with(count: u32, waiting: Waiting) -> Latch {
            Latch { missing: CountedFutex::new(count), wait_state: WaitState::new(), waiting }
        }
    }

    /// Counts down by one, unless it is open. Returns the number of missing counts. Never blocks.
    pub fn count_down(&self) -> u32 {
        self.count_down_by(1)
    }

    /// Counts down by `count`, or by the number of missing counts if that is less. Returns the
    /// number of counts that are still missing. Never blocks.
    pub fn count_down_by(&self, count: u32) -> u32 {
        // The closure always returns a value, which may be the same.
        let Ok(change) = self.missing.change(|missing| Some(missing.saturating_sub(count))) else { return 0 };
        if change.after == 0 {
            self.missing.wake(u32::MAX, change, Scope::Process);
        }
        change.after
    }

    /// The current number of missing counts.
    pub fn missing(&self) -> u32 {
        self.missing.value()
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.missing() == 0
    }

    /// Waits until it is open.
    pub fn wait(&self) {
        // Without a deadline, this always succeeds.
        while self.wait_timeout(Deadline::NEVER).is_err() {}
    }

    /// Counts down by one, and waits until the latch is open.
    pub fn arrive_and_wait(&self) {
        if self.count_down() > 0 {
            self.wait();
        }
    }

    /// Like [`Latch::wait`], but waits at most until the deadline. An open latch lets the thread
    /// pass even after the deadline.
    pub fn wait_timeout(&self, deadline: impl Into<Deadline>) -> Result<(), TimedOut> {
        let deadline = deadline.into().0;
        if self.is_open() {
            return Ok(());
        }
        self.wait_state.wait(&mut Opening(self), self.waiting, deadline)
    }

    /// The counts of all waits so far.
    pub fn statistics(&self) -> Statistics {
        self.wait_state.statistics()
    }
}

impl fmt::Debug for Latch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latch")
            .field("missing", &self.missing())
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

/// The opening of a latch.
struct Opening<'a>(&'a Latch);

impl Awaited for Opening<'_> {
    #[inline]
    fn poll(&mut self) -> bool {
        self.0.is_open()
    }

    fn sleep(&mut self, deadline: Option<Instant>) {
        self.0.missing.sleep(|missing| missing > 0, deadline, Scope::Process);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_latch_opens_with_its_last_count_and_stays_open() {
        let latch = Latch::new(3);
        assert_eq!((latch.count_down(), latch.is_open()), (2, false));
        assert_eq!((latch.count_down_by(2), latch.is_open()), (0, true));
        assert_eq!((latch.count_down_by(7), latch.is_open()), (0, true));
        latch.wait();
        latch.arrive_and_wait();
        assert_eq!(latch.statistics(), Statistics::default());
    }

    #[test]
    fn a_latch_of_zero_is_open() {
        static LATCH: Latch = Latch::new(0);
        LATCH.wait();
        assert!(LATCH.is_open());
    }
}
