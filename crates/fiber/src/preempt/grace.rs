//! How long preemptible fibers that compute on may take to come to a point, when their runtime ends.
//!
//! The time is counted in ticks, which come each [`TICK`] from then on, and each of which ends the turn of the preemptible fiber that it finds. A preemptible fiber has [`TICKS`] of them, and goes
//! [on elsewhere](super::orphan) when its turn comes after that. Where none has ended during [`MAX_TICKS`] ticks, there are too many, and each goes on elsewhere when its turn comes.
//!
//! A kernel thread that does not run gets one tick at most, however long that lasts. So a busy machine takes little from the time that preemptible fibers have.

use std::cell::Cell;
use std::time::Duration;

use crate::preemptible::PreemptibleFiber;
use crate::record::Fiber;
use crate::worker::Worker;

/// How far ticks are apart while a runtime ends.
pub(super) const TICK: Duration = Duration::from_millis(1);

/// How many ticks a preemptible fiber has.
const TICKS: u32 = 50;

/// So many ticks without the end of any preemptible fiber are too many.
const MAX_TICKS: u32 = 2_000;

/// What a worker counts while its runtime ends.
#[derive(Default)]
pub(super) struct Grace {
    /// How many ticks have found a preemptible fiber since one last ended. None before the end.
    ticks: Cell<Option<u32>>,
}

impl Grace {
    /// Whether the end has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.ticks.get().is_some()
    }

    /// A tick has found this preemptible fiber. In a handler.
    pub(super) fn count(&self, preemptible: &PreemptibleFiber) {
        if let Some(ticks) = self.ticks.get() {
            self.ticks.set(Some(ticks + 1));
            preemptible.grace_ticks.set(preemptible.grace_ticks.get() + 1);
        }
    }

    /// A preemptible fiber has ended.
    #[inline]
    pub(super) fn restart(&self) {
        self.ticks.set(self.ticks.get().map(|_| 0));
    }
}

impl Worker {
    /// The end begins: from now on ticks are counted.
    pub(crate) fn begin_grace(&self) {
        self.preemption.grace.ticks.set(Some(0));
        if self.has_preemptible() {
            self.start_ticks();
        }
    }

    /// Whether a preemptible fiber is sent away that was interrupted, as its runtime ends and its time is over. One that stopped at a point is told there instead.
    pub(crate) fn is_past_grace(&self, fiber: Fiber) -> bool {
        self.preemption.grace.ticks.get().is_some_and(|ticks| {
            let is_over = |preemptible: &PreemptibleFiber| {
                preemptible.was_interrupted.get() && (preemptible.grace_ticks.get() >= TICKS || ticks >= MAX_TICKS)
            };
            fiber.preemptible().is_some_and(is_over)
        })
    }
}
