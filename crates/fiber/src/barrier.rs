//! A barrier for fibers.

use std::fmt;
use std::time::{Duration, Instant};

use crate::error::TimedOut;
use crate::gate::{Gate, Gated};
use crate::queue::Queue;
use crate::record::Fiber;
use crate::time::after;
use crate::waits::{Waitable, Woken};
use crate::worker::CurrentWorker;

/// A barrier for a number of fibers: they wait here until all have arrived, and then all continue.
/// It can be used again and again.
///
/// # Panics
/// Waiting panics on a kernel thread that runs no fibers, and in a runtime to which the barrier
/// does not belong.
///
/// ```
/// use rowlock_fiber::{Barrier, scope};
///
/// rowlock_fiber::run(|| {
///     let barrier = Barrier::new(10);
///     let leaders = scope(|scope| {
///         let fibers: Vec<_> = (0..10).map(|_| scope.spawn(|| barrier.wait().is_leader())).collect();
///         fibers.into_iter().map(|fiber| fiber.join().unwrap()).filter(|leads| *leads).count()
///     });
///     assert_eq!(leaders, 1);
/// });
/// ```
pub struct Barrier {
    parties: usize,
    gate: Gate<State>,
}

struct State {
    /// How many have arrived and wait.
    arrived: usize,
    waiting: Queue,
}

impl Gated for State {
    fn forget_fibers(&mut self) {
        self.arrived = 0;
        self.waiting.forget_fibers();
    }
}

/// What [`Barrier::wait`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult {
    is_leader: bool,
}

impl BarrierWaitResult {
    /// Whether this fiber was the last of its round to arrive.
    pub fn is_leader(&self) -> bool {
        self.is_leader
    }
}

impl Barrier {
    /// A barrier for this many fibers; 0 counts as 1.
    pub const fn new(parties: usize) -> Barrier {
        Barrier { parties, gate: Gate::new(State { arrived: 0, waiting: Queue::new() }) }
    }

    /// How many fibers it is for.
    pub fn parties(&self) -> usize {
        self.parties
    }

    /// Waits until all have arrived.
    #[track_caller]
    pub fn wait(&self) -> BarrierWaitResult {
        match self.wait_inner(None) {
            Ok(result) => result,
            // Without a deadline it always succeeds.
            Err(TimedOut) => BarrierWaitResult { is_leader: false },
        }
    }

    /// Like [`Barrier::wait`], but waits only until the deadline. If it passes, the fiber has not
    /// arrived, and the others wait for one more.
    ///
    /// # Errors
    /// If the deadline has passed. The last fiber to arrive continues even after the deadline.
    #[track_caller]
    pub fn wait_until(&self, deadline: Instant) -> Result<BarrierWaitResult, TimedOut> {
        self.wait_inner(Some(deadline))
    }

    /// Like [`Barrier::wait_until`], with a timeout that starts now.
    ///
    /// # Errors
    /// As for [`Barrier::wait_until`].
    #[track_caller]
    pub fn wait_timeout(&self, timeout: Duration) -> Result<BarrierWaitResult, TimedOut> {
        self.wait_until(after(timeout))
    }

    #[track_caller]
    fn wait_inner(&self, deadline: Option<Instant>) -> Result<BarrierWaitResult, TimedOut> {
        CurrentWorker::enter(|here| self.wait_in_runtime(here, deadline))
    }

    fn wait_in_runtime(&self, here: CurrentWorker, deadline: Option<Instant>) -> Result<BarrierWaitResult, TimedOut> {
        here.safepoint();
        let me = here.current();
        let is_leader = self.gate.enter(&here, |state| {
            if state.arrived + 1 < self.parties {
                state.arrived += 1;
                state.waiting.push(me);
                return false;
            }
            state.arrived = 0;
            while let Some(fiber) = state.waiting.pop() {
                here.wake(fiber, Woken::Called);
            }
            true
        });
        if !is_leader && here.block(self, deadline) == Woken::TimedOut {
            return Err(TimedOut);
        }
        Ok(BarrierWaitResult { is_leader })
    }
}

impl Waitable for Barrier {
    fn leave(&self, fiber: Fiber) -> bool {
        self.gate.enter(&CurrentWorker::expect(), |state| {
            let waited = state.waiting.remove(fiber);
            state.arrived -= usize::from(waited);
            waited
        })
    }

    fn kind(&self) -> &'static str {
        "a barrier"
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").field("parties", &self.parties).finish_non_exhaustive()
    }
}
