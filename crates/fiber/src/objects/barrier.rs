//! A barrier.

use std::fmt;
use std::pin::Pin;
use std::time::{Duration, Instant};

use crate::error::TimedOut;
use crate::time::after;
use crate::waiting::biased::Biased;
use crate::waiting::list::{TakenList, WaitList, Waiter};
use crate::waiting::{self, Operation, Performing};

/// A barrier for a number of fibers, threads and futures: they wait here until all have arrived,
/// and then all continue. It can be used again and again.
///
/// One number counts the arrivals of any team. An arrival holds the lock of the list of those that
/// wait, so a tree of counters, as in `rowlock-wait`, would shorten nothing.
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
    state: Biased<State>,
}

struct State {
    /// How many have arrived and wait.
    arrived: usize,
    waiting: WaitList<bool>,
}

/// What [`Barrier::wait`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult {
    is_leader: bool,
}

impl BarrierWaitResult {
    /// Whether the caller was the last of its round to arrive.
    pub fn is_leader(&self) -> bool {
        self.is_leader
    }
}

impl Barrier {
    /// A barrier for this many parties; 0 counts as 1.
    pub const fn new(parties: usize) -> Barrier {
        Barrier { parties, state: Biased::new(State { arrived: 0, waiting: WaitList::new() }) }
    }

    /// How many parties it is for.
    pub fn parties(&self) -> usize {
        self.parties
    }

    /// Waits until all have arrived.
    pub fn wait(&self) -> BarrierWaitResult {
        BarrierWaitResult { is_leader: waiting::perform(&Arrive(self), false) }
    }

    /// Like [`Barrier::wait`], but waits only until the deadline. If it passes, the caller has not
    /// arrived, and the others wait for one more.
    ///
    /// # Errors
    /// If the deadline has passed. The last one to arrive continues even after the deadline.
    pub fn wait_until(&self, deadline: Instant) -> Result<BarrierWaitResult, TimedOut> {
        let arrived = waiting::perform_until(&Arrive(self), false, Some(deadline));
        arrived.map(|is_leader| BarrierWaitResult { is_leader }).map_err(|_| TimedOut)
    }

    /// Like [`Barrier::wait_until`], with a timeout that starts now.
    ///
    /// # Errors
    /// As for [`Barrier::wait_until`].
    pub fn wait_timeout(&self, timeout: Duration) -> Result<BarrierWaitResult, TimedOut> {
        self.wait_until(after(timeout))
    }

    /// Like [`Barrier::wait`], in a future. If that is dropped before all have arrived, the caller
    /// has not arrived.
    pub async fn wait_async(&self) -> BarrierWaitResult {
        BarrierWaitResult { is_leader: Performing::new(Arrive(self), false).await }
    }
}

struct Arrive<'a>(&'a Barrier);

impl Operation for Arrive<'_> {
    type State = State;
    /// Whether the caller is the leader.
    type Payload = bool;
    const KIND: &'static str = "a barrier";
    const OBJECT: fn(&Self) -> &Biased<State> = |operation| &operation.0.state;
    const LIST: fn(&mut State) -> &mut WaitList<bool> = |state| &mut state.waiting;

    fn attempt(&self, state: &mut State, is_leader: &mut bool, woken: &mut TakenList<bool>) -> bool {
        *is_leader = state.arrived + 1 >= self.0.parties;
        if *is_leader {
            state.arrived = 0;
            woken.take_all(&mut state.waiting);
        }
        *is_leader
    }

    fn enlist(&self, state: &mut State, waiter: Pin<&Waiter<bool>>) {
        state.arrived += 1;
        state.waiting.push(waiter);
    }

    fn on_left(&self, state: &mut State, _: &mut TakenList<bool>) {
        state.arrived -= 1;
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").field("parties", &self.parties).finish_non_exhaustive()
    }
}
