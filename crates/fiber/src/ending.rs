//! How fibers end early: by [`exit`], and when their runtime ends.
//!
//! A fiber that is in the middle of its function may have things on its stack on which others rely:
//! a scope whose fibers or threads borrow from it, or a pinned value. So a stack is never just
//! freed. When a runtime ends, functions that have not started are dropped, and fibers that have
//! started unwind from where they are, as if the call there had panicked, with a special payload
//! and without calling the panic hook. While they unwind, they may wait for each other as usual. A
//! fiber that catches this and continues is cancelled again at its next wait. A fiber that waits
//! during a panic of its own cannot be cancelled: if no other fiber wakes it, its stack stays until
//! the process ends, and standard error says so.

use std::any::Any;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use policy::ThreadId;

use crate::current_worker::CurrentWorker;
use crate::error::{JoinError, StackError};
use crate::inbox::Inbox;
use crate::record::{Fiber, State as FiberState};
use crate::shared::Core;
use crate::waiting::{Waitable, Woken};
use crate::worker::Worker;

/// Whether a fiber can be unwound. If panics abort, fibers that remain when their runtime ends stay
/// where they are.
pub(crate) const CAN_UNWIND: bool = cfg!(panic = "unwind");

/// The payload of a fiber whose runtime ends.
pub(crate) struct Cancelled;

/// The payload of a fiber that has exited.
pub(crate) struct Exited;

/// The payload of a fiber that never ran.
pub(crate) struct NoStack(pub(crate) StackError);

/// Unwinds the fiber, whose runtime ends.
#[cold]
pub(crate) fn unwind() -> ! {
    resume_unwind(Box::new(Cancelled))
}

/// The same, unless the fiber unwinds already.
#[cold]
pub(crate) fn unwind_unless_panicking() {
    if CurrentWorker::enter(|here| here.current().thread().can_unwind()) {
        unwind();
    }
}

/// Ends the calling fiber: it unwinds, as with a panic, but without a message, and
/// [`join`](crate::JoinHandle::join) says that it has [left](JoinError::Exited). If it is the first
/// fiber, its runtime ends. If panics abort, the process ends.
///
/// # Panics
/// If called outside a runtime.
#[track_caller]
pub fn exit() -> ! {
    CurrentWorker::enter(|_| ());
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

/// How often the remaining fibers are cancelled, if they continue or spawn others.
const MAX_ROUNDS: usize = 64;

/// How many turns fibers get to end, in each round.
const TURNS: usize = 1 << 12;

/// The rounds in which the workers end their fibers together. In a round, each worker cancels its
/// fibers and lets them run. After it all workers stop, and the last one to arrive checks whether
/// anything is left to do: fibers of one worker may have woken those of another, or spawned new
/// ones.
#[derive(Default)]
pub(crate) struct Rounds {
    state: Mutex<State>,
    turned: Condvar,
}

#[derive(Default)]
struct State {
    /// How many workers there are.
    workers: usize,
    /// The first fibers of all workers but the first: they wait for the end.
    roots: Vec<Root>,
    begun: bool,
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
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a worker.
    pub(crate) fn join(&self) {
        self.state().workers += 1;
    }

    /// Removes a worker that could not be started.
    pub(crate) fn leave(&self) {
        self.state().workers -= 1;
    }

    /// The body of the first fiber of an additional worker: it waits until the runtime ends, and
    /// lets other fibers run meanwhile.
    pub(crate) fn wait(&self, worker: &Worker) {
        let mut state = self.state();
        if !state.begun {
            state.roots.push(Root(worker.current()));
            drop(state);
            worker.block_quietly(&End, None);
        }
    }

    /// Wakes these fibers when the runtime ends.
    fn begin(&self, worker: &Worker) {
        let mut state = self.state();
        state.begun = true;
        state.roots.drain(..).for_each(|root| worker.wake(root.0, Woken::Called));
    }

    /// A worker has done what it could. When all have, returns how many fibers remain, if no worker
    /// can do any more.
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
            // Each worker runs its first fiber.
            state.left = Some(there - state.workers);
        }
        self.turned.notify_all();
        state.left
    }
}

/// The name of the wait of the workers' first fibers.
pub(crate) const RUNTIME_END: &str = "the end of its runtime";

/// A wait for that.
struct End;

impl Waitable for End {
    fn leave(&self, _: Fiber) -> bool {
        false
    }

    fn kind(&self) -> &'static str {
        RUNTIME_END
    }
}

/// Ends all fibers except the workers' first ones. Returns how many remain for good. For the first
/// worker.
pub(crate) fn end_all(worker: &Worker) -> usize {
    worker.core().begin_shutdown();
    worker.core().rounds.begin(worker);
    let left = end_own(worker);
    if left > 0 {
        let _ = writeln!(
            std::io::stderr(),
            "rowlock_fiber: not all fibers ended with their runtime ({left} did not), because they wait in the middle of a panic, wait again and again, or reach no safepoint{}; their stacks stay",
            if CAN_UNWIND { "" } else { ", or because panics abort" }
        );
    }
    left
}

/// How many milliseconds fibers that wait in calls of the C library have until one of them goes on,
/// and in total. They cannot be unwound there, but most such waits are short.
const PATIENCE: u32 = 50;
const MAX_PATIENCE: u32 = 2_000;

/// Lets fibers that wait in calls of the C library go on. Returns whether some still do.
fn await_calls(worker: &Worker, total: &mut u32) -> bool {
    let mut left = PATIENCE;
    while worker.core().records.all().any(|fiber| worker.is_in_c_library(fiber)) {
        if left == 0 || *total == 0 {
            return true;
        }
        (left, *total) = (left - 1, *total - 1);
        std::thread::sleep(Duration::from_millis(1));
        worker.read_clock(None);
        if worker.ready(|ready| ready.waiting()) > 0 {
            left = PATIENCE;
            take_turns(worker);
        }
    }
    false
}

/// Lets the fibers run that are ready.
fn take_turns(worker: &Worker) {
    for _ in 0..TURNS {
        worker.yield_to_any();
        if worker.ready(|ready| ready.waiting()) == 0 && worker.core().offered.len() == 0 && !worker.inbox().any() {
            break;
        }
    }
}

/// Each worker's part in this.
pub(crate) fn end_own(worker: &Worker) -> usize {
    worker.outside.begin_shutdown();
    worker.begin_grace();
    let (mut patience, mut waits) = (MAX_PATIENCE, 0);
    loop {
        let mut any = false;
        for fiber in worker.core().records.all() {
            // Another worker may have waited for this one in the round before the last.
            any |= if waits > 1 && worker.is_in_c_library(fiber) {
                worker.orphan_in_c_library(fiber)
            } else {
                cancel(worker, fiber)
            };
        }
        while let Some(fiber) = worker.core().offered.pop() {
            if fiber.state.get() == FiberState::Unstarted {
                drop_task(fiber);
            }
            worker.take_in_offered(fiber);
            worker.ready(|ready| ready.enqueue(ThreadId(fiber.number.get())));
        }
        take_turns(worker);
        if await_calls(worker, &mut patience) {
            waits += 1;
            any |= waits <= 2;
        }
        if let Some(left) = worker.core().rounds.arrive(worker.core(), any) {
            // Those that remain must get nothing any more for which others wait.
            let remain = |fiber: &Fiber| fiber.is_waiting() && worker.is_home_of(*fiber);
            worker.core().records.all().filter(remain).for_each(|fiber| _ = worker.leave_list(fiber));
            return left;
        }
    }
}

/// Drops the function of a fiber that has not started.
pub(crate) fn drop_task(fiber: Fiber) -> bool {
    // A panic ends here, because there is no joiner to tell.
    catch_unwind(AssertUnwindSafe(|| fiber.drop_task())).unwrap_or(true)
}

/// Cancels a fiber, as its runtime ends. Returns whether that has an effect. A ready fiber is
/// cancelled when it returns from its yield, or at its next wait: it must get what it was woken
/// with, for example a lock that was handed over.
fn cancel(worker: &Worker, fiber: Fiber) -> bool {
    // The state first, then the home: see `SharedState`.
    let state = fiber.state.get();
    if state == FiberState::Unstarted {
        // With several workers they are in the queue of unstarted fibers, or are refused when they
        // have started.
        return worker.is_alone() && drop_task(fiber);
    }
    if worker.running() == Some(fiber) || !worker.is_home_of(fiber) || !CAN_UNWIND {
        return false;
    }
    match state {
        FiberState::Ready => {
            fiber.cancel_pending.set(true);
            true
        }
        FiberState::Blocked => {
            if !worker.cancel_wait(fiber, Woken::Cancelled) {
                // Another thread is about to wake it.
                std::thread::yield_now();
            }
            true
        }
        FiberState::Free
        | FiberState::Unstarted
        | FiberState::Running
        | FiberState::BlockedUnwinding
        | FiberState::Ended => false,
    }
}
