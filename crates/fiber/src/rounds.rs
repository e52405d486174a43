//! The rounds in which the workers of a runtime end their fibers together.
//!
//! In a round, each worker cancels its fibers and lets them run. After it all workers stop, and the
//! last one to arrive checks whether anything is left to do: fibers of one worker may have woken
//! those of another, or spawned new ones.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::inbox::Inbox;
use crate::record::{Fiber, Records, State};
use crate::waitable::Waitable;

/// The maximum number of rounds, if fibers continue or spawn others.
const MOST: usize = 64;

/// The rounds; see the module.
#[derive(Default)]
pub(crate) struct Rounds {
    progress: Mutex<Progress>,
    turned: Condvar,
}

#[derive(Default)]
struct Progress {
    /// How many workers there are.
    workers: usize,
    /// The first fibers of all workers but the first: they wait for the end.
    roots: Vec<Root>,
    has_begun: bool,
    arrived: usize,
    /// A worker had something to do.
    any: bool,
    round: usize,
    /// How many fibers remain for good, once that is known.
    left: Option<usize>,
}

struct Root(Fiber);

// SAFETY: only the worker that wakes them touches them.
#[allow(unsafe_code, reason = "a fiber's address goes to the worker that wakes it")]
unsafe impl Send for Root {}

impl Rounds {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a worker.
    pub(crate) fn join(&self) {
        self.progress().workers += 1;
    }

    /// Removes a worker that could not be started.
    pub(crate) fn leave(&self) {
        self.progress().workers -= 1;
    }

    /// Adds a worker's first fiber, which will be woken at the end. Returns false if that has
    /// begun.
    pub(crate) fn add_root(&self, fiber: Fiber) -> bool {
        let mut progress = self.progress();
        if !progress.has_begun {
            progress.roots.push(Root(fiber));
        }
        !progress.has_begun
    }

    /// Begins the end. Returns the fibers to wake.
    pub(crate) fn begin(&self) -> Vec<Fiber> {
        let mut progress = self.progress();
        progress.has_begun = true;
        progress.roots.drain(..).map(|root| root.0).collect()
    }

    /// A worker has done what it could. When all have, returns how many fibers remain, if no worker
    /// can do any more.
    pub(crate) fn arrive(&self, any: bool, inboxes: &[Inbox], records: &Records) -> Option<usize> {
        let mut progress = self.progress();
        progress.any |= any;
        progress.arrived += 1;
        if progress.arrived < progress.workers {
            let round = progress.round;
            let turned = self.turned.wait_while(progress, |progress| progress.round == round);
            return turned.unwrap_or_else(PoisonError::into_inner).left;
        }
        let any = progress.any
            || inboxes.iter().any(Inbox::any)
            || records.all().any(|fiber| matches!(fiber.state.get(), State::Unstarted | State::Ready));
        (progress.any, progress.arrived) = (false, 0);
        progress.round += 1;
        if !any || progress.round == MOST {
            let is_there = |fiber: &Fiber| !matches!(fiber.state.get(), State::Free | State::Ended);
            // Each worker runs its first fiber.
            progress.left = Some(records.all().filter(is_there).count() - progress.workers);
        }
        self.turned.notify_all();
        progress.left
    }
}

/// The name of the wait of the workers' first fibers.
pub(crate) const RUNTIME_END: &str = "the end of its runtime";

/// That wait.
pub(crate) struct RuntimeEnd;

impl Waitable for RuntimeEnd {
    fn leave(&self, _: Fiber) -> bool {
        false
    }

    fn kind(&self) -> &'static str {
        RUNTIME_END
    }
}
