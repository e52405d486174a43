//! The words of an event, in one process or in shared memory.

use policy::Instant;

use crate::deadline::TimedOut;
use crate::protocol::counted_futex::CountedFutex;
use crate::protocol::wait_loop::Awaited;
use crate::protocol::wait_state::WaitState;
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

    /// The next setting by which the caller, who comes now, may pass.
    #[inline]
    pub(crate) fn setting(&self, reset: Reset, scope: Scope) -> Setting<'_> {
        Setting { event: self, reset, scope, came: times(self.value.value()) }
    }

    pub(crate) fn statistics(&self) -> Statistics {
        self.wait_state.statistics()
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
    fn poll(&mut self) -> bool {
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
    fn who_waits_while_it_is_set_passes_even_if_it_is_reset_at_once() {
        let event = RawEvent::new();
        let mut before = waits(Reset::Manual, &event);
        assert!(!before.poll());
        event.set(Reset::Manual, Scope::Process);
        event.reset();
        let mut after = waits(Reset::Manual, &event);
        assert!(before.poll() && !after.poll());
        // It does not sleep either, or this would hang.
        before.sleep(None);
    }

    #[test]
    fn the_number_of_settings_goes_round_without_touching_the_bit() {
        let event = RawEvent { value: CountedFutex::new(!SET), wait_state: WaitState::new() };
        let mut before = waits(Reset::Manual, &event);
        event.set(Reset::Manual, Scope::Process);
        assert_eq!(event.value.value(), SET);
        event.reset();
        assert!(before.poll());
    }
}
