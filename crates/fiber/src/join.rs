//! Joining: a fiber's end, its handle, and the fiber, thread or future that waits for the end.
//!
//! The fiber and its handle meet at one word of the record, the *meeting*. It says that there is a
//! handle and [no joiner](NO_JOINER), or contains the address of the waiting joiner, or says that
//! the handle is [gone](DETACHED), or that the fiber has [ended](ENDED). As its last act the fiber
//! exchanges the word for "ended", and the old value tells it what to do: wake the joiner, release
//! the record, or leave it to the handle. The handle exchanges it, too. So one of the two sees what
//! the other has done, and the record is released once.
//!
//! If the runtime ends before the fiber, it takes the joiner out of the word and wakes it. A joiner
//! from elsewhere therefore checks whether the runtime is over after it has written its address.

use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::task::{Context, Poll};

use crate::current_worker::CurrentWorker;
use crate::error::JoinError;
use crate::label::FiberLabel;
use crate::record::{DETACHED, ENDED, Fiber, NO_JOINER, State};
use crate::shared::Core;
use crate::unwinding;
use crate::waitable::Waitable;
use crate::waiting;
use crate::waiting::list::{Taken, Waiter, Who};
use crate::worker::Worker;

/// The tag of the address of a future's waiter, which is in a box of its own. The thread that takes
/// the address frees it.
const BOXED: usize = 4;

/// A cycle of fibers that wait for each other's ends is found at once up to this length, and
/// otherwise as a deadlock.
const MAX_CYCLE: usize = 64;

/// Exchanges the word, if it has the expected value.
fn exchange(meeting: &AtomicUsize, expected: usize, new: usize) -> bool {
    meeting.compare_exchange(expected, new, SeqCst, Acquire).is_ok()
}

/// Drops the outcome of a fiber that has run its function and has no handle. Still runs as that
/// fiber.
#[cold]
pub(crate) fn drop_unwanted(fiber: Fiber) {
    // SAFETY: it has run, and no handle can take its outcome. A panic ends here, because there is
    // no joiner to tell.
    let _ = catch_unwind(AssertUnwindSafe(|| unsafe { fiber.task.drop_outcome() }));
}

/// A fiber has run its function.
#[inline(always)]
pub(crate) fn ended(here: CurrentWorker, fiber: Fiber) {
    fiber.state.set(State::Ended);
    let order = if cfg!(rowlock_canary = "a-fiber-ends-relaxed") { Relaxed } else { AcqRel };
    match fiber.meeting.swap(ENDED, order) {
        NO_JOINER => (),
        DETACHED => {
            // Again, because it may have been detached since.
            drop_unwanted(fiber);
            here.release(fiber);
        }
        // SAFETY: it waits for this, and only this thread has taken its address.
        joiner => unsafe { wake(joiner, Some(here)) },
    }
}

/// Wakes the joiner of a fiber that has not ended, and never will, because its runtime is over.
pub(crate) fn abandon(fiber: Fiber) {
    let joiner = fiber.meeting.load(SeqCst);
    if joiner > ENDED && exchange(&fiber.meeting, joiner, NO_JOINER) {
        // SAFETY: as above.
        unsafe { wake(joiner, None) };
    }
}

/// # Safety
/// It is the address of a waiting joiner, and the caller has taken it out of the meeting.
unsafe fn wake(joiner: usize, here: Option<CurrentWorker>) {
    // SAFETY: the caller's promise.
    unsafe { Taken::at(joiner & !BOXED) }.wake(here);
    if joiner & BOXED != 0 {
        // SAFETY: as above.
        drop(unsafe { boxed(joiner) });
    }
}

/// Whether a fiber has run its function, and its handle still exists.
pub(crate) fn has_ended(fiber: Fiber) -> bool {
    fiber.meeting.load(Acquire) == ENDED
}

const FIBER_END: &str = "the end of a fiber";

/// A wait for a fiber's end. A debugger reads the first word.
#[repr(C)]
struct End {
    fiber: Fiber,
    joiner: usize,
    /// Both fibers are in the same runtime.
    is_inside: bool,
}

impl Waitable for End {
    fn leave(&self, _: Fiber) -> bool {
        exchange(&self.fiber.meeting, self.joiner, NO_JOINER)
    }

    fn kind(&self) -> &'static str {
        FIBER_END
    }

    fn blocker(&self) -> Option<Fiber> {
        self.is_inside.then_some(self.fiber)
    }
}

/// The right to a fiber's result. Dropping it detaches the fiber.
///
/// It is also a future, which is ready with the result when the fiber has ended.
pub struct JoinHandle<T> {
    /// `None` once the result was taken.
    fiber: Option<Fiber>,
    core: NonNull<Core>,
    result: PhantomData<T>,
}

// SAFETY: a result goes to the owner of the handle.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: a shared handle only reads the record's meeting.
unsafe impl<T: Send> Sync for JoinHandle<T> {}

impl<T> Unpin for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// # Safety
    /// It is the fiber's only handle, and `T` is its function's return type.
    #[inline(always)]
    pub(crate) unsafe fn new(fiber: Fiber, core: NonNull<Core>) -> JoinHandle<T> {
        JoinHandle { fiber: Some(fiber), core, result: PhantomData }
    }

    /// Waits until the fiber has ended, and takes its result. A fiber lets others run meanwhile;
    /// another thread blocks.
    ///
    /// # Errors
    /// If the fiber panicked, [left](crate::exit) or was cancelled. Fails immediately if the fiber
    /// is the caller, or waits, perhaps through others, for the caller's end. The handle is gone
    /// then, and the fiber detached.
    ///
    /// # Panics
    /// If the result was taken by polling.
    ///
    /// A result can be taken once:
    ///
    /// ```compile_fail,E0382
    /// rowlock_fiber::run(|| {
    ///     let fiber = rowlock_fiber::spawn(|| 42);
    ///     fiber.join().unwrap();
    ///     fiber.join().unwrap();
    /// });
    /// ```
    #[inline(always)]
    pub fn join(mut self) -> Result<T, JoinError> {
        let fiber = self.fiber();
        drop_polled(fiber);
        CurrentWorker::visit(|here| {
            let insider = self.insider(here);
            if !has_ended(fiber) {
                self.wait(fiber, here, insider)?;
            }
            self.take(fiber, insider)
        })
    }

    #[allow(clippy::panic, reason = "documented")]
    #[inline(always)]
    pub(crate) fn fiber(&self) -> Fiber {
        match self.fiber {
            Some(fiber) => fiber,
            None => panic!("the result of a fiber was taken before"),
        }
    }

    /// The calling fiber's worker, if it is in the same runtime.
    #[inline(always)]
    fn insider(&self, here: Option<CurrentWorker>) -> Option<CurrentWorker> {
        here.filter(|here| here.core_pointer == self.core)
    }

    /// Blocks until the fiber has ended.
    #[inline(always)]
    fn wait(&self, fiber: Fiber, here: Option<CurrentWorker>, insider: Option<CurrentWorker>) -> Result<(), JoinError> {
        let waiter = pin!(Waiter::new(()));
        let joiner = waiter.as_ref().address();
        let end = End { fiber, joiner, is_inside: insider.is_some() };
        if let Some(here) = here {
            waiter.set_who(Who::Fiber(here.current()));
            if self.register(fiber, joiner, insider.is_some())? {
                if let Some(here) = insider {
                    check_for_cycle(&here, &end)?;
                }
                here.block(&end, None);
            }
        } else {
            let parker = waiting::thread_parker();
            waiter.set_who(Who::Thread(parker.unparker()));
            if self.register(fiber, joiner, false)? {
                parker.park();
            }
        }
        if has_ended(fiber) { Ok(()) } else { Err(JoinError::Cancelled) }
    }

    /// Writes a joiner's address into the meeting. Returns false if the fiber has ended.
    #[inline(always)]
    fn register(&self, fiber: Fiber, joiner: usize, is_insider: bool) -> Result<bool, JoinError> {
        let registered = exchange(&fiber.meeting, NO_JOINER, joiner);
        // SAFETY: the handle keeps it until the result is taken.
        let is_over = registered && !is_insider && unsafe { self.core.as_ref() }.is_over();
        if is_over && exchange(&fiber.meeting, joiner, NO_JOINER) { Err(JoinError::Cancelled) } else { Ok(registered) }
    }

    /// Takes the outcome of the fiber, which has ended, and releases its record.
    #[inline(always)]
    fn take(&mut self, fiber: Fiber, insider: Option<CurrentWorker>) -> Result<T, JoinError> {
        self.fiber = None;
        // SAFETY: it has ended, and this was its only handle, for this type.
        let outcome = unsafe { fiber.task.take::<T>() };
        match insider {
            Some(here) => here.release(fiber),
            // SAFETY: it was the only handle, and the outcome was taken.
            None => unsafe { Core::return_record(self.core, fiber) },
        }
        outcome.map_or(Err(JoinError::Cancelled), |outcome| outcome.map_err(unwinding::reason))
    }

    /// Whether the fiber has ended.
    pub fn is_finished(&self) -> bool {
        self.fiber.is_none_or(has_ended)
    }

    /// Detaches the fiber.
    pub fn detach(self) {}
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    /// # Panics
    /// If it was ready before.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        let fiber = self.fiber();
        drop_polled(fiber);
        let waiter = Box::pin(Waiter::new(()));
        waiter.set_who(Who::Future(context.waker().clone()));
        let joiner = waiter.as_ref().address() | BOXED;
        let outcome = CurrentWorker::visit(|here| {
            let insider = self.insider(here);
            match self.register(fiber, joiner, insider.is_some()) {
                Ok(true) => None,
                Ok(false) => Some(self.take(fiber, insider)),
                Err(why) => Some(Err(why)),
            }
        });
        if outcome.is_none() {
            // The thread that takes its address frees it.
            std::mem::forget(waiter);
        }
        outcome.map_or(Poll::Pending, Poll::Ready)
    }
}

impl<T> Drop for JoinHandle<T> {
    #[inline(always)]
    fn drop(&mut self) {
        let Some(fiber) = self.fiber else { return };
        drop_polled(fiber);
        let outcome = CurrentWorker::visit(|here| {
            let insider = self.insider(here);
            let has_ended = match insider {
                Some(_) => detach(fiber),
                // SAFETY: it is the only handle, and is not used for anything else after this
                // unless the fiber has ended.
                None => unsafe { Core::detach(self.core, || detach(fiber)) },
            };
            has_ended.then(|| self.take(fiber, insider))
        });
        drop(outcome);
    }
}

/// Says that there is no handle. Returns false if the fiber has not ended; then it releases its
/// record itself. No joiner waits.
fn detach(fiber: Fiber) -> bool {
    !exchange(&fiber.meeting, NO_JOINER, DETACHED)
}

/// Drops the waiter that the handle has left in the meeting when it was polled.
#[inline(always)]
fn drop_polled(fiber: Fiber) {
    let before = fiber.meeting.load(Acquire);
    if before > ENDED && exchange(&fiber.meeting, before, NO_JOINER) {
        // SAFETY: nothing else has taken it.
        drop(unsafe { boxed(before) });
    }
}

/// The waiter of a handle that was polled.
///
/// # Safety
/// The caller has taken its address out of the meeting.
unsafe fn boxed(joiner: usize) -> Box<Waiter<()>> {
    // SAFETY: the box was left to the thread that takes its address.
    unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut(joiner & !BOXED)) }
}

/// Follows the chain of fibers that wait for another's end. With several workers, a worker must not
/// look at what another's fibers wait for, and a cycle is found as a deadlock.
///
/// # Errors
/// If the caller would wait for itself, directly or through others. It is no joiner then.
fn check_for_cycle(here: &Worker, end: &End) -> Result<(), JoinError> {
    let me = here.current();
    if end.fiber != me && (!here.is_alone || end.fiber.waits.get().is_none()) {
        return Ok(());
    }
    let mut labels = vec![FiberLabel::of(me).to_string()];
    let mut next = Some(end.fiber);
    for _ in 0..MAX_CYCLE {
        let Some(at) = next else { return Ok(()) };
        labels.push(FiberLabel::of(at).to_string());
        if at == me {
            end.leave(me);
            let is_itself = labels.len() == 2;
            let cycle = || JoinError::Cycle(labels.join(", which waits for "));
            return Err(if is_itself { JoinError::Itself } else { cycle() });
        }
        next = at.waitable().filter(|waits| waits.kind() == FIBER_END).and_then(Waitable::blocker);
    }
    Ok(())
}
