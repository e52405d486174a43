//! Nobody can ever run again.

use std::fmt;

use crate::record::State;
use crate::waits::Woken;
use crate::worker::Worker;

/// That all fibers of a runtime wait for each other, or for nobody, and which.
#[derive(Clone, Debug)]
pub struct Deadlock {
    waiting: Vec<String>,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "all fibers wait, and nobody can wake them: {}", self.waiting.join("; "))
    }
}

impl std::error::Error for Deadlock {}

/// Tells the first fiber, which ends the runtime.
pub(crate) fn found(worker: &Worker) {
    let core = worker.core();
    let blocked =
        core.records.all().filter(|fiber| matches!(fiber.state.get(), State::Blocked | State::BlockedUnwinding));
    let waiting = blocked.map(|fiber| fiber.label()).collect();
    core.deadlocked(Deadlock { waiting });
    let first = core.records.get(0);
    if !worker.call_off(first, Woken::Cancelled) {
        std::process::abort();
    }
}
