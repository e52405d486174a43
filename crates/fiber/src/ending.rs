//! How fibers end before their time: by [`exit`], and when their runtime does.
//!
//! A fiber that is left in the middle of its function may have things on its stack that others rely on: a scope whose fibers or threads borrow from it, a value that is pinned
//! there. So a stack is never just taken away. When a runtime ends, functions that have not begun are dropped, and fibers that have begun unwind from where they are, as if
//! that had panicked, with a payload of our own that no hook hears of. What they do while they unwind, they may wait for each other as
//! ever. A fiber that catches this and goes on is told again at its next wait. One that waits in the middle of a panic of its own cannot be told: if nobody
//! else wakes it, its stack stays until the process ends, and standard error says so.

use std::any::Any;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use policy::ThreadId;

use crate::error::{JoinError, StackError};
use crate::here::Here;
use crate::inbox::Inbox;
use crate::record::{Fiber, State as FiberState};
use crate::shared::Core;
use crate::waits::{Waits, Woken};
use crate::worker::Worker;

/// Whether a fiber can be unwound. Where panics abort, those that are left when their runtime ends stay where they are.
pub(crate) const CAN_UNWIND: bool = cfg!(panic = "unwind");

/// The payload of a fiber whose runtime ends.
pub(crate) struct Cancelled;

/// The payload of a fiber that has left.
pub(crate) struct Exited;

/// The payload of a fiber that never ran.
pub(crate) struct NoStack(pub(crate) StackError);

/// Unwinds the fiber, whose runtime ends.
#[cold]
pub(crate) fn unwind() -> ! {
    if let Some(me) = Here::look().and_then(|here| here.running()) {
        me.was_cancelled.set(true);
    }
    resume_unwind(Box::new(Cancelled))
}

/// The same, where that can be.
#[cold]
pub(crate) fn unwind_unless_panicking(here: &Worker) {
    if !here.is_panicking() {
        unwind();
    }
}

/// Ends the fiber that calls it: it unwinds, as with a panic, but without a message, and [`join`](crate::JoinHandle::join) says that it has
/// [left](JoinError::Exited). The first fiber takes its runtime with it. Where panics abort, it ends the process.
///
/// # Panics
/// Where no runtime runs.
#[track_caller]
pub fn exit() -> ! {
    Here::enter(|_| ());
    resume_unwind(Box::new(Exited))
}

/// Why a fiber with this payload has no result.
#[cold]
pub(crate) fn reason(payload: Box<dyn Any + Send>) -> JoinError {
    if payload.is::<Cancelled>() {
        JoinError::Cancelled
    } else if payload.is::<Exited>() {
        JoinError::Exited
    } else {
        match payload.downcast::<NoStack>() {
            Ok(no_stack) => JoinError::NoStack(no_stack.0),
            Err(payload) => JoinError::Panicked(payload),
        }
    }
}

/// How often those that are left are told, when they come back or make others.
const MAX_ROUNDS: usize = 64;

/// How many turns fibers are given to end, each time.
const TURNS: usize = 1 << 12;

/// How the workers end their fibers together: in rounds. In a round each cancels its own and lets them run. After it all stand still, and the last to come sees whether there is anything
/// left to do; fibers of one worker may have woken those of another, or made new ones.
#[derive(Default)]
pub(crate) struct Rounds {
    state: Mutex<State>,
    turned: Condvar,
}

#[derive(Default)]
struct State {
    /// How many workers there are.
    workers: usize,
    /// The fibers that those but the first began with: they wait for the end.
    roots: Vec<Root>,
    begun: bool,
    arrived: usize,
    /// Somebody had something to do.
    any: bool,
    round: usize,
    /// How many fibers are left for good, once that is known.
    left: Option<usize>,
}

struct Root(Fiber);

// SAFETY: only who wakes them touches them.
#[allow(unsafe_code, reason = "a fiber's address goes to who wakes it")]
unsafe impl Send for Root {}

impl Rounds {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is one worker more.
    pub(crate) fn join(&self) {
        self.state().workers += 1;
    }

    /// There was to be one worker more, and there is not.
    pub(crate) fn leave(&self) {
        self.state().workers -= 1;
    }

    /// What a worker that is not the first begins with: it waits until the runtime ends, and lets fibers run meanwhile.
    pub(crate) fn wait(&self, worker: &Worker) {
        let mut state = self.state();
        if !state.begun {
            state.roots.push(Root(worker.current()));
            drop(state);
            worker.block_quietly(&End, None);
        }
    }

    /// The end begins.
    fn begin(&self, worker: &Worker) {
        let mut state = self.state();
        state.begun = true;
        state.roots.drain(..).for_each(|root| worker.wake(root.0, Woken::Called));
    }

    /// A worker has done what it could. When all have, tells how many fibers are left, if nobody can do any more.
    fn arrive(&self, core: &Core, any: bool) -> Option<usize> {
        let mut state = self.state();
        state.any |= any;
        state.arrived += 1;
        if state.arrived < state.workers {
            let round = state.round;
            while state.round == round {
                state = self.turned.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            return state.left;
        }
        let is = |fiber: &Fiber, states: &[FiberState]| states.contains(&fiber.state.get());
        let any = state.any
            || core.inboxes.iter().any(Inbox::any)
            || core.records.all().any(|fiber| is(&fiber, &[FiberState::Unstarted, FiberState::Ready]));
        (state.any, state.arrived) = (false, 0);
        state.round += 1;
        if !any || state.round == MAX_ROUNDS {
            let there = core.records.all().filter(|fiber| !is(fiber, &[FiberState::Free, FiberState::Ended])).count();
            // Each worker runs what it began with.
            state.left = Some(there - state.workers);
        }
        self.turned.notify_all();
        state.left
    }
}

/// What the workers' first fibers wait for.
pub(crate) const RUNTIME_END: &str = "the end of its runtime";

/// A wait for that.
struct End;

impl Waits for End {
    fn leave(&self, _: Fiber) -> bool {
        false
    }

    fn kind(&self) -> &'static str {
        RUNTIME_END
    }
}

/// Ends all fibers but those that the workers began with. Returns how many are left for good. For the first worker.
pub(crate) fn end_all(worker: &Worker) -> usize {
    let me = worker.current();
    if me.has_extras() {
        crate::local::end(me);
    }
    worker.core().begin_shutdown();
    worker.core().rounds.begin(worker);
    let left = end_own(worker);
    if left > 0 {
        let _ = writeln!(
            std::io::stderr(),
            "rowlock_fiber: not all fibers ended with their runtime ({left} did not), since they wait in the middle of a panic, or again and again, or come to no point{}; their stacks stay",
            if CAN_UNWIND { "" } else { ", or since panics abort" }
        );
    }
    left
}

/// The part that each worker has in this.
pub(crate) fn end_own(worker: &Worker) -> usize {
    worker.outside.begin_shutdown();
    worker.begin_grace();
    loop {
        let mut any = false;
        for fiber in worker.core().records.all() {
            any |= cancel(worker, fiber);
        }
        while let Some(fiber) = worker.core().unstarted.pop() {
            drop_task(fiber);
            worker.take_in(fiber);
            worker.ready(|ready| ready.enqueue(ThreadId(fiber.number.get())));
        }
        for _ in 0..TURNS {
            worker.yield_to_any();
            if worker.ready(|ready| ready.waiting()) == 0 && worker.core().unstarted.len() == 0 && !worker.inbox().any()
            {
                break;
            }
        }
        if let Some(left) = worker.core().rounds.arrive(worker.core(), any) {
            return left;
        }
    }
}

/// Drops the function of a fiber that has not started.
pub(crate) fn drop_task(fiber: Fiber) -> bool {
    // A panic ends here, as there is nobody to tell.
    catch_unwind(AssertUnwindSafe(|| fiber.drop_task())).unwrap_or(true)
}

/// Tells a fiber that its runtime ends. True if that will do something. One that is ready is told when it comes back from its yield, or at its next
/// wait: what it was woken with (a lock that was handed over to it, say) it is to have.
fn cancel(worker: &Worker, fiber: Fiber) -> bool {
    // First what it does, then where: see `SharedState`.
    let state = fiber.state.get();
    if state == FiberState::Unstarted {
        // With several workers they are in the place for those, or will be refused like any other when they have started.
        return worker.is_alone() && drop_task(fiber);
    }
    if fiber == worker.current() || !worker.is_home_of(fiber) || !CAN_UNWIND {
        return false;
    }
    match state {
        FiberState::Ready => {
            fiber.cancel_pending.set(true);
            true
        }
        FiberState::Blocked => worker.cancel_wait(fiber, Woken::Cancelled),
        FiberState::Free
        | FiberState::Unstarted
        | FiberState::Running
        | FiberState::BlockedUnwinding
        | FiberState::Ended => false,
    }
}
