//! How workers start, and how fibers start on them.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

use policy::ThreadId;

use crate::arch;
use crate::current_worker::HERE;
use crate::error::{SpawnError, StackError};
use crate::preempt::orphan;
use crate::record::{Fiber, State};
use crate::stack::{Shadow, Stack};
use crate::worker::{CurrentWorker, Worker};

impl Worker {
    /// The context at which a fiber continues or starts. `None` if there was no stack for it and it
    /// has ended, or if the next fiber must be chosen again.
    #[inline(always)]
    pub(crate) fn entrance(&self, fiber: Fiber) -> Option<arch::Context> {
        if fiber.state.get() == State::Unstarted {
            self.prepare(fiber)
        } else if !self.has_preemptible() || !self.is_past_grace(fiber) {
            Some(fiber.context.get())
        } else {
            self.orphan(fiber);
            None
        }
    }

    /// Orphans an interrupted fiber. If no kernel thread can be started for it, it stops forever.
    #[cold]
    fn orphan(&self, fiber: Fiber) {
        fiber.state.set(State::Running);
        // No other thread may ask any more where it is.
        fiber.home.set(None);
        orphan::move_to_thread(fiber, || self.forget_interrupted(fiber));
    }

    /// Gives an unstarted fiber a stack.
    fn prepare(&self, fiber: Fiber) -> Option<arch::Context> {
        let is_first = fiber.is_preemptible.get() && !self.has_preemptible();
        let prepared = if is_first { self.prepare_preemption() } else { Ok(()) };
        if is_first && prepared.is_ok() {
            // The caller acted as if there were no preemptible fibers: let it choose again.
            self.ready(|ready| ready.enqueue(ThreadId(fiber.number.get())));
            return None;
        }
        let stack = match prepared.map_err(StackError::Preemption).and_then(|()| self.stacks.take(fiber)) {
            Ok(stack) => stack,
            Err(why) => self.refuse(fiber, why)?,
        };
        fiber.stack.set(Some(stack.begun()));
        fiber.home.set(Some(NonNull::from(self)));
        if let Some(preemptible) = fiber.preemptible() {
            preemptible.prepare_for(self);
        }
        // SAFETY: nothing else uses the stack.
        Some(unsafe { arch::new_context(stack.top(), arch::Entrance::Fiber) })
    }

    /// There is no stack for a fiber. It drops its function on the last stack, or has ended if that
    /// is in use.
    #[cold]
    #[inline(never)]
    fn refuse(&self, fiber: Fiber, why: StackError) -> Option<Stack> {
        let last = self.stacks.take_last();
        // SAFETY: it has not started.
        unsafe {
            if last.is_some() {
                self.stacks.set_reason(why);
                fiber.task.refuse_when_run();
            } else {
                fiber.task.refuse(why);
                // The next fiber with this record has a name and its own size.
                fiber.extras.take();
                crate::join::ended(CurrentWorker::expect(), fiber);
            }
        }
        last
    }

    /// Makes this kernel thread a worker, and what runs on it a fiber.
    ///
    /// # Safety
    /// The worker is not moved until it [resigns](Worker::resign).
    pub(crate) unsafe fn adopt(&self) -> Result<Fiber, SpawnError> {
        let fiber = self.record()?;
        // SAFETY: the caller's promise.
        unsafe { self.adopt_as(fiber) };
        Ok(fiber)
    }

    /// The same with a record that was made for it.
    ///
    /// # Safety
    /// As for [`adopt`](Worker::adopt).
    pub(crate) unsafe fn adopt_as(&self, fiber: Fiber) {
        fiber.home.set(Some(NonNull::from(self)));
        fiber.state.set(State::Running);
        // It has no handle.
        fiber.meeting.store(crate::join::DETACHED, Relaxed);
        self.take_in(fiber);
        self.current.set(Some(fiber));
        self.accounting.restart(self.clock.ticks());
        HERE.set(Some(NonNull::from(self)));
        self.alternate.set(crate::stack::overflow::watch());
        self.shadow.set(Shadow::current());
    }

    /// Makes this kernel thread a plain thread again.
    pub(crate) fn resign(&self) {
        self.stop_ticks();
        HERE.set(None);
        self.alternate.take();
    }
}

/// The first function on a stack: runs the current fiber, and later ones that start on the same
/// stack.
///
/// # Safety
/// Only the entry of the stack of a fiber jumps to it.
pub(crate) unsafe extern "C" fn begin() -> ! {
    let here = CurrentWorker::begin();
    loop {
        let me = here.current();
        match me.preemptible() {
            None => run(me),
            Some(preemptible) => {
                here.apply_mask(preemptible);
                preemptible.run_outside(|| run(me));
                if let Some(orphan) = preemptible.orphan.get() {
                    // SAFETY: nothing on this stack is needed any more.
                    unsafe { orphan::end(preemptible, orphan) }
                }
                here.preemption.restart_grace();
            }
        }
        let stack = me.stack.take();
        here.end_turn(None);
        here.accounting.forget(me);
        crate::join::ended(here, me);
        let mut next = here.next();
        if next.state.get() == State::Unstarted && here.stacks.can_reuse(stack, next) {
            next.stack.set(stack);
            next.home.set(Some(here.pointer()));
            if here.has_preemptible() {
                if let Some(preemptible) = next.preemptible() {
                    preemptible.prepare_for(&here);
                }
                here.make_current(next, false);
            } else {
                next.state.set(State::Running);
                here.current.set(Some(next));
            }
            continue;
        }
        // This stack is not free before it is left, so a fiber that starts now first gets another
        // one.
        let to = loop {
            match here.entrance(next) {
                Some(to) => break to,
                None => next = here.next(),
            }
        };
        if let Some(stack) = stack {
            here.stacks.give(stack);
        }
        // That may have waited for the allocator, and donated the timeslice to other fibers.
        let was_interrupted = next.preemptible().is_some_and(|preemptible| preemptible.was_interrupted.get());
        let to = if was_interrupted { next.context.get() } else { to };
        if here.has_preemptible() {
            here.make_current(next, false);
        } else {
            next.state.set(State::Running);
            here.current.set(Some(next));
        }
        // SAFETY: as in `change`; and nothing on this stack is needed any more.
        unsafe {
            here.shadow(next).enter();
            if let Some(stack) = stack {
                stack.shadow.forget();
            }
            if !here.has_preemptible() {
                arch::leave(to)
            }
            if stack.is_some_and(|stack| stack.preemptible().is_some()) {
                // The next fiber that starts here may belong to another worker.
                HERE.set(None);
            }
            here.leave_to_control_block(to, here.control_block_of(next))
        }
    }
}

/// Runs a fiber's function, and the destructors of what it leaves.
#[inline(always)]
fn run(me: Fiber) {
    // SAFETY: it has just started, on this stack.
    unsafe { me.task.run() };
    if me.meeting.load(Relaxed) == crate::join::DETACHED {
        crate::join::drop_unwanted(me);
    }
    if me.has_extras() {
        crate::local::end(me);
    }
}
