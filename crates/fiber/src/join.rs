//! A fiber's end, and who waits for it.
//!
//! The fiber and its handle meet at one word of the record, the *meeting*. It says that there is a handle and [nobody](NOBODY) waits; or who does (the joiner's
//! address); or that the handle is [gone](DETACHED); or that the fiber has [ended](ENDED). The fiber's last deed is to exchange it for "ended", and what was there
//! tells it what to do: wake the joiner, give the record back, or leave it to the handle. The handle exchanges it, too, so one of the two sees what the other
//! has done, and the record is given back once.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::ending;
use crate::error::JoinError;
use crate::preemptible;
use crate::record::{Fiber, State};
use crate::remote;
use crate::shared::Core;
use crate::task::Outcome;
use crate::waits::{Waits, Woken};
use crate::worker::{Here, Worker};

pub(crate) const NO_JOINER: usize = 0;
pub(crate) const DETACHED: usize = 1;
pub(crate) const ENDED: usize = 2;

/// A cycle of fibers that wait for each other's ends is found at once if it has no more than these, and as a deadlock otherwise.
const MAX_CYCLE: usize = 64;

/// Exchanges the word, without an atomic operation where one kernel thread alone does.
#[inline(always)]
fn swap(here: &Worker, meeting: &AtomicUsize, new: usize) -> usize {
    if here.is_alone() {
        let old = meeting.load(Relaxed);
        // Who asks from outside whether a fiber has ended is to see all that came before.
        meeting.store(new, Release);
        old
    } else {
        meeting.swap(new, if cfg!(rowlock_canary = "a-fiber-ends-relaxed") { Relaxed } else { AcqRel })
    }
}

/// The same where it says that there is nobody.
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

/// A fiber has run its function, and is still itself: nobody will ask for what came of it.
#[cold]
pub(crate) fn drop_unwanted(fiber: Fiber) {
    // SAFETY: it has run, and nobody has a handle to take its outcome by. A panic ends here, as there is nobody to tell.
    let _ = catch_unwind(AssertUnwindSafe(|| unsafe { fiber.task.drop_outcome() }));
}

/// A fiber has run its function.
#[inline(always)]
pub(crate) fn ended(here: Here, fiber: Fiber) {
    fiber.state.set(State::Ended);
    match swap(&here, &fiber.meeting, ENDED) {
        NO_JOINER => (),
        DETACHED => {
            // Again, as it may have been detached in between.
            drop_unwanted(fiber);
            here.release(fiber);
        }
        // SAFETY: it waits for this, so it has not ended.
        joiner => here.wake(unsafe { Fiber::from_address(joiner) }, Woken::Called),
    }
}

/// Whether a fiber has run its function, and its handle is still there.
pub(crate) fn has_ended(fiber: Fiber) -> bool {
    fiber.meeting.load(Acquire) == ENDED
}

/// A wait for a fiber's end.
struct End(Fiber);

impl Waits for End {
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

/// The right to a fiber's result. Dropped, it leaves the fiber to itself.
pub struct JoinHandle<T> {
    fiber: Fiber,
    core: NonNull<Core>,
    result: PhantomData<T>,
}

// SAFETY: a result goes to whoever has the handle.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: shared, it only tells what the record's meeting says.
unsafe impl<T: Send> Sync for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// # Safety
    /// It is the fiber's only one, and this is its function's type.
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
    /// When it panicked, [left](crate::exit) or was cancelled; and at once when it is the fiber that asks, or one that waits, maybe through others, for that
    /// one's end: the handle is gone then, and the fiber detached.
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
        match Here::get() {
            Some(here) if here.core_pointer() == self.core => self.join_in_runtime(here),
            Some(_) => self.join_from_outside(),
            None => self.join_as_preemptible(),
        }
    }

    /// The same for who has found no worker, a preemptible fiber for one.
    #[inline(never)]
    fn join_as_preemptible(self) -> Result<T, JoinError> {
        match preemptible::enter_runtime() {
            Some(entered) if entered.here().core_pointer() == self.core => self.join_in_runtime(entered.here()),
            entered => {
                drop(entered);
                self.join_from_outside()
            }
        }
    }

    /// The same inside, of a fiber of the same runtime.
    #[inline(always)]
    fn join_in_runtime(self, here: Here) -> Result<T, JoinError> {
        wait_for_end(&here, self.fiber)?;
        let fiber = self.fiber;
        std::mem::forget(self);
        // SAFETY: it has ended, and this was its only handle, for this type.
        let outcome = unsafe { fiber.task.take::<T>() };
        here.release(fiber);
        result(outcome)
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
        // SAFETY: as above; what came of it was taken.
        unsafe { Core::return_record(core, fiber) };
        result(outcome)
    }

    /// The worker that runs the fiber that asks, if that is in the same runtime.
    #[inline(always)]
    fn same_runtime(&self, here: Option<Here>) -> Option<Here> {
        here.filter(|here| here.core_pointer() == self.core)
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        self.fiber.meeting.load(Acquire) == ENDED
    }

    /// Leaves the fiber to itself.
    pub fn detach(self) {}
}

impl<T> Drop for JoinHandle<T> {
    #[inline(always)]
    fn drop(&mut self) {
        match Here::visit(|here| self.same_runtime(here).map(|here| swap(&here, &self.fiber.meeting, DETACHED))) {
            Some(ENDED) => {
                // SAFETY: it has run, and this was its only handle.
                unsafe { self.fiber.task.drop_outcome() };
                Here::visit(|here| here.map(|here| here.release(self.fiber)));
            }
            Some(_) => (),
            // SAFETY: it is the only handle, and nobody comes to it after this.
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

/// Waits, as the fiber that runs, until another has ended.
///
/// # Errors
/// When it would wait for ever, for itself.
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

/// Follows the fibers that wait for another's end, from this one. With several workers, nobody may look at what another's fibers wait for.
#[cold]
fn check_for_cycle(fiber: Fiber, me: Fiber) -> Result<(), JoinError> {
    let mut labels = vec![me.label()];
    let mut next = Some(fiber);
    for _ in 0..MAX_CYCLE {
        let Some(at) = next else { return Ok(()) };
        if at == me {
            // The meeting says that somebody waits: nobody does.
            End(fiber).leave(me);
            labels.push(me.label());
            return Err(if labels.len() == 2 {
                JoinError::Itself
            } else {
                JoinError::Cycle(labels.join(", which waits for "))
            });
        }
        labels.push(at.label());
        // SAFETY: it is blocked, so what it waits for is there.
        next = at.waits.get().and_then(|waits| unsafe { waits.as_ref() }.ends());
    }
    Ok(())
}
