//! The words of an event, in one process or in shared memory.

use policy::Instant;

use crate::deadline::TimedOut;
use crate::protocol::counted_futex::CountedFutex;
use crate::protocol::wait_loop::Awaited;
use crate::protocol::wait_state::WaitState;
use crate::sync::{self, Scope};
use crate::waiting::Waiting;

/// How a set event becomes unset. Shared memory contains the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// The first thread that passes resets it: each set lets one thread pass.
    Auto = 0,
    /// [`Event::reset`](crate::Event::reset) resets it: until then all threads pass.
    Manual = 1,
}

/// The bit of a set event.
const SET: u32 = 1;
/// The unit of the number of times that it was set.
const TIMES: u32 = 2;

const fn is_set(value: u32) -> bool {
    value & SET != 0
}

/// How often the event became set.
const fn times(value: u32) -> u32 {
    value / TIMES
}

/// The memory of an event: without pointers, and valid as zeros, when it is not set.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RawEvent {
    value: CountedFutex,
    pub(crate) wait_state: WaitState,
}

impl RawEvent {
    sync::const_fn! {
        pub(crate) fn new() -> RawEvent {
            RawEvent { value: CountedFutex::new(0), wait_state: WaitState::new() }
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
        self.wait_state.wait(&mut setting, waiting, deadline)
    }

    /// The next set that lets the caller, who arrives now, pass.
    #[inline]
    pub(crate) fn setting(&self, reset: Reset, scope: Scope) -> Setting<'_> {
        Setting { event: self, reset, scope, times_before: times(self.value.value()) }
    }
}

/// A set of the event.
pub(crate) struct Setting<'a> {
    event: &'a RawEvent,
    reset: Reset,
    scope: Scope,
    /// How often the event had become set when the thread arrived.
    times_before: u32,
}

impl Setting<'_> {
    fn can_pass(&self, value: u32) -> bool {
        is_set(value) || (self.reset == Reset::Manual && times(value) != self.times_before)
    }
}

impl Awaited for Setting<'_> {
    #[inline]
    fn poll(&mut self) -> bool {
        match self.reset {
            Reset::Auto => self.event.reset(),
            Reset::Manual => self.can_pass(self.event.value.value()),
        }
    }

    fn sleep(&mut self, deadline: Option<Instant>) {
        self.event.value.sleep(|value| !self.can_pass(value), deadline, self.scope);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn setting(reset: Reset, event: &RawEvent) -> Setting<'_> {
        event.setting(reset, Scope::Process)
    }

    #[test]
    fn a_waiter_passes_a_set_event_even_if_it_is_reset_immediately() {
        let event = RawEvent::new();
        let mut before = setting(Reset::Manual, &event);
        assert!(!before.poll());
        event.set(Reset::Manual, Scope::Process);
        event.reset();
        let mut after = setting(Reset::Manual, &event);
        assert!(before.poll() && !after.poll());
        // It does not sleep either. Otherwise this would hang.
        before.sleep(None);
    }

    #[test]
    fn the_number_of_sets_wraps_around_without_changing_the_bit() {
        let event = RawEvent { value: CountedFutex::new(!SET), wait_state: WaitState::new() };
        let mut before = setting(Reset::Manual, &event);
        event.set(Reset::Manual, Scope::Process);
        assert_eq!(event.value.value(), SET);
        event.reset();
        assert!(before.poll());
    }
}
