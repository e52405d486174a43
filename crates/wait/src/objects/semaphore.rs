//! The semaphore: a number of permits, which threads take and give back.
//!
//! Its protocol is that of a word that counts its sleepers (`sleepers.md` in this crate's folder), and the value is the number of
//! permits. *Down* is a change to one less, for which there must be one; *up* is a change to as many more, which is good for as
//! many sleepers. Since the change is one exchange, the value that it returns is that of the very moment: of two downs
//! none returns the same value unless there was an up in between.
//!
//! Who comes first is not served first: a thread that finds a permit takes it, whoever has slept longer. Otherwise a permit would lie
//! idle until the sleeper that it is meant for has a CPU.

use std::{fmt, time};

use crate::deadline::{self, TimedOut};
pub use crate::protocol::raw_semaphore::Overflow;
use crate::protocol::raw_semaphore::RawSemaphore;
use crate::statistics::Statistics;
use crate::sync::{self, Scope};
use crate::waiting::Waiting;

/// A number of permits. [`down`](Semaphore::down) takes one and waits as long as there is none, [`up`](Semaphore::up) gives one back
/// or adds one; both return how many there are after that, counted in the same atomic step.
///
/// So a stage of a pipeline knows from the semaphore that it goes by how many buffers are in its queue, without a lock.
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
        /// A semaphore with so many permits, for threads that wait by the adaptive rule.
        pub fn new(permits: u32) -> Semaphore {
            Semaphore::with(permits, Waiting::ADAPTIVE)
        }
    }

    sync::const_fn! {
        /// A semaphore with so many permits, for threads that wait like this.
        pub fn with(permits: u32, waiting: Waiting) -> Semaphore {
            Semaphore { raw: RawSemaphore::new(permits), waiting }
        }
    }

    /// How many permits there are at this moment. When the caller looks at the number there may be others.
    pub fn value(&self) -> u32 {
        self.raw.value()
    }

    /// Takes a permit, waiting until there is one, and returns how many are left.
    pub fn down(&self) -> u32 {
        loop {
            // Without a deadline it ends in one way only.
            if let Ok(left) = self.raw.down(self.waiting, Scope::Process, None) {
                return left;
            }
        }
    }

    /// Takes a permit and returns how many are left, or nothing where there is none. Never blocks.
    pub fn try_down(&self) -> Option<u32> {
        self.raw.try_down()
    }

    /// As [`Semaphore::down`], but waits no longer than to the deadline.
    ///
    /// # Errors
    /// When the deadline has passed; no permit was taken then. A permit that is there is taken however late it is.
    pub fn down_until(&self, deadline: time::Instant) -> Result<u32, TimedOut> {
        self.raw.down(self.waiting, Scope::Process, Some(deadline::at(deadline)))
    }

    /// As [`Semaphore::down_until`], with a timeout that begins now.
    ///
    /// # Errors
    /// As [`Semaphore::down_until`].
    pub fn down_timeout(&self, timeout: time::Duration) -> Result<u32, TimedOut> {
        self.raw.down(self.waiting, Scope::Process, Some(deadline::after(timeout)))
    }

    /// Adds a permit and returns how many there are. Never blocks.
    ///
    /// # Errors
    /// When there are `u32::MAX`; then nothing is added.
    pub fn up(&self) -> Result<u32, Overflow> {
        self.up_by(1)
    }

    /// Adds so many permits at once and returns how many there are. Never blocks.
    ///
    /// # Errors
    /// When there would be more than `u32::MAX`; then nothing is added.
    pub fn up_by(&self, permits: u32) -> Result<u32, Overflow> {
        self.raw.up_by(permits, Scope::Process)
    }

    /// What waiting has come to so far.
    pub fn statistics(&self) -> Statistics {
        self.raw.statistics()
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
    fn permits_beyond_the_range_are_refused_and_change_nothing() {
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

    #[test]
    fn who_takes_a_permit_at_once_has_not_waited() {
        let semaphore = Semaphore::new(1);
        assert_eq!(semaphore.down_until(time::Instant::now()), Ok(0));
        assert_eq!(semaphore.statistics(), Statistics::default());
    }

    #[test]
    fn a_permit_that_does_not_come_is_given_up_at_the_deadline() {
        let semaphore = Semaphore::new(0);
        assert_eq!(semaphore.down_until(time::Instant::now()), Err(TimedOut));
        assert_eq!(semaphore.down_timeout(time::Duration::from_micros(50)), Err(TimedOut));
        assert_eq!((semaphore.value(), semaphore.statistics().waits), (0, 2));
    }
}
