//! How a worker begins, and how fibers begin on it.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

use policy::ThreadId;

use crate::arch;
use crate::error::{SpawnError, StackError};
use crate::here::HERE;
use crate::preempt::exile;
use crate::record::{Fiber, State};
use crate::stack::{Shadow, Stack};
use crate::worker::{Here, Worker};

impl Worker {
    /// Where a fiber goes on, or begins. None if it has ended instead, as there is no stack for it, or if who goes on is to be chosen again.
    #[inline(always)]
    pub(crate) fn entrance(&self, fiber: Fiber) -> Option<arch::Context> {
        if fiber.state.get() == State::Unstarted {
            self.prepare(fiber)
        } else if !self.has_guests() || !self.is_to_be_exiled(fiber) {
            Some(fiber.context.get())
        } else {
            self.exile(fiber);
            None
        }
    }

    /// A fiber that was interrupted goes on elsewhere, or, where there is no kernel thread for it, never.
    #[cold]
    fn exile(&self, fiber: Fiber) {
        fiber.state.set(State::Running);
        // Nobody may ask any more where it is.
        fiber.home.set(None);
        exile::send(fiber, || self.loses(fiber));
    }

    /// Gives a fiber that has not started a stack.
    fn prepare(&self, fiber: Fiber) -> Option<arch::Context> {
        let is_first = fiber.is_preemptible.get() && !self.has_guests();
        let prepared = if is_first { self.prepares_for_guests() } else { Ok(()) };
        if is_first && prepared.is_ok() {
            // Whoever goes on with it has found no guests before: now it is asked again.
            self.ready(|ready| ready.queue(ThreadId(fiber.number.get())));
            return None;
        }
        let stack = match prepared.map_err(StackError::Preemption).and_then(|()| self.stacks.take(fiber)) {
            Ok(stack) => stack,
            Err(why) => self.refuse(fiber, why)?,
        };
        fiber.stack.set(Some(stack.begun()));
        fiber.home.set(Some(NonNull::from(self)));
        if let Some(guest) = fiber.guest() {
            guest.expects(self);
        }
        // SAFETY: nobody else has the stack.
        Some(unsafe { arch::fresh(stack.top(), arch::Entrance::Fiber) })
    }

    /// There is no stack for a fiber: it shall drop its function on the last one, or has ended if that is in use.
    #[cold]
    #[inline(never)]
    fn refuse(&self, fiber: Fiber, why: StackError) -> Option<Stack> {
        let last = self.stacks.take_last();
        // SAFETY: it has not started.
        unsafe {
            if last.is_some() {
                self.stacks.explain(why);
                fiber.task.refuse_when_run();
            } else {
                fiber.task.refuse(why);
                // The next one that has the record has a name and a size of its own.
                fiber.extras.take();
                crate::join::ended(Here::expect(), fiber);
            }
        }
        last
    }

    /// Makes this kernel thread a worker, and what runs on it a fiber.
    ///
    /// # Safety
    /// It stays where it is until it is [left](Worker::resign).
    pub(crate) unsafe fn adopt(&self) -> Result<Fiber, SpawnError> {
        let fiber = self.record()?;
        // SAFETY: the caller's promise.
        unsafe { self.adopt_as(fiber) };
        Ok(fiber)
    }

    /// The same, with a record that was made for it.
    ///
    /// # Safety
    /// As with [`adopt`](Worker::adopt).
    pub(crate) unsafe fn adopt_as(&self, fiber: Fiber) {
        fiber.home.set(Some(NonNull::from(self)));
        fiber.state.set(State::Running);
        // Nobody has a handle to it.
        fiber.meeting.store(crate::join::DETACHED, Relaxed);
        self.take_in(fiber);
        self.current.set(Some(fiber));
        self.meter.restart(self.clock.ticks());
        HERE.set(Some(NonNull::from(self)));
        self.alternate.set(crate::stack::overflow::watch());
        self.shadow.set(Shadow::current());
    }

    /// This kernel thread is no worker any more.
    pub(crate) fn resign(&self) {
        self.stops_ticks();
        HERE.set(None);
        self.alternate.take();
    }
}

/// What a stack begins with: runs the fiber that is current, and those that come after it on the same stack.
pub(crate) unsafe extern "C" fn begin() -> ! {
    let here = Here::begin();
    loop {
        let me = here.current();
        match me.guest() {
            None => run(me),
            Some(guest) => {
                here.gives_its_mask(guest);
                guest.outside(|| run(me));
                if let Some(exile) = guest.exile.get() {
                    // SAFETY: nothing is left here.
                    unsafe { exile::end(guest, exile) }
                }
                here.preemption.ends();
            }
        }
        let stack = me.stack.take();
        here.turn_is_over(None);
        here.meter.forget(me);
        crate::join::ended(here, me);
        let mut next = here.next();
        if next.state.get() == State::Unstarted && here.stacks.fits(stack, next) {
            next.stack.set(stack);
            next.home.set(Some(here.pointer()));
            if here.has_guests() {
                if let Some(guest) = next.guest() {
                    guest.expects(&here);
                }
                here.is_next(next, false);
            } else {
                next.state.set(State::Running);
                here.current.set(Some(next));
            }
            continue;
        }
        // This stack is not free before it is left, so who begins now is given another one first.
        let to = loop {
            match here.entrance(next) {
                Some(to) => break to,
                None => next = here.next(),
            }
        };
        if let Some(stack) = stack {
            here.stacks.give(stack);
        }
        // That may have waited for the allocator, while others ran in the place of this one.
        let was_interrupted = next.guest().is_some_and(|guest| guest.was_interrupted.get());
        let to = if was_interrupted { next.context.get() } else { to };
        if here.has_guests() {
            here.is_next(next, false);
        } else {
            next.state.set(State::Running);
            here.current.set(Some(next));
        }
        // SAFETY: as with a change; and nothing is left on this stack.
        unsafe {
            here.shadow(next).enter();
            if let Some(stack) = stack {
                stack.shadow.forget();
            }
            if !here.has_guests() {
                arch::leave(to)
            }
            if stack.is_some_and(|stack| stack.guest().is_some()) {
                // The next one that begins here may be of another worker.
                HERE.set(None);
            }
            here.leave_block(to, here.block_of(next))
        }
    }
}

/// Runs a fiber's function, and all else that it leaves to be run.
#[inline(always)]
fn run(me: Fiber) {
    // SAFETY: it has just been started, on this stack.
    unsafe { me.task.run() };
    if me.meeting.load(Relaxed) == crate::join::DETACHED {
        crate::join::drop_unwanted(me);
    }
    if me.has_extras() {
        crate::local::end(me);
    }
}
