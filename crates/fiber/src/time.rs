//! Sleeping.

use std::time::{Duration, Instant};

use crate::current_worker::CurrentWorker;
use crate::record::{Fiber, State};
use crate::waitable::Waitable;

/// A wait for a time alone.
pub(crate) struct Asleep {
    pub(crate) is_in_c_library: bool,
}

impl Waitable for Asleep {
    fn leave(&self, fiber: Fiber) -> bool {
        // It is on no list, and may have been woken already, by its timer or because its runtime
        // ends.
        matches!(fiber.state.get(), State::Blocked | State::BlockedUnwinding)
    }

    fn is_in_c_library(&self) -> bool {
        self.is_in_c_library
    }

    fn kind(&self) -> &'static str {
        "a time"
    }
}

/// The time that deadlines refer to: real time, or the runtime's own if it is deterministic or has
/// a scripted clock.
///
/// # Panics
/// If called outside a runtime.
pub fn now() -> Instant {
    CurrentWorker::enter(|here| here.now())
}

/// Lets other fibers run for this time. Only the fiber blocks. A fiber that unwinds because its
/// runtime ends does not wait.
///
/// # Panics
/// If called outside a runtime.
pub fn sleep(time: Duration) {
    sleep_until(after(time));
}

/// The time after this duration, by the clock of the calling fiber's runtime or the real one.
pub(crate) fn after(time: Duration) -> Instant {
    // Far in the future, but still a valid time.
    const AGES: Duration = Duration::from_secs(1 << 32);
    CurrentWorker::visit(|here| here.map_or_else(Instant::now, |here| here.now())) + time.min(AGES)
}

/// Lets other fibers run until this time.
///
/// # Panics
/// If called outside a runtime.
pub fn sleep_until(time: Instant) {
    CurrentWorker::enter(|here| {
        if here.is_wait_forbidden() {
            return;
        }
        if here.now() < time {
            here.block(&Asleep { is_in_c_library: false }, Some(time));
        } else {
            here.yield_now();
        }
    });
}
