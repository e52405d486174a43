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

use policy::Instant;

use crate::counted::CountedFutex;
use crate::deadline::{self, TimedOut};
use crate::ledger::Ledger;
use crate::outlast::Awaited;
use crate::statistics::Statistics;
use crate::sync::{self, Scope};
use crate::waiting::Waiting;

/// How an event that is set becomes one that is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// The first thread that passes resets it: each setting lets one thread pass.
    Auto,
    /// Whoever calls [`Event::reset`]: until then all threads pass.
    Manual,
}

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

/// The bit of an event that is set.
const SET: u32 = 1;
/// One in the number of times that it became so.
const TIMES: u32 = 2;

const fn is_set(value: u32) -> bool {
    value & SET != 0
}

/// How often it became set.
const fn times(value: u32) -> u32 {
    value / TIMES
}

/// An event's memory, wherever it lies: without pointers, and valid as zeros, when it is not set.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RawEvent {
    value: CountedFutex,
    pub(crate) ledger: Ledger,
}

impl RawEvent {
    sync::const_fn! {
        pub(crate) fn new() -> RawEvent {
            RawEvent { value: CountedFutex::new(0), ledger: Ledger::new() }
        }
    }

    #[inline]
    pub(crate) fn set(&self, reset: Reset, scope: Scope) {
        let set = |value: u32| Some(if is_set(value) { value } else { value.wrapping_add(TIMES) | SET });
        if let Ok(change) = self.value.change(set) {
            let passing = match reset {
                Reset::Auto => 1,
                Reset::Manual => u32::MAX,
            };
            self.value.wake(passing, change, scope);
        }
    }

    #[inline]
    pub(crate) fn reset(&self) -> bool {
        self.value.change(|value| is_set(value).then_some(value & !SET)).is_ok()
    }

    pub(crate) fn is_set(&self) -> bool {
        is_set(self.value.value())
    }

    #[inline]
    pub(crate) fn try_wait(&self, reset: Reset) -> bool {
        match reset {
            Reset::Auto => self.reset(),
            Reset::Manual => self.is_set(),
        }
    }

    #[inline]
    pub(crate) fn wait(
        &self,
        reset: Reset,
        waiting: Waiting,
        scope: Scope,
        deadline: Option<Instant>,
    ) -> Result<(), TimedOut> {
        let mut setting = self.setting(reset, scope);
        if self.try_wait(reset) {
            return Ok(());
        }
        self.ledger.outlast(&mut setting, waiting, deadline)
    }

    /// The next setting by which the caller, who comes now, may pass.
    #[inline]
    pub(crate) fn setting(&self, reset: Reset, scope: Scope) -> Setting<'_> {
        Setting { event: self, reset, scope, came: times(self.value.value()) }
    }

    pub(crate) fn statistics(&self) -> Statistics {
        self.ledger.statistics()
    }
}

/// A setting, as something to wait for.
pub(crate) struct Setting<'a> {
    event: &'a RawEvent,
    reset: Reset,
    scope: Scope,
    /// How often the event had become set when the thread came.
    came: u32,
}

impl Setting<'_> {
    fn has_come_by(&self, value: u32) -> bool {
        is_set(value) || (self.reset == Reset::Manual && times(value) != self.came)
    }
}

impl Awaited for Setting<'_> {
    #[inline]
    fn has_come(&mut self) -> bool {
        match self.reset {
            Reset::Auto => self.event.reset(),
            Reset::Manual => self.has_come_by(self.event.value.value()),
        }
    }

    fn sleep(&mut self, deadline: Option<Instant>) {
        self.event.value.sleep(|value| !self.has_come_by(value), deadline, self.scope);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn waits(reset: Reset, event: &RawEvent) -> Setting<'_> {
        event.setting(reset, Scope::Process)
    }

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
    fn who_waits_while_it_is_set_passes_even_if_it_is_reset_at_once() {
        let event = RawEvent::new();
        let mut before = waits(Reset::Manual, &event);
        assert!(!before.has_come());
        event.set(Reset::Manual, Scope::Process);
        event.reset();
        let mut after = waits(Reset::Manual, &event);
        assert!(before.has_come() && !after.has_come());
        // It does not sleep either, or this would hang.
        before.sleep(None);
    }

    #[test]
    fn the_number_of_settings_goes_round_without_touching_the_bit() {
        let event = RawEvent { value: CountedFutex::new(!SET), ledger: Ledger::new() };
        let mut before = waits(Reset::Manual, &event);
        event.set(Reset::Manual, Scope::Process);
        assert_eq!(event.value.value(), SET);
        event.reset();
        assert!(before.has_come());
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
