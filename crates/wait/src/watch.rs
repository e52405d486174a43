//! Looking on at a member's waits, as they happen.

use policy::Instant;
use policy::waiting::Decision;

/// What a member of the team does from some moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// It spins. It has arrived, and others are missing, as in the two below.
    Spins,
    /// It yields its CPU, or goes over to another.
    Yields,
    /// It goes to sleep until it is woken.
    Blocks,
    /// It is the last to arrive: the round is complete, and it wakes those that sleep.
    Completes,
    /// The round is over, and it goes on.
    GoesOn,
}

impl Moment {
    pub(crate) fn of(decision: Decision) -> Moment {
        match decision {
            Decision::Spin(_) => Moment::Spins,
            Decision::Yield => Moment::Yields,
            Decision::Block => Moment::Blocks,
            Decision::Move(_) => Moment::Yields,
        }
    }
}

/// Somebody who looks on at the waits of one member, and is told by it, in between, what it does. That takes time of it, so
/// it should be short.
pub trait Watch {
    /// Whether anybody does look; a constant, so that what is only done for it can be compiled away.
    const ON: bool;

    /// The member does something else from this moment of `CLOCK_MONOTONIC` on.
    fn sees(&mut self, at: Instant, what: Moment);

    /// Though it meant to spin, the member did nothing for so long that it has hardly had a CPU: 5 us at least.
    fn was_away(&mut self, from: Instant, to: Instant);
}

/// Nobody looks on, at no cost.
impl Watch for () {
    const ON: bool = false;

    fn sees(&mut self, _: Instant, _: Moment) {}

    fn was_away(&mut self, _: Instant, _: Instant) {}
}
