//! The semaphore: a number of permits, which threads acquire and release.
//!
//! Its word is a counted futex (`sleepers.md` in this crate's folder), and the value is the number
//! of permits. *Down* subtracts one permit, which must exist. *Up* adds permits, and wakes as many
//! sleepers. Each change is one atomic exchange, so the returned value belongs to that moment: two
//! downs return the same value only if there was an up between them.
//!
//! The order is not first come, first served: a thread that finds a permit acquires it, even if
//! others have slept longer. Otherwise a permit would be idle until its sleeper has a CPU.

use std::fmt;

use crate::deadline::{Deadline, TimedOut};
pub use crate::protocol::raw_semaphore::Overflow;
use crate::protocol::raw_semaphore::RawSemaphore;
use crate::statistics::Statistics;
use crate::sync::{self, Scope};
use crate::waiting::Waiting;

/// A number of permits. [`down`](Semaphore::down) acquires one and waits while there is none.
/// [`up`](Semaphore::up) releases or adds one. Both return the resulting number atomically.
///
/// So a stage of a pipeline learns without a lock how many buffers its queue holds.
///
/// All that a thread did before an up or a down is visible to every thread after each later down.
///
/// ```
/// # use rowlock_wait::Semaphore;
/// let buffers = Semaphore::new(2);
/// assert_eq!(buffers.down(), 1);
/// assert_eq!(buffers.down(), 0);
/// assert_eq!(buffers.try_down(), None);
/// assert_eq!(buffers.up(), Ok(1));
/// ```
pub struct Semaphore {
    raw: RawSemaphore,
    waiting: Waiting,
}

impl Semaphore {
    sync::const_fn! {
        /// A semaphore with `permits` permits, for threads that wait by the adaptive rule.
        pub fn new(permits: u32) -> Semaphore {
            Semaphore::with(permits, Waiting::ADAPTIVE)
        }

        /// A semaphore with `permits` permits, for threads that wait like this.
        pub fn with(permits: u32, waiting: Waiting) -> Semaphore {
            Semaphore { raw: RawSemaphore::new(permits), waiting }
        }
    }

    /// The current number of permits. The answer may be out of date immediately.
    pub fn value(&self) -> u32 {
        self.raw.value()
    }

    /// Waits for a permit and acquires it. Returns the number of permits left.
    pub fn down(&self) -> u32 {
        loop {
            // Without a deadline, this always succeeds.
            if let Ok(left) = self.down_timeout(Deadline::NEVER) {
                return left;
            }
        }
    }

    /// Acquires a permit and returns the number left, or `None` if there is none. Never blocks.
    pub fn try_down(&self) -> Option<u32> {
        self.raw.try_down()
    }

    /// Like [`Semaphore::down`], but waits at most until the deadline. An available permit is
    /// acquired even after the deadline.
    pub fn down_timeout(&self, deadline: impl Into<Deadline>) -> Result<u32, TimedOut> {
        self.raw.down(self.waiting, Scope::Process, deadline.into().0)
    }

    /// Adds a permit. Returns the number of permits. Never blocks.
    ///
    /// # Errors
    /// If there are `u32::MAX` permits; none is added.
    pub fn up(&self) -> Result<u32, Overflow> {
        self.up_by(1)
    }

    /// Adds permits in one step. Returns the number of permits. Never blocks.
    ///
    /// # Errors
    /// If there would be more than `u32::MAX` permits; none is added.
    pub fn up_by(&self, permits: u32) -> Result<u32, Overflow> {
        self.raw.up_by(permits, Scope::Process)
    }

    /// The counts of all waits so far.
    pub fn statistics(&self) -> Statistics {
        self.raw.wait_state.statistics()
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("value", &self.value())
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_overflow_is_an_error_and_changes_nothing() {
        let semaphore = Semaphore::new(u32::MAX - 1);
        assert_eq!(semaphore.up_by(2), Err(Overflow { permits: u32::MAX - 1, more: 2 }));
        assert_eq!(semaphore.up(), Ok(u32::MAX));
        assert_eq!(semaphore.up(), Err(Overflow { permits: u32::MAX, more: 1 }));
        assert_eq!(semaphore.down(), u32::MAX - 1);
    }

    #[test]
    fn a_semaphore_can_be_a_static() {
        static SEMAPHORE: Semaphore = Semaphore::new(1);
        assert_eq!(SEMAPHORE.try_down(), Some(0));
        assert_eq!(SEMAPHORE.try_down(), None);
    }
}
