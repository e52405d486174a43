//! How fibers end before their time: by [`exit`], and when their runtime does.
//!
//! A fiber that is left in the middle of its function may have things on its stack that others rely on: a scope whose fibers or threads borrow from it, a value that is pinned
//! there. So a stack is never just taken away. When a runtime ends, functions that have not begun are dropped, and fibers that have begun unwind from where they are, as if
//! that had panicked, with a payload of our own that no hook hears of. What they do while they unwind, they may wait for each other as
//! ever. A fiber that catches this and goes on is told again at its next wait. One that waits in the middle of a panic of its own cannot be told: if nobody
//! else wakes it, its stack stays until the process ends, and standard error says so.

use std::any::Any;
use std::io::Write;
use std::panic::resume_unwind;

use crate::error::{JoinError, StackError};
use crate::record::{Fiber, State};
use crate::waits::Woken;
use crate::worker::Worker;

/// The payload of a fiber whose runtime ends.
pub(crate) struct Cancelled;

/// The payload of a fiber that has left.
pub(crate) struct Exited;

/// The payload of a fiber that never ran.
pub(crate) struct NoStack(pub(crate) StackError);

/// Unwinds the fiber, whose runtime ends.
#[cold]
pub(crate) fn unwind() -> ! {
    resume_unwind(Box::new(Cancelled))
}

/// The same, where that can be.
#[cold]
pub(crate) fn unwind_unless_panicking(here: &Worker) {
    if !here.unwinding.is_panicking() {
        unwind();
    }
}

/// Ends the fiber that calls it: it unwinds, as with a panic, but without a message, and [`join`](crate::JoinHandle::join) says that it has
/// [left](JoinError::Exited). The first fiber takes its runtime with it.
pub fn exit() -> ! {
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
const PATIENCE: usize = 64;

/// Ends all fibers but the one that runs. Returns how many are left for good.
pub(crate) fn end_all(worker: &Worker) -> usize {
    worker.outside.ends();
    let me = worker.current();
    let others = || worker.core().records.all().filter(|fiber| *fiber != me);
    for _ in 0..PATIENCE {
        let mut any = false;
        for fiber in others() {
            any |= cancel(worker, fiber);
        }
        worker.run_all_ready();
        if !any && !others().any(|fiber| matches!(fiber.state.get(), State::Unstarted | State::Ready)) {
            break;
        }
    }
    let left = others().filter(|fiber| !matches!(fiber.state.get(), State::Free | State::Ended)).count();
    if left > 0 {
        let _ = writeln!(
            std::io::stderr(),
            "rowlock_fiber: {left} fibers did not end with their runtime, since they wait in the middle of a panic, or again and again; their stacks stay"
        );
    }
    left
}

/// Tells a fiber that its runtime ends. True if that will do something. One that is ready is told when it comes back from its yield, or at its next
/// wait: what it was woken with (a lock that was handed over to it, say) it is to have.
fn cancel(worker: &Worker, fiber: Fiber) -> bool {
    match fiber.state.get() {
        State::Unstarted => fiber.drop_task(),
        State::Ready => {
            fiber.cancelled.set(true);
            true
        }
        State::Blocked => worker.call_off(fiber, Woken::Cancelled),
        State::Free | State::Running | State::BlockedUnwinding | State::Ended => false,
    }
}
