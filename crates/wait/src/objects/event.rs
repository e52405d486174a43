//! The event: threads wait until it is set.
//!
//! Its word is a counted futex (`sleepers.md` in this crate's folder). Bit 0 of the value tells
//! whether the event is set, and the bits above count how often it became set, modulo 2^31.
//!
//! | bits | state | transitions out |
//! |---|---|---|
//! | `g`, 0 | not set | *set*: to `g + 1`, 1; wakes one if auto-reset, else all |
//! | `g`, 1 | set | *set*: to the same, waking the same; *reset*, or a thread that passes if auto-reset: to `g`, 0 |
//!
//! A thread passes an auto-reset event by an exchange that finds it set, so each set lets at most
//! one thread pass. A thread passes a manual-reset event if it finds it set, or if it became set
//! since the thread arrived. So a set lets all waiting threads pass, however soon it is reset. (A
//! thread that does not poll while the event is set and reset 2^31 times would miss it.)
//!
//! Setting a set event does not change the value, but writes the word nevertheless: a thread that
//! passes later also sees what was done before *that* set. And it wakes again, as that thread may
//! die.

use std::fmt;

use crate::deadline::{Deadline, TimedOut};
use crate::protocol::raw_event::RawEvent;
pub use crate::protocol::raw_event::Reset;
use crate::statistics::Statistics;
use crate::sync::{self, Scope};
use crate::waiting::Waiting;

/// An event, at which threads wait until it is set.
///
/// Setting a set event has no effect. So if an auto-reset event is set twice before a thread
/// passes, the second set is lost. To count, use a [`Semaphore`](crate::Semaphore).
///
/// All that a thread did before it set the event is visible to the threads that this lets pass.
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

        /// An event that is not set, for threads that wait like this.
        pub fn with(reset: Reset, waiting: Waiting) -> Event {
            Event { raw: RawEvent::new(), reset, waiting }
        }
    }

    /// Sets the event. Never blocks.
    pub fn set(&self) {
        self.raw.set(self.reset, Scope::Process);
    }

    /// Resets the event. Returns whether it was set. Never blocks.
    pub fn reset(&self) -> bool {
        self.raw.reset()
    }

    /// Whether the event is set now. The answer may be out of date immediately.
    pub fn is_set(&self) -> bool {
        self.raw.is_set()
    }

    /// Waits until the event is set. Resets it if it is an auto-reset event.
    pub fn wait(&self) {
        // Without a deadline, this always succeeds.
        while self.wait_timeout(Deadline::NEVER).is_err() {}
    }

    /// Passes if the event is set. Returns whether it was. Never blocks.
    pub fn try_wait(&self) -> bool {
        self.raw.try_wait(self.reset)
    }

    /// Like [`Event::wait`], but waits at most until the deadline. A set event lets the thread
    /// pass even after the deadline.
    pub fn wait_timeout(&self, deadline: impl Into<Deadline>) -> Result<(), TimedOut> {
        self.raw.wait(self.reset, self.waiting, Scope::Process, deadline.into().0)
    }

    /// The counts of all waits so far.
    pub fn statistics(&self) -> Statistics {
        self.raw.wait_state.statistics()
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
    fn an_auto_reset_event_lets_one_thread_pass() {
        let event = Event::new(Reset::Auto);
        assert!(!event.try_wait());
        event.set();
        event.set();
        assert!(event.is_set());
        event.wait();
        assert!(!event.is_set() && !event.try_wait() && !event.reset());
    }

    #[test]
    fn a_manual_reset_event_lets_all_pass_until_it_is_reset() {
        let event = Event::new(Reset::Manual);
        event.set();
        (0..3).for_each(|_| event.wait());
        assert!(event.reset());
        assert!(!event.reset() && !event.try_wait());
        assert_eq!(event.statistics(), Statistics::default());
    }
}
