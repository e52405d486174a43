//! How long guests that compute on may take to come to a point, when their runtime ends.
//!
//! The time is counted in ticks, which come each [`TICK`] from then on, and each of which ends the turn of the guest that it finds. A guest has [`TICKS`] of them, and goes
//! [on elsewhere](super::exile) when its turn comes after that. Where none has ended during [`PATIENCE`] ticks, there are too many, and each goes on elsewhere when its turn comes.
//!
//! A kernel thread that does not run gets one tick at most, however long that lasts. So a busy machine takes little from the time that guests have.

use std::cell::Cell;
use std::time::Duration;

use crate::guest::Guest;
use crate::record::Fiber;
use crate::worker::Worker;

/// How far ticks are apart while a runtime ends.
pub(super) const TICK: Duration = Duration::from_millis(1);

/// How many ticks a guest has.
const TICKS: u32 = 50;

/// So many ticks without the end of any guest are too many.
const PATIENCE: u32 = 2_000;

/// What a worker counts while its runtime ends.
#[derive(Default)]
pub(super) struct Grace {
    /// How many ticks have found a guest since one last ended. None before the end.
    ticks: Cell<Option<u32>>,
}

impl Grace {
    /// Whether the end has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.ticks.get().is_some()
    }

    /// A tick has found this guest. In a handler.
    pub(super) fn count(&self, guest: &Guest) {
        if let Some(ticks) = self.ticks.get() {
            self.ticks.set(Some(ticks + 1));
            guest.grace.set(guest.grace.get() + 1);
        }
    }

    /// A guest has ended.
    #[inline]
    pub(super) fn restart(&self) {
        self.ticks.set(self.ticks.get().map(|_| 0));
    }
}

impl Worker {
    /// The end begins: from now on ticks are counted.
    pub(crate) fn begin_grace(&self) {
        self.preemption.grace.ticks.set(Some(0));
        if self.has_guests() {
            self.ticks_on();
        }
    }

    /// Whether a guest is sent away that was interrupted, as its runtime ends and its time is over. One that stopped at a point is told there instead.
    pub(crate) fn is_to_be_exiled(&self, fiber: Fiber) -> bool {
        self.preemption.grace.ticks.get().is_some_and(|ticks| {
            let is_over =
                |guest: &Guest| guest.was_interrupted.get() && (guest.grace.get() >= TICKS || ticks >= PATIENCE);
            fiber.guest().is_some_and(is_over)
        })
    }
}
