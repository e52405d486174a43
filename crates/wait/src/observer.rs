//! Observers of the waits of one party.

use policy::Instant;
use policy::waiting::Decision;

/// An activity of a party, from some moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEvent {
    /// It spins, because other parties are missing.
    Spinning,
    /// It yields its CPU or migrates, because other parties are missing.
    Yielding,
    /// It blocks until it is woken, because other parties are missing.
    Blocking,
    /// It is the last to arrive: the round is complete, and it wakes the sleepers.
    RoundCompleted,
    /// The round is over, and the party resumes.
    Resumed,
}

impl WaitEvent {
    /// `None` for a check, which takes a microsecond and counts as part of what it did before.
    pub(crate) fn of(decision: Decision) -> Option<WaitEvent> {
        match decision {
            Decision::Spin(_) => Some(WaitEvent::Spinning),
            Decision::Yield | Decision::Move(_) => Some(WaitEvent::Yielding),
            Decision::Block => Some(WaitEvent::Blocking),
            Decision::CheckRunning => None,
        }
    }
}

/// Observes the waits of one party, and is called by that party. It should take little time.
pub trait Observer {
    /// Whether the observer is real. A constant, so that the compiler removes the work for `()`.
    const ON: bool;

    /// The party does something else since `at`, a time of `CLOCK_MONOTONIC`.
    fn on_event(&mut self, at: Instant, event: WaitEvent);

    /// While it was spinning, the party hardly had a CPU between these times, for at least 5 us.
    fn on_off_cpu(&mut self, from: Instant, to: Instant);
}

/// No observer, at no cost.
impl Observer for () {
    const ON: bool = false;

    fn on_event(&mut self, _: Instant, _: WaitEvent) {}

    fn on_off_cpu(&mut self, _: Instant, _: Instant) {}
}
