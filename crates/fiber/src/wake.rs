//! Waking blocked fibers: from their own worker, from other workers and from other threads.

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
            return send_home(Some(self), fiber);
        }
        fiber.state.set(State::Ready);
        self.ready(|ready| ready.enqueue(fiber.id()));
        self.start_ticks_if_needed();
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
        fiber.waitable().is_some_and(|waits| waits.leave(fiber))
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
        None => {
            fiber.woken.set(woken);
            send_home(None, fiber);
        }
    }
}

/// Sends a fiber, which is ready now, to its worker, on behalf of another one, or of a thread that
/// is none.
#[cold]
#[inline(never)]
fn send_home(here: Option<&Worker>, fiber: Fiber) {
    let Some(home) = fiber.home.get() else { unreachable!("a blocked fiber has a worker") };
    // SAFETY: a worker exists as long as one of its fibers is blocked.
    let home = unsafe { Worker::at(home) };
    let (core, index) = (home.core_pointer, home.index);
    if let Some(here) = here.filter(|here| here.core_pointer == core) {
        fiber.thread().attraction.count(here.index, here.clock.ticks(), here.clock.in_ticks(attraction::QUICK));
        here.core().inboxes[index].send(fiber);
    } else {
        // SAFETY: as above. As soon as the fiber is sent, it may run, and its runtime may end.
        unsafe { Core::share(core) }.inboxes[index].send(fiber);
    }
}
