//! Waking blocked fibers: from their own worker, from other workers and from other threads.

use policy::ThreadId;

use crate::attraction;
use crate::current_worker::CurrentWorker;
use crate::record::{Fiber, State};
use crate::shared::Core;
use crate::waitable::Woken;
use crate::worker::Worker;

impl Worker {
    /// Makes a blocked fiber ready. The thread that has taken it off its list calls this, once.
    #[inline(always)]
    pub(crate) fn wake(&self, fiber: Fiber, woken: Woken) {
        fiber.woken.set(woken);
        if fiber.home.get() != Some(self.pointer()) {
            return self.send_home(fiber);
        }
        fiber.state.set(State::Ready);
        self.ready(|ready| ready.enqueue(ThreadId(fiber.number.get())));
        self.start_ticks_if_needed();
    }

    /// Sends a fiber, which is ready now, to its worker.
    #[cold]
    #[inline(never)]
    pub(crate) fn send_home(&self, fiber: Fiber) {
        // SAFETY: a worker exists as long as its fibers do; other threads read only what never
        // changes.
        let home = fiber.home.get().map_or(self, |home| unsafe { Worker::at(home) });
        let (core, index) = (home.core_pointer(), home.index());
        if core != self.core_pointer() {
            return wake(None, fiber, fiber.woken.get());
        }
        fiber.thread().attraction.count(self.index(), self.clock.ticks(), self.clock.in_ticks(attraction::QUICK));
        self.core().inboxes[index].send(fiber);
    }

    /// Wakes the fibers whose deadlines have passed. Returns whether there was one.
    pub(crate) fn expire(&self) -> bool {
        let mut any = false;
        let now = self.now();
        while let Some(fiber) = self.timers.take_due(now) {
            any |= self.cancel_wait(fiber, Woken::TimedOut);
        }
        any
    }

    /// Takes a blocked fiber off its list. Returns false if another thread has done so, and will
    /// wake it.
    pub(crate) fn leave_list(&self, fiber: Fiber) -> bool {
        // SAFETY: the fiber is blocked, so what it waits for exists.
        fiber.waits.get().is_some_and(|waits| unsafe { waits.as_ref() }.leave(fiber))
    }

    /// Wakes a blocked fiber, unless another thread does so. Returns whether it was necessary.
    pub(crate) fn cancel_wait(&self, fiber: Fiber, woken: Woken) -> bool {
        let left = self.leave_list(fiber);
        if left {
            self.wake(fiber, woken);
        }
        left
    }
}

/// Makes a blocked fiber ready, from any thread. The thread that has taken it off its list calls
/// this, once.
#[inline(always)]
pub(crate) fn wake(here: Option<CurrentWorker>, fiber: Fiber, woken: Woken) {
    match here {
        Some(here) => here.wake(fiber, woken),
        None => wake_from_outside(fiber, woken),
    }
}

/// Sends a fiber, which is ready now, to its worker, on behalf of a thread outside its runtime.
#[cold]
#[inline(never)]
fn wake_from_outside(fiber: Fiber, woken: Woken) {
    fiber.woken.set(woken);
    let Some(home) = fiber.home.get() else { unreachable!("a blocked fiber has a worker") };
    // SAFETY: a worker exists as long as one of its fibers is blocked. Other threads read only what
    // never changes.
    let (core, index) = unsafe { (Worker::at(home).core_pointer(), Worker::at(home).index()) };
    // SAFETY: as above. From here on the fiber may run, and its runtime end.
    let core = unsafe { Core::share(core) };
    core.inboxes[index].send(fiber);
}
