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
use std::mem::take;
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
use crate::unwinding;
use crate::waitable::{Waitable, Woken};

/// An operation at an object at which its caller may have to wait.
pub(crate) trait Operation {
    /// The object's state.
    type State;
    /// What the caller waits with, and what it gets.
    type Payload: Default;

    /// See [`Waitable::kind`].
    const KIND: &'static str;

    const OBJECT: fn(&Self) -> &Biased<Self::State>;

    /// The list on which the callers wait.
    const LIST: fn(&mut Self::State) -> &mut WaitList<Self::Payload>;

    /// Completes the operation if that is possible now, inside the object; returns whether it was.
    /// Waiters that this ends the waits of go to `woken`.
    fn attempt(
        &self,
        state: &mut Self::State,
        payload: &mut Self::Payload,
        woken: &mut TakenList<Self::Payload>,
    ) -> bool;

    /// Puts the waiter on the list.
    #[inline]
    fn enlist(&self, state: &mut Self::State, waiter: Pin<&Waiter<Self::Payload>>) {
        Self::LIST(state).push(waiter);
    }

    /// The waiter is on the list, and the caller outside the object, about to block.
    #[inline]
    fn on_listed(&self) {}

    /// The waiter was woken. Returns whether the operation is complete; otherwise it must be
    /// attempted again.
    #[inline]
    fn complete(&self, _: &mut Self::Payload) -> bool {
        true
    }

    /// The waiter has left the list without being woken.
    #[inline]
    fn on_left(&self, _: &mut Self::State, _: &mut TakenList<Self::Payload>) {}

    /// Gives back what the waiter was woken with, because its future was dropped. The operation may
    /// not be [complete](Operation::complete).
    fn undo(&self, _: Self::Payload) {}

    /// See [`Waitable::blocker`].
    fn blocker(&self) -> Option<Fiber> {
        None
    }
}

/// Calls a function with the state of an object, and then wakes waiters.
#[inline]
pub(crate) fn change<S, P, R>(object: &Biased<S>, change: impl FnOnce(&mut S, &mut TakenList<P>) -> R) -> R {
    CurrentWorker::visit(|here| change_in(object, here, change))
}

#[inline(always)]
fn change_in<S, P, R>(
    object: &Biased<S>,
    here: Option<CurrentWorker>,
    change: impl FnOnce(&mut S, &mut TakenList<P>) -> R,
) -> R {
    let mut woken = TakenList::new();
    let result = object.enter(here.as_deref(), |state| change(state, &mut woken));
    woken.wake(here);
    result
}

/// Attempts an operation, and never waits. Returns the payload, as an error if the operation cannot
/// complete.
#[inline]
pub(crate) fn attempt<O: Operation>(operation: &O, mut payload: O::Payload) -> Result<O::Payload, O::Payload> {
    CurrentWorker::visit(|here| {
        here.inspect(|here| here.safepoint());
        let attempt = |state: &mut _, woken: &mut _| operation.attempt(state, &mut payload, woken);
        if change_in(O::OBJECT(operation), here, attempt) { Ok(payload) } else { Err(payload) }
    })
}

/// Performs an operation. Blocks the calling fiber or thread until it has completed.
#[inline(always)]
pub(crate) fn perform<O: Operation>(operation: &O, payload: O::Payload) -> O::Payload {
    match perform_until(operation, payload, None) {
        Ok(payload) | Err(payload) => payload,
    }
}

/// The same until the deadline; then returns the payload as an error.
#[inline(always)]
pub(crate) fn perform_until<O: Operation>(
    operation: &O,
    payload: O::Payload,
    deadline: Option<Instant>,
) -> Result<O::Payload, O::Payload> {
    CurrentWorker::visit(|here| match here {
        Some(here) => {
            here.safepoint();
            match perform_in_fiber(operation, payload, deadline, here) {
                Ok(payload) => Ok(payload),
                Err(Some(payload)) => Err(payload),
                Err(None) => unwinding::unwind(),
            }
        }
        None => perform_in_thread(operation, payload, deadline),
    })
}

/// Starts an operation: completes it and returns true, or puts the waiter on the list, with the
/// payload. (It is not there from the start, to stay in registers if the operation completes.)
#[inline(always)]
fn start<O: Operation>(
    operation: &O,
    payload: &mut O::Payload,
    waiter: Pin<&Waiter<O::Payload>>,
    here: Option<CurrentWorker>,
) -> bool {
    let completed = change_in(O::OBJECT(operation), here, |state, woken| {
        let completed = operation.attempt(state, payload, woken);
        if !completed {
            // SAFETY: the waiter is on no list.
            *unsafe { waiter.payload() } = take(payload);
            operation.enlist(state, waiter);
        }
        completed
    });
    if !completed {
        operation.on_listed();
    }
    completed
}

/// Takes a waiter off the list. Returns false if another thread has done so already.
#[cold]
fn leave<O: Operation>(operation: &O, waiter: &Waiter<O::Payload>, here: Option<CurrentWorker>) -> bool {
    change_in(O::OBJECT(operation), here, |state, woken| {
        let left = O::LIST(state).remove(waiter);
        if left {
            operation.on_left(state, woken);
        }
        left
    })
}

/// Performs an operation in a fiber. Fails with the payload at the deadline, and without it if the
/// runtime ends.
#[inline(always)]
pub(crate) fn perform_in_fiber<O: Operation>(
    operation: &O,
    mut payload: O::Payload,
    deadline: Option<Instant>,
    here: CurrentWorker,
) -> Result<O::Payload, Option<O::Payload>> {
    let waiter = pin!(Waiter::new(O::Payload::default()));
    let waiter = waiter.into_ref();
    loop {
        waiter.set_who(Who::Fiber(here.current()));
        if start(operation, &mut payload, waiter, Some(here)) {
            return Ok(payload);
        }
        let woken = here.block_quietly(&Listed { operation, kind: O::KIND, waiter }, deadline);
        // SAFETY: the waiter is on no list.
        payload = take(unsafe { waiter.payload() });
        match woken {
            Woken::Called if operation.complete(&mut payload) => return Ok(payload),
            Woken::Called => (),
            Woken::TimedOut => return Err(Some(payload)),
            Woken::Cancelled => return Err(None),
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

    fn requeue_raised(&self, _: Fiber) -> Option<Fiber> {
        let here = CurrentWorker::look();
        let waits = O::OBJECT(self.operation).enter(here.as_deref(), |state| {
            let waits = O::LIST(state).remove(&self.waiter);
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
    mut payload: O::Payload,
    deadline: Option<Instant>,
) -> Result<O::Payload, O::Payload> {
    let parker = thread_parker();
    let waiter = pin!(Waiter::new(O::Payload::default()));
    let waiter = waiter.into_ref();
    loop {
        waiter.set_who(Who::Thread(parker.unparker()));
        if start(operation, &mut payload, waiter, None) {
            return Ok(payload);
        }
        let mut left = false;
        if deadline.is_none_or(|deadline| parker.park_timeout(deadline).is_err()) {
            left = deadline.is_some() && leave(operation, &waiter, None);
            if !left {
                parker.park();
            }
        }
        // SAFETY: the waiter is on no list.
        payload = take(unsafe { waiter.payload() });
        if left {
            return Err(payload);
        }
        if operation.complete(&mut payload) {
            return Ok(payload);
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
    type Output = O::Payload;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<O::Payload> {
        // SAFETY: the waiter is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: it is part of what is pinned.
        let waiter = unsafe { Pin::new_unchecked(&this.waiter) };
        let mut waker = Some(context.waker().clone());
        // Dropped outside the object, because it is user code.
        let mut old = None;
        CurrentWorker::visit(|here| {
            if this.waits {
                let is_listed = O::OBJECT(&this.operation).enter(here.as_deref(), |_| {
                    if waiter.is_listed() {
                        old = waker.take().and_then(|waker| waiter.set_who(Who::Future(waker)));
                    }
                    waiter.is_listed()
                });
                if is_listed {
                    return Poll::Pending;
                }
                waiter.wait_until_released();
            }
            // SAFETY: the waiter is on no list.
            let mut payload = take(unsafe { waiter.payload() });
            if take(&mut this.waits) && this.operation.complete(&mut payload) {
                return Poll::Ready(payload);
            }
            old = waker.take().and_then(|waker| waiter.set_who(Who::Future(waker)));
            this.waits = !start(&this.operation, &mut payload, waiter, here);
            if this.waits { Poll::Pending } else { Poll::Ready(payload) }
        })
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
                self.operation.undo(take(unsafe { self.waiter.payload() }));
            }
        });
    }
}
