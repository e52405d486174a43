//! An event that happens once, for which a kernel thread waits.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

use sys::futex::{self, Scope};

#[derive(Default)]
pub(crate) struct Event(AtomicU32);

impl Event {
    /// Ends the wait. All that came before is visible to the waiting thread.
    pub(crate) fn set(&self) {
        self.0.store(1, Release);
        futex::wake(&self.0, 1, Scope::Process);
    }

    /// Blocks the kernel thread until the event, however long that takes. It waits at a futex,
    /// because a worker that [donates its timeslice](crate::preempt) must wait so, and does not
    /// park, because that would take the parking token of the calling fiber.
    pub(crate) fn wait(&self) {
        while self.0.load(Acquire) == 0 {
            futex::wait(&self.0, 0, None, Scope::Process);
        }
    }
}
