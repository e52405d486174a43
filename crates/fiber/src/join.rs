//! Joining: a fiber's end, its handle, and the fiber that waits for the end.
//!
//! The fiber and its handle meet at one word of the record, the *meeting*. It says that there is a
//! handle and [no joiner](NO_JOINER), or contains the joiner's address, or says that the handle is
//! [gone](DETACHED), or that the fiber has [ended](ENDED). As its last act the fiber exchanges the
//! word for "ended", and the old value tells it what to do: wake the joiner, release the record, or
//! leave it to the handle. The handle exchanges it, too. So one of the two sees what the other has
//! done, and the record is released once.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::ending;
use crate::error::JoinError;
use crate::label::FiberLabel;
use crate::record::{Fiber, State};
use crate::remote;
use crate::shared::Core;
use crate::task::Outcome;
use crate::waits::{Waitable, Woken};
use crate::worker::{CurrentWorker, Worker};

pub(crate) const NO_JOINER: usize = 0;
pub(crate) const DETACHED: usize = 1;
pub(crate) const ENDED: usize = 2;

/// A cycle of fibers that wait for each other's ends is found at once up to this length, and
/// otherwise as a deadlock.
const MAX_CYCLE: usize = 64;

/// Exchanges the word, without an atomic operation if only one kernel thread does so.
#[inline(always)]
fn swap(here: &Worker, meeting: &AtomicUsize, new: usize) -> usize {
    if here.is_alone() {
        let old = meeting.load(Relaxed);
        // A thread outside that asks whether a fiber has ended must see all that came before.
        meeting.store(new, Release);
        old
    } else {
        meeting.swap(new, if cfg!(rowlock_canary = "a-fiber-ends-relaxed") { Relaxed } else { AcqRel })
    }
}

/// Registers the joiner, if there is none.
#[inline(always)]
fn register_joiner(here: &Worker, meeting: &AtomicUsize, me: Fiber) -> bool {
    if here.is_alone() {
        let free = meeting.load(Relaxed) == NO_JOINER;
        if free {
            meeting.store(me.address(), Relaxed);
        }
        free
    } else {
        meeting.compare_exchange(NO_JOINER, me.address(), AcqRel, Acquire).is_ok()
    }
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
    match swap(&here, &fiber.meeting, ENDED) {
        NO_JOINER => (),
        DETACHED => {
            // Again, because it may have been detached since.
            drop_unwanted(fiber);
            here.release(fiber);
        }
        // SAFETY: it waits for this, so it has not ended.
        joiner => here.wake(unsafe { Fiber::from_address(joiner) }, Woken::Called),
    }
}

/// Whether a fiber has run its function, and its handle still exists.
pub(crate) fn has_ended(fiber: Fiber) -> bool {
    fiber.meeting.load(Acquire) == ENDED
}

/// A wait for a fiber's end.
struct End(Fiber);

impl Waitable for End {
    fn leave(&self, fiber: Fiber) -> bool {
        self.0.meeting.compare_exchange(fiber.address(), NO_JOINER, AcqRel, Acquire).is_ok()
    }

    fn kind(&self) -> &'static str {
        "the end of a fiber"
    }

    fn blocker(&self) -> Option<Fiber> {
        Some(self.0)
    }

    fn ends(&self) -> Option<Fiber> {
        Some(self.0)
    }
}

/// The right to a fiber's result. Dropping it detaches the fiber.
pub struct JoinHandle<T> {
    fiber: Fiber,
    core: NonNull<Core>,
    result: PhantomData<T>,
}

// SAFETY: a result goes to the owner of the handle.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: a shared handle only reads the record's meeting.
unsafe impl<T: Send> Sync for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// # Safety
    /// It is the fiber's only handle, and `T` is its function's return type.
    #[inline(always)]
    pub(crate) unsafe fn new(fiber: Fiber, core: NonNull<Core>) -> JoinHandle<T> {
        JoinHandle { fiber, core, result: PhantomData }
    }

    pub(crate) fn fiber(&self) -> Fiber {
        self.fiber
    }

    /// Waits until the fiber has ended, and takes its result.
    ///
    /// # Errors
    /// If the fiber panicked, [left](crate::exit) or was cancelled. Fails immediately if the fiber
    /// is the caller, or waits, perhaps through others, for the caller's end. The handle is gone
    /// then, and the fiber detached.
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
    pub fn join(self) -> Result<T, JoinError> {
        let ended = CurrentWorker::visit(|here| self.same_runtime(here).map(|here| self.wait_in_runtime(here)));
        match ended {
            Some(outcome) => {
                let outcome = outcome?;
                std::mem::forget(self);
                result(outcome)
            }
            None => self.join_from_outside(),
        }
    }

    /// Waits for the end in the runtime, for a fiber of the same runtime. If it succeeds, the
    /// handle must be forgotten.
    #[inline(always)]
    fn wait_in_runtime(&self, here: CurrentWorker) -> Result<Option<Outcome<T>>, JoinError> {
        wait_for_end(&here, self.fiber)?;
        // SAFETY: it has ended, and this was its only handle, for this type.
        let outcome = unsafe { self.fiber.task.take::<T>() };
        here.release(self.fiber);
        Ok(outcome)
    }

    /// The same on a thread that runs no fibers of this runtime: it blocks.
    #[cold]
    #[inline(never)]
    fn join_from_outside(self) -> Result<T, JoinError> {
        // SAFETY: the handle keeps it.
        if !remote::wait_for_end(unsafe { self.core.as_ref() }, self.fiber) {
            return Err(JoinError::Cancelled);
        }
        let (core, fiber) = (self.core, self.fiber);
        std::mem::forget(self);
        // SAFETY: it has ended, and this was its only handle, for this type.
        let outcome = unsafe { fiber.task.take::<T>() };
        // SAFETY: as above; the outcome was taken.
        unsafe { Core::return_record(core, fiber) };
        result(outcome)
    }

    /// The calling fiber's worker, if it is in the same runtime.
    #[inline(always)]
    fn same_runtime(&self, here: Option<CurrentWorker>) -> Option<CurrentWorker> {
        here.filter(|here| here.core_pointer() == self.core)
    }

    /// Whether the fiber has ended.
    pub fn is_finished(&self) -> bool {
        self.fiber.meeting.load(Acquire) == ENDED
    }

    /// Detaches the fiber.
    pub fn detach(self) {}
}

impl<T> Drop for JoinHandle<T> {
    #[inline(always)]
    fn drop(&mut self) {
        match CurrentWorker::visit(|here| {
            self.same_runtime(here).map(|here| swap(&here, &self.fiber.meeting, DETACHED))
        }) {
            Some(ENDED) => {
                // SAFETY: it has run, and this was its only handle.
                unsafe { self.fiber.task.drop_outcome() };
                CurrentWorker::visit(|here| here.map(|here| here.release(self.fiber)));
            }
            Some(_) => (),
            // SAFETY: it is the only handle, and is not used after this.
            None => unsafe { remote::detach(self.core, self.fiber) },
        }
    }
}

fn result<T>(outcome: Option<Outcome<T>>) -> Result<T, JoinError> {
    match outcome {
        Some(Ok(result)) => Ok(result),
        Some(Err(payload)) => Err(ending::reason(payload)),
        None => Err(JoinError::Cancelled),
    }
}

/// Blocks the running fiber until another one has ended.
///
/// # Errors
/// If it would wait for itself, directly or through others.
#[inline(always)]
pub(crate) fn wait_for_end(here: &Worker, fiber: Fiber) -> Result<(), JoinError> {
    let me = here.current();
    if register_joiner(here, &fiber.meeting, me) {
        if fiber == me || here.is_alone() && fiber.waits.get().is_some() {
            check_for_cycle(fiber, me)?;
        }
        here.block(&End(fiber), None);
    }
    Ok(())
}

/// Follows the chain of fibers that wait for another's end, from this one. With several workers, a
/// worker must not look at what another's fibers wait for.
#[cold]
fn check_for_cycle(fiber: Fiber, me: Fiber) -> Result<(), JoinError> {
    let mut labels = vec![FiberLabel::of(me).to_string()];
    let mut next = Some(fiber);
    for _ in 0..MAX_CYCLE {
        let Some(at) = next else { return Ok(()) };
        if at == me {
            // The meeting names a joiner: remove it.
            End(fiber).leave(me);
            labels.push(FiberLabel::of(me).to_string());
            return Err(if labels.len() == 2 {
                JoinError::Itself
            } else {
                JoinError::Cycle(labels.join(", which waits for "))
            });
        }
        labels.push(FiberLabel::of(at).to_string());
        // SAFETY: it is blocked, so what it waits for exists.
        next = at.waits.get().and_then(|waits| unsafe { waits.as_ref() }.ends());
    }
    Ok(())
}
