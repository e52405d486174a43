//! Waiting for a time.

use std::time::{Duration, Instant};

use crate::record::{Fiber, State};
use crate::waits::Waits;
use crate::worker::Here;

/// A wait for a time alone.
struct Asleep;

impl Waits for Asleep {
    fn leave(&self, fiber: Fiber) -> bool {
        // It is on no list, and may have been woken already: by its time, or because its runtime ends.
        matches!(fiber.state.get(), State::Blocked | State::BlockedUnwinding)
    }

    fn kind(&self) -> &'static str {
        "a time"
    }
}

/// The time by which deadlines count: the clock's, or in a deterministic runtime its own.
///
/// # Panics
/// Where no runtime runs.
pub fn now() -> Instant {
    Here::enter(|here| here.now())
}

/// Lets others run until so much time has passed. Blocks the fiber only. One that unwinds because its runtime ends does not wait.
///
/// # Panics
/// Where no runtime runs.
pub fn sleep(time: Duration) {
    sleep_until(after(time));
}

/// When so much time has passed from now on.
///
/// # Panics
/// Where no runtime runs.
pub(crate) fn after(time: Duration) -> Instant {
    // Far ahead, and still a time.
    const AGES: Duration = Duration::from_secs(1 << 32);
    now() + time.min(AGES)
}

/// The same until a time.
///
/// # Panics
/// Where no runtime runs.
pub fn sleep_until(time: Instant) {
    Here::enter(|here| {
        if here.outside.is_wait_forbidden(&here) {
            return;
        }
        if here.now() < time {
            here.block(&Asleep, Some(time));
        } else {
            here.yield_now();
        }
    });
}

/// The same for who may be no fiber: its thread sleeps then.
pub(crate) fn pause(time: Duration) {
    if Here::visit(|here| here.is_some()) { sleep(time) } else { std::thread::sleep(time) }
}
