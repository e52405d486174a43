//! The latch: a countdown that opens a gate, once and for ever.
//!
//! Its protocol is that of a word that counts its sleepers (`sleepers.md` in this crate's folder). The value is how many counts are
//! still missing; the change to zero is good for all sleepers, and no other change is good for any. A latch that is open
//! stays open.

use std::{fmt, time};

use policy::Instant;

use crate::deadline::{self, TimedOut};
use crate::protocol::counted_futex::CountedFutex;
use crate::protocol::wait_loop::Awaited;
use crate::protocol::wait_state::WaitState;
use crate::statistics::Statistics;
use crate::sync::{self, Scope};
use crate::waiting::Waiting;

/// Threads wait at it until it has been counted down to zero, once; then it is open, and everybody passes.
///
/// As C++20's `std::latch`. All that was done before each count is visible to whoever passes.
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
    /// How many counts are missing.
    missing: CountedFutex,
    wait_state: WaitState,
    waiting: Waiting,
}

impl Latch {
    sync::const_fn! {
        /// A latch that opens after so many counts (with zero it is open), for threads that wait by the adaptive rule.
        pub fn new(count: u32) -> Latch {
            Latch::with(count, Waiting::ADAPTIVE)
        }
    }

    sync::const_fn! {
        /// A latch that opens after so many counts, for threads that wait like this.
        pub fn with(count: u32, waiting: Waiting) -> Latch {
            Latch { missing: CountedFutex::new(count), wait_state: WaitState::new(), waiting }
        }
    }

    /// Counts one down, and returns how many are still missing. A latch that is open stays so. Never blocks.
    pub fn count_down(&self) -> u32 {
        self.count_down_by(1)
    }

    /// Counts so many down at once, at most as many as are missing, and returns how many still are. Never blocks.
    pub fn count_down_by(&self, count: u32) -> u32 {
        // There always is a change, if only to the same value.
        let Ok(change) = self.missing.change(|missing| Some(missing.saturating_sub(count))) else { return 0 };
        if change.after == 0 {
            self.missing.wake(u32::MAX, change, Scope::Process);
        }
        change.after
    }

    /// How many counts are missing at this moment.
    pub fn missing(&self) -> u32 {
        self.missing.value()
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.missing() == 0
    }

    /// Waits until it is open.
    pub fn wait(&self) {
        // Without a deadline it ends in one way only.
        while self.wait_by(None).is_err() {}
    }

    /// Counts one down, and waits until the latch is open.
    pub fn arrive_and_wait(&self) {
        if self.count_down() > 0 {
            self.wait();
        }
    }

    /// As [`Latch::wait`], but waits no longer than to the deadline.
    ///
    /// # Errors
    /// When the deadline has passed. A latch that is open lets pass however late it is.
    pub fn wait_until(&self, deadline: time::Instant) -> Result<(), TimedOut> {
        self.wait_by(Some(deadline::at(deadline)))
    }

    /// As [`Latch::wait_until`], with a timeout that begins now.
    ///
    /// # Errors
    /// As [`Latch::wait_until`].
    pub fn wait_timeout(&self, timeout: time::Duration) -> Result<(), TimedOut> {
        self.wait_by(Some(deadline::after(timeout)))
    }

    fn wait_by(&self, deadline: Option<Instant>) -> Result<(), TimedOut> {
        if self.is_open() {
            return Ok(());
        }
        self.wait_state.wait(&mut Opening(self), self.waiting, deadline)
    }

    /// What waiting has come to so far.
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

/// The opening of a latch, as something to wait for.
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

    #[test]
    fn a_wait_is_given_up_at_the_deadline() {
        let latch = Latch::new(1);
        assert_eq!(latch.wait_until(time::Instant::now()), Err(TimedOut));
        assert_eq!(latch.wait_timeout(time::Duration::from_micros(50)), Err(TimedOut));
        assert_eq!((latch.missing(), latch.statistics().waits), (1, 2));
        latch.count_down();
        assert_eq!(latch.wait_until(time::Instant::now()), Ok(()));
    }
}
