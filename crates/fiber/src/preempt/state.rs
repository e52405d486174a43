//! What a worker keeps for preemption.

use std::cell::Cell;
use std::ptr::NonNull;
use std::time::Duration;

use sys::tick::{SignalMask, Slack};

use super::ticks::Ticks;
use crate::arch::Context;
use crate::control_block::ControlBlock;
use crate::control_block::thread::Threads;
use crate::fiber_thread::FiberThread;
use crate::queue::Queue;
use crate::record::Fiber;
use crate::stack::Stack;

/// Ticks are at least this far apart, except for short running times: each costs the kernel some
/// microseconds.
pub(super) const SOONEST: Duration = Duration::from_micros(50);

/// The time of the next tick if the timer must be set again before a fiber runs.
pub(super) const SET_AGAIN: u64 = u64::MAX;

/// When the next tick comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ticking {
    #[default]
    Never,
    /// At the next deadline.
    AtDeadline,
    /// Every [`SLOW`](super::timing::SLOW).
    Slowly,
    /// At the next deadline or the end of a running time, whichever is earlier.
    On,
}

/// Counts of what the ticks of a runtime have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preemptions {
    /// How often a fiber was preempted.
    pub taken: u64,
    /// How often a fiber's turn was extended because it held a lock.
    pub extended: u64,
    /// How many ticks came while the library worked for a fiber. It gave way when that was done, if
    /// its turn was over.
    pub in_runtime: u64,
    /// How many ticks came while a fiber blocked signals, usually in a signal handler, or while the
    /// handler was reinstalled for an alternate stack. The fiber continued.
    pub masked: u64,
    /// How often a fiber ran on the timeslice of another one that waited in the kernel for it.
    pub donated: u64,
}

/// A worker's state for preemption.
#[derive(Default)]
pub(crate) struct Preemption {
    /// Fibers can have blocks.
    pub(crate) has_blocks: Cell<bool>,
    /// Only if fibers have kernel threads.
    pub(crate) threads: Threads,
    /// The signals that the worker's own kernel thread blocks outside of handlers, as far as known.
    pub(crate) mask: Cell<Option<SignalMask>>,
    /// How many ticks in a row have found other signals blocked.
    pub(super) masked: Cell<u32>,
    /// The original timer slack of the worker's own kernel thread, if it is reduced meanwhile.
    pub(super) slack: Cell<Option<Slack>>,
    /// The worker's share of its ticks.
    pub(crate) ticks: Cell<Option<NonNull<Ticks>>>,
    pub(super) ticking: Cell<Ticking>,
    /// When the timer fires, in nanoseconds of the worker's timers; the maximum if it is not known
    /// or never.
    pub(super) tick_at: Cell<u64>,
    /// Deadlines after this time need no earlier tick.
    pub(super) next_tick: Cell<u64>,
    /// The last tick found a fiber that computes.
    pub(super) computes: Cell<bool>,
    /// How soon the next tick checks for that.
    pub(super) check: Cell<Duration>,
    /// The stack of the scheduler, which runs after a tick. Fibers that share their worker's
    /// thread-locals have its block.
    pub(crate) scheduler: Cell<Option<Stack>>,
    /// Preemptible fibers that were interrupted outside the runtime, and are ready. A handler
    /// changes it only if it has interrupted a wait, and no code waits while it changes the list.
    pub(super) interrupted: Queue,
    /// The donation that is in progress: the recipient, the donor's context, and its block.
    pub(super) recipient: Cell<Option<Fiber>>,
    pub(super) donor: Cell<Context>,
    pub(super) donor_block: Cell<ControlBlock>,
    /// How many ticks have found a preemptible fiber since one last ended. `None` before the
    /// runtime begins to end.
    pub(super) grace: Cell<Option<u32>>,
    pub(super) counts: Cell<Preemptions>,
}

impl Preemption {
    pub(crate) fn new() -> Preemption {
        Preemption {
            tick_at: Cell::new(u64::MAX),
            next_tick: Cell::new(SET_AGAIN),
            check: Cell::new(SOONEST),
            ..Preemption::default()
        }
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Preemptions)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    #[inline]
    pub(super) fn ticks(&self) -> Option<&Ticks> {
        // SAFETY: the worker has a share of them.
        self.ticks.get().map(|ticks| unsafe { ticks.as_ref() })
    }

    /// Notes which signals the worker's own kernel thread blocks, and so its fibers.
    pub(crate) fn note_mask(&self) {
        self.mask.set(Some(SignalMask::of_this_thread()));
    }

    /// Blocks the same signals on the calling thread.
    pub(crate) fn apply_mask(&self) {
        self.mask.get().inspect(SignalMask::apply_to_this_thread);
    }

    /// The state of the scheduler's thread.
    pub(crate) fn scheduler_thread(&self) -> Option<NonNull<FiberThread>> {
        self.scheduler.get().and_then(|stack| stack.thread())
    }

    /// A fiber has ended here.
    #[inline]
    pub(crate) fn restart_grace(&self) {
        self.grace.set(self.grace.get().map(|_| 0));
    }
}
