//! How long a preemptible fiber has to reach a safepoint when its runtime ends: [`TICKS`] ticks,
//! which come every [`TICK`] from then on and end the turn of the fiber that they find. If its turn
//! comes after that, it is [orphaned](super::orphan). If no fiber has ended during [`MAX_TICKS`]
//! ticks, there are too many, and each is orphaned when its turn comes.
//!
//! A kernel thread that does not run gets at most one tick, however long that lasts. So a busy
//! machine takes little of the fibers' time.

use std::time::Duration;

use crate::fiber_thread::FiberThread;
use crate::record::Fiber;
use crate::worker::Worker;

/// The interval of ticks while a runtime ends.
pub(super) const TICK: Duration = Duration::from_millis(1);

/// How many ticks a preemptible fiber has.
const TICKS: u32 = 50;

/// After this many ticks in which no preemptible fiber ended, all are orphaned.
const MAX_TICKS: u32 = 2_000;

impl Worker {
    /// Begins to count ticks, as the runtime ends.
    pub(crate) fn begin_grace(&self) {
        self.preemption.grace.set(Some(0));
        if self.has_ticks() {
            self.start_ticks();
        }
    }

    /// A tick has found this preemptible fiber. Runs in a handler.
    pub(super) fn count_grace(&self, thread: &FiberThread) {
        if let Some(ticks) = self.preemption.grace.get() {
            self.preemption.grace.set(Some(ticks + 1));
            thread.grace_ticks.set(thread.grace_ticks.get() + 1);
        }
    }

    /// Whether an interrupted fiber is orphaned. A fiber that stopped at a safepoint is cancelled
    /// there instead.
    pub(crate) fn is_past_grace(&self, fiber: Fiber) -> bool {
        self.preemption.grace.get().is_some_and(|ticks| {
            let thread = fiber.thread();
            thread.was_interrupted.get() && (thread.grace_ticks.get() >= TICKS || ticks >= MAX_TICKS)
        })
    }
}
