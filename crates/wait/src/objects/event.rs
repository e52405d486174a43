//! The event: something has happened, and who waits for it goes on.
//!
//! Its protocol is that of a word that counts its sleepers (`sleepers.md` in this crate's folder). The value is, in bit 0,
//! whether the event is set, and above it how often it became so, modulo 2^31.
//!
//! | bits | state | who leaves it, and how |
//! |---|---|---|
//! | `g`, 0 | not set | *set*: to `g + 1`, 1; wakes one if it resets itself, else all |
//! | `g`, 1 | set | *set*: to the same, waking the same; *reset* and, if it resets itself, who passes: to `g`, 0 |
//!
//! A thread at an event that resets itself passes by an exchange that finds it set, so each setting lets one pass at the most. At one
//! that stays set a thread passes if it finds it set, or if it became so since the thread came: a setting lets all pass
//! that wait, however soon it is reset. (A thread that does not look while it becomes set 2^31 times and is reset as
//! often would miss them.)
//!
//! Setting what is set already changes nothing, but it is a change of the word all the same: who passes later sees what
//! was done before *that* set too. And it wakes again, since the one that was woken first may not live to pass.

use std::{fmt, time};

use crate::deadline::{self, TimedOut};
use crate::protocol::raw_event::RawEvent;
pub use crate::protocol::raw_event::Reset;
use crate::statistics::Statistics;
use crate::sync::{self, Scope};
use crate::waiting::Waiting;

/// Threads wait at it until it is set.
///
/// Setting an event that is set does nothing. So of two sets in short order at an event that resets itself, the second is lost if
/// nobody passed between them; who wants to count takes a [`Semaphore`](crate::Semaphore).
///
/// All that a thread did before it set the event is visible to whoever passes by that.
///
/// ```
/// # use rowlock_wait::{Event, Reset};
/// let ready = Event::new(Reset::Manual);
/// std::thread::scope(|scope| {
///     scope.spawn(|| ready.wait());
///     scope.spawn(|| ready.wait());
///     ready.set();
/// });
/// assert!(ready.is_set());
/// ```
pub struct Event {
    raw: RawEvent,
    reset: Reset,
    waiting: Waiting,
}

impl Event {
    sync::const_fn! {
        /// An event that is not set, for threads that wait by the adaptive rule.
        pub fn new(reset: Reset) -> Event {
            Event::with(reset, Waiting::ADAPTIVE)
        }
    }

    sync::const_fn! {
        /// An event that is not set, for threads that wait like this.
        pub fn with(reset: Reset, waiting: Waiting) -> Event {
            Event { raw: RawEvent::new(), reset, waiting }
        }
    }

    /// Sets it, if it is not set. Never blocks.
    pub fn set(&self) {
        self.raw.set(self.reset, Scope::Process);
    }

    /// Resets it, and returns whether it was set. Never blocks.
    pub fn reset(&self) -> bool {
        self.raw.reset()
    }

    /// Whether it is set at this moment. When the caller looks at the answer it may be otherwise.
    pub fn is_set(&self) -> bool {
        self.raw.is_set()
    }

    /// Waits until the event is set, and resets it if it is one that resets itself.
    pub fn wait(&self) {
        // Without a deadline it ends in one way only.
        while self.raw.wait(self.reset, self.waiting, Scope::Process, None).is_err() {}
    }

    /// Passes if the event is set, and returns whether it was. Never blocks.
    pub fn try_wait(&self) -> bool {
        self.raw.try_wait(self.reset)
    }

    /// As [`Event::wait`], but waits no longer than to the deadline.
    ///
    /// # Errors
    /// When the deadline has passed. An event that is set lets pass however late it is.
    pub fn wait_until(&self, deadline: time::Instant) -> Result<(), TimedOut> {
        self.raw.wait(self.reset, self.waiting, Scope::Process, Some(deadline::at(deadline)))
    }

    /// As [`Event::wait_until`], with a timeout that begins now.
    ///
    /// # Errors
    /// As [`Event::wait_until`].
    pub fn wait_timeout(&self, timeout: time::Duration) -> Result<(), TimedOut> {
        self.raw.wait(self.reset, self.waiting, Scope::Process, Some(deadline::after(timeout)))
    }

    /// What waiting has come to so far.
    pub fn statistics(&self) -> Statistics {
        self.raw.statistics()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("is_set", &self.is_set())
            .field("reset", &self.reset)
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_resets_itself_lets_one_pass() {
        let event = Event::new(Reset::Auto);
        assert!(!event.try_wait());
        event.set();
        event.set();
        assert!(event.is_set());
        event.wait();
        assert!(!event.is_set() && !event.try_wait() && !event.reset());
    }

    #[test]
    fn an_event_that_stays_set_lets_all_pass_until_it_is_reset() {
        let event = Event::new(Reset::Manual);
        event.set();
        (0..3).for_each(|_| event.wait());
        assert!(event.reset());
        assert!(!event.reset() && !event.try_wait());
        assert_eq!(event.statistics(), Statistics::default());
    }

    #[test]
    fn a_wait_is_given_up_at_the_deadline() {
        for reset in [Reset::Auto, Reset::Manual] {
            let event = Event::new(reset);
            assert_eq!(event.wait_until(time::Instant::now()), Err(TimedOut));
            assert_eq!(event.wait_timeout(time::Duration::from_micros(50)), Err(TimedOut));
            assert_eq!(event.statistics().waits, 2);
            event.set();
            assert_eq!(event.wait_until(time::Instant::now()), Ok(()));
        }
    }
}
