//! Waiting: one mechanism for all objects, and for all that wait at them: fibers, threads and
//! futures.
//!
//! An object has a state, which one thread at a time [accesses](biased), and in it one or two lists
//! of waiters. An [`Operation`] completes at once, or puts a [`Waiter`] on a list. The thread that
//! takes a waiter off its list wakes it, once. A waiter is on the stack of its fiber or thread, or
//! in its future, and leaves the list before it is gone. If it is no longer on the list when its
//! deadline has passed, its runtime ends or its future is dropped, then another thread is about to
//! wake it, and it waits for that.

pub(crate) mod biased;
pub(crate) mod list;

use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use wait::parker::Parker;

use self::biased::Biased;
use self::list::{TakenList, WaitList, Waiter, Who};
use crate::current_worker::CurrentWorker;
use crate::preempt::orphan;
use crate::record::Fiber;
use crate::worker::Worker;

/// Why a fiber was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The awaited event has happened.
    Called,
    /// Its deadline has passed.
    TimedOut,
    /// The runtime ends: the fiber must unwind.
    Cancelled,
}

/// Something for which a fiber waits.
///
/// Only the thread that takes a fiber off its list wakes it: a fiber is woken once each time it
/// blocks.
pub(crate) trait Waitable {
    /// Takes the waiting fiber off the list. Returns false if another thread has done so already,
    /// and will wake it.
    fn leave(&self, fiber: Fiber) -> bool;

    /// Whether the fiber is in a call of the C library, which cannot be unwound.
    fn is_in_c_library(&self) -> bool {
        false
    }

    /// Its name in a word or two: "a mutex".
    fn kind(&self) -> &'static str;

    /// The fiber that alone can end the wait, if there is one.
    fn blocker(&self) -> Option<Fiber> {
        None
    }

    /// Moves the fiber, which has been raised to a higher level. Returns the fiber that it waits
    /// for, if that inherits its level.
    fn requeue_raised(&self, _: Fiber, _: &Worker) -> Option<Fiber> {
        None
    }

    /// The fiber whose end this is a wait for, if it is one.
    fn ends(&self) -> Option<Fiber> {
        None
    }
}

/// An operation at an object at which its caller may have to wait.
pub(crate) trait Operation {
    /// The object's state.
    type State;
    /// What a waiter waits with.
    type Payload: Default;
    type Output;

    fn object(&self) -> &Biased<Self::State>;

    /// The list on which the callers wait.
    fn list<'a>(&self, state: &'a mut Self::State) -> &'a mut WaitList<Self::Payload>;

    /// Completes the operation if that is possible now, inside the object. Waiters that this ends
    /// the waits of go to `woken`.
    fn attempt(
        &self,
        state: &mut Self::State,
        payload: &mut Self::Payload,
        woken: &mut TakenList<Self::Payload>,
    ) -> Option<Self::Output>;

    /// Puts the waiter on the list.
    #[inline]
    fn enlist(&self, state: &mut Self::State, waiter: Pin<&Waiter<Self::Payload>>) {
        self.list(state).push(waiter);
    }

    /// The waiter is on the list, and the caller outside the object, about to block.
    #[inline]
    fn on_listed(&self) {}

    /// The waiter was woken. Returns `None` if the operation must be attempted again.
    fn complete(&self, payload: &mut Self::Payload) -> Option<Self::Output>;

    /// The waiter has left the list without being woken.
    #[inline]
    fn on_left(&self, _: &mut Self::State, _: &mut TakenList<Self::Payload>) {}

    /// Gives back what the waiter was [woken with](Operation::complete), because its future was
    /// dropped.
    fn undo(&self, output: Option<Self::Output>);

    /// See [`Waitable::kind`].
    fn kind(&self) -> &'static str;

    /// See [`Waitable::blocker`].
    fn blocker(&self) -> Option<Fiber> {
        None
    }
}

/// Attempts an operation, and never waits. Returns the payload if it cannot complete.
#[inline]
pub(crate) fn attempt<O: Operation>(operation: &O, mut payload: O::Payload) -> Result<O::Output, O::Payload> {
    CurrentWorker::visit(|here| {
        here.inspect(|here| here.safepoint());
        let mut woken = TakenList::new();
        let output =
            operation.object().enter(here.as_deref(), |state| operation.attempt(state, &mut payload, &mut woken));
        woken.wake(here);
        output.ok_or(payload)
    })
}

/// Performs an operation. Blocks the calling fiber or thread until it has completed, or until the
/// deadline; then returns the payload.
#[inline(always)]
pub(crate) fn perform<O: Operation>(
    operation: &O,
    payload: O::Payload,
    deadline: Option<Instant>,
) -> Result<O::Output, O::Payload> {
    CurrentWorker::visit(|here| match here {
        Some(here) => {
            here.safepoint();
            match perform_in_fiber(operation, payload, deadline, here) {
                Ok(output) => Ok(output),
                Err(Interruption::TimedOut(payload)) => Err(payload),
                Err(Interruption::Cancelled) => crate::ending::unwind(),
            }
        }
        None => perform_in_thread(operation, payload, deadline),
    })
}

/// Why a fiber has not completed an operation.
pub(crate) enum Interruption<P> {
    TimedOut(P),
    /// Its runtime ends.
    Cancelled,
}

/// Starts an operation: completes it, or puts the waiter on the list.
#[inline(always)]
fn start<O: Operation>(
    operation: &O,
    waiter: Pin<&Waiter<O::Payload>>,
    here: Option<CurrentWorker>,
) -> Option<O::Output> {
    let mut woken = TakenList::new();
    let output = operation.object().enter(here.as_deref(), |state| {
        // SAFETY: the waiter is on no list.
        let output = operation.attempt(state, unsafe { waiter.payload() }, &mut woken);
        if output.is_none() {
            operation.enlist(state, waiter);
        }
        output
    });
    woken.wake(here);
    if output.is_none() {
        operation.on_listed();
    }
    output
}

/// Takes a waiter off the list. Returns false if another thread has done so already.
#[cold]
fn leave<O: Operation>(operation: &O, waiter: &Waiter<O::Payload>, here: Option<CurrentWorker>) -> bool {
    let mut woken = TakenList::new();
    let left = operation.object().enter(here.as_deref(), |state| {
        let left = operation.list(state).remove(waiter);
        if left {
            operation.on_left(state, &mut woken);
        }
        left
    });
    woken.wake(here);
    left
}

/// Performs an operation in a fiber.
#[inline(always)]
pub(crate) fn perform_in_fiber<O: Operation>(
    operation: &O,
    payload: O::Payload,
    deadline: Option<Instant>,
    here: CurrentWorker,
) -> Result<O::Output, Interruption<O::Payload>> {
    let waiter = pin!(Waiter::new(payload));
    let waiter = waiter.into_ref();
    loop {
        waiter.set_who(Who::Fiber(here.current()));
        if let Some(output) = start(operation, waiter, Some(here)) {
            return Ok(output);
        }
        match here.block_quietly(&Listed { operation, kind: operation.kind(), waiter }, deadline) {
            Woken::Called => {
                // SAFETY: the waiter is on no list.
                if let Some(output) = operation.complete(unsafe { waiter.payload() }) {
                    return Ok(output);
                }
            }
            // SAFETY: as above.
            Woken::TimedOut => return Err(Interruption::TimedOut(std::mem::take(unsafe { waiter.payload() }))),
            Woken::Cancelled => return Err(Interruption::Cancelled),
        }
    }
}

/// A fiber's wait, for reports, and to end it early. A debugger reads the kind, and the first words
/// of this and of the operation.
#[repr(C)]
struct Listed<'a, O: Operation> {
    operation: &'a O,
    kind: &'static str,
    waiter: Pin<&'a Waiter<O::Payload>>,
}

impl<O: Operation> Waitable for Listed<'_, O> {
    fn leave(&self, _: Fiber) -> bool {
        leave(self.operation, &self.waiter, CurrentWorker::look())
    }

    fn kind(&self) -> &'static str {
        self.kind
    }

    fn blocker(&self) -> Option<Fiber> {
        self.operation.blocker()
    }

    fn requeue_raised(&self, _: Fiber, here: &Worker) -> Option<Fiber> {
        let waits = self.operation.object().enter(Some(here), |state| {
            let waits = self.operation.list(state).remove(&self.waiter);
            if waits {
                self.operation.enlist(state, self.waiter);
            }
            waits
        });
        waits.then(|| self.operation.blocker()).flatten()
    }
}

thread_local! {
    static PARKER: Rc<Parker> = Rc::new(Parker::new());
}

/// The parker of the calling thread, which runs no fibers. An orphaned fiber unwinds.
pub(crate) fn thread_parker() -> Rc<Parker> {
    orphan::unwind_if_orphaned();
    // Destructors of thread-locals may wait, too, when this one is gone.
    PARKER.try_with(Rc::clone).unwrap_or_default()
}

#[cold]
#[inline(never)]
fn perform_in_thread<O: Operation>(
    operation: &O,
    payload: O::Payload,
    deadline: Option<Instant>,
) -> Result<O::Output, O::Payload> {
    let parker = thread_parker();
    let waiter = pin!(Waiter::new(payload));
    let waiter = waiter.into_ref();
    loop {
        waiter.set_who(Who::Thread(parker.unparker()));
        if let Some(output) = start(operation, waiter, None) {
            return Ok(output);
        }
        match deadline {
            Some(deadline) if parker.park_timeout(deadline).is_err() => {
                if leave(operation, &waiter, None) {
                    // SAFETY: the waiter is on no list.
                    return Err(std::mem::take(unsafe { waiter.payload() }));
                }
                parker.park();
            }
            Some(_) => (),
            None => parker.park(),
        }
        // SAFETY: as above.
        if let Some(output) = operation.complete(unsafe { waiter.payload() }) {
            return Ok(output);
        }
    }
}

/// A future that performs an operation.
#[must_use = "futures do nothing unless they are polled"]
pub(crate) struct Performing<O: Operation> {
    operation: O,
    waiter: Waiter<O::Payload>,
    /// The waiter was put on the list, and has not been seen to have left it.
    waits: bool,
}

// SAFETY: the waiter of a future is touched inside the object, or by the thread that has the
// future, which may change.
unsafe impl<O: Operation + Send> Send for Performing<O> where O::Payload: Send {}

impl<O: Operation> Performing<O> {
    pub(crate) fn new(operation: O, payload: O::Payload) -> Performing<O> {
        Performing { operation, waiter: Waiter::new(payload), waits: false }
    }
}

impl<O: Operation> Future for Performing<O> {
    type Output = O::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<O::Output> {
        // SAFETY: the waiter is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: it is part of what is pinned.
        let waiter = unsafe { Pin::new_unchecked(&this.waiter) };
        let mut waker = Some(context.waker().clone());
        let mut old = None;
        let output = CurrentWorker::visit(|here| {
            if this.waits {
                let is_listed = this.operation.object().enter(here.as_deref(), |_| {
                    if waiter.is_listed() {
                        old = waker.take().and_then(|waker| waiter.set_who(Who::Future(waker)));
                    }
                    waiter.is_listed()
                });
                if is_listed {
                    return None;
                }
                waiter.wait_until_released();
                this.waits = false;
                // SAFETY: the waiter is on no list.
                let output = this.operation.complete(unsafe { waiter.payload() });
                if output.is_some() {
                    return output;
                }
            }
            old = waker.take().and_then(|waker| waiter.set_who(Who::Future(waker)));
            let output = start(&this.operation, waiter, here);
            this.waits = output.is_none();
            output
        });
        output.map_or(Poll::Pending, Poll::Ready)
    }
}

impl<O: Operation> Drop for Performing<O> {
    fn drop(&mut self) {
        if !self.waits {
            return;
        }
        CurrentWorker::visit(|here| {
            if !leave(&self.operation, &self.waiter, here) {
                self.waiter.wait_until_released();
                // SAFETY: the waiter is on no list.
                let output = self.operation.complete(unsafe { self.waiter.payload() });
                self.operation.undo(output);
            }
        });
    }
}
