//! How workers start, and how fibers start on them.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

use sys::fault::AlternateStack;

use crate::arch::{self, Target};
use crate::current_worker::{self, CurrentWorker};
use crate::error::{SpawnError, StackError};
use crate::fiber_thread::FiberThread;
use crate::record::{DETACHED, Fiber, State, Tier};
use crate::stack::Stack;
use crate::unwinding::NoStack;
use crate::worker::Worker;

impl Worker {
    /// The context at which a fiber continues or starts. `None` if there was no stack for it and it
    /// has ended, or if the next fiber must be chosen again.
    #[inline(always)]
    pub(crate) fn entrance(&self, fiber: Fiber) -> Option<arch::Context> {
        if fiber.state.get() == State::Unstarted {
            self.prepare(fiber)
        } else if !self.has_ticks() || !self.is_past_grace(fiber) {
            Some(fiber.context.get())
        } else {
            self.orphan(fiber);
            None
        }
    }

    /// Gives an unstarted fiber a stack, or a kernel thread.
    fn prepare(&self, fiber: Fiber) -> Option<arch::Context> {
        let prepared = self.prepare_for(fiber);
        if self.preemption.threads.runs_on.get().is_some() {
            if let Err(why) = prepared.and_then(|()| self.place_on_thread(fiber)) {
                self.refuse(fiber, why, self.place_on_spare_thread(fiber))?;
            }
            return Some(arch::Context::default());
        }
        let take = || self.stacks.take(fiber.stack_size(), fiber.is_sharing.get());
        let taken = prepared.and_then(|()| take());
        let is_last = taken.is_err();
        let stack = match taken {
            Ok(stack) => stack,
            Err(why) => self.refuse(fiber, why, self.stacks.take_last())?,
        };
        self.place(fiber, stack);
        if is_last {
            // The last stack stays with its worker.
            fiber.thread().pins.set(1);
        }
        // SAFETY: nothing else uses the stack.
        Some(unsafe { arch::new_context(stack.top(), begin) })
    }

    /// Prepares what the worker needs for such a fiber.
    #[inline(always)]
    fn prepare_for(&self, fiber: Fiber) -> Result<(), StackError> {
        if !self.preemption.has_blocks.get() {
            self.prepare_blocks()?;
        }
        if fiber.is_sharing.get() {
            self.prepare_scheduler()?;
        }
        if fiber.is_preemptible.get() && !self.has_ticks() {
            self.prepare_ticks()?;
        }
        Ok(())
    }

    /// Places an unstarted fiber on a stack.
    #[inline(always)]
    fn place(&self, fiber: Fiber, stack: Stack) {
        fiber.stack.set(Some(stack));
        fiber.home.set(Some(self.pointer()));
        match stack.thread() {
            Some(thread) => {
                fiber.thread.set(Some(thread));
                fiber.thread().prepare_for(self.pointer());
            }
            None => fiber.thread.set(self.preemption.scheduler_thread()),
        }
    }

    /// There is no stack for a fiber. It drops its function on the last stack or thread, or forgets
    /// it and has ended if that is in use.
    #[cold]
    #[inline(never)]
    fn refuse<T>(&self, fiber: Fiber, why: StackError, last: Option<T>) -> Option<T> {
        // SAFETY: it has not started.
        unsafe { fiber.task.refuse(Box::new(NoStack(why)), last.is_some()) };
        if last.is_none() {
            // SAFETY: as above. This runs no code of the program.
            unsafe { fiber.task.run() };
            // The next fiber with this record has a name and its own size.
            fiber.extras.take();
            crate::join::ended(CurrentWorker::expect(), fiber);
        }
        last
    }

    /// Makes this kernel thread a worker, and what runs on it a fiber.
    ///
    /// # Safety
    /// The worker is not moved until it [resigns](Worker::resign).
    pub(crate) unsafe fn adopt(&self) -> Result<Fiber, SpawnError> {
        let fiber = self.record()?;
        fiber.is_preemptible.set(self.default_tier == Tier::Preemptible);
        // SAFETY: the caller's promise.
        unsafe { self.adopt_as(fiber) };
        Ok(fiber)
    }

    /// The same with a record that was made for it. The caller is in the runtime from now on.
    ///
    /// # Safety
    /// As for [`adopt`](Worker::adopt).
    pub(crate) unsafe fn adopt_as(&self, fiber: Fiber) {
        fiber.home.set(Some(self.pointer()));
        fiber.state.set(State::Running);
        // It has no handle.
        fiber.meeting.store(DETACHED, Relaxed);
        self.take_in(fiber);
        self.current.set(Some(fiber));
        self.accounting.restart(self.clock.ticks());
        fiber.thread.set(Some(NonNull::from(&self.own_thread)));
        self.own_thread.adopt();
        self.own_thread.take_turn(self.pointer());
        self.alternate.set(AlternateStack::for_this_thread().ok().flatten());
        self.preemption.note_mask();
        #[cfg(interposed)]
        crate::interposed::prepare();
    }

    /// Ends the scheduler of a worker whose other fibers have ended: a last fiber has its stack and
    /// its block, and ends there. So the destructors of sharing fibers' thread-locals run. Returns
    /// false if they wait.
    pub(crate) fn end_scheduler(&self) -> bool {
        let Some(stack) = self.preemption.scheduler.take() else { return true };
        // Others have ended, so there is one.
        let Ok(last) = self.record() else { return true };
        // SAFETY: the record is free, and the function borrows nothing.
        unsafe { last.begin(None, Tier::Cooperative, || (), DETACHED) };
        self.place(last, stack);
        self.take_in(last);
        // SAFETY: nothing else uses the stack.
        last.context.set(unsafe { arch::new_context(stack.top(), begin) });
        last.state.set(State::Ready);
        self.ready(|ready| ready.enqueue(last.id()));
        while last.state.get() == State::Ready {
            self.yield_to_any();
        }
        last.state.get() == State::Free
    }

    /// Makes this kernel thread a plain thread again.
    pub(crate) fn resign(&self) {
        self.stop_ticks();
        self.end_threads();
        FiberThread::leave_for_good();
        self.alternate.take();
    }
}

/// The first function on a stack.
///
/// # Safety
/// Only the entry of the stack of a fiber jumps to it.
pub(crate) unsafe extern "C" fn begin() -> ! {
    // SAFETY: the other stack was left by this worker, or is new. Its fiber was in the queue once,
    // so it does not run anywhere. Nothing on this stack is needed any more.
    unsafe { arch::leave(run_fibers()) }
}

/// Runs the current fiber, and later ones that start on the same stack. Returns where the worker
/// continues after them.
#[inline(never)]
fn run_fibers() -> Target {
    let here = CurrentWorker::expect();
    loop {
        let me = here.current();
        current_worker::call_outside(|| {
            run(me);
            if !me.is_sharing.get() {
                me.thread().end();
            }
        });
        if let Some(orphan) = me.thread().orphan.get() {
            // SAFETY: nothing on this stack is needed any more.
            unsafe { orphan.end() }
        }
        here.preemption.restart_grace();
        let (stack, thread) = (me.stack.take(), me.thread.get());
        here.end_turn(None);
        crate::join::ended(here, me);
        let mut next = here.next();
        if next.state.get() == State::Unstarted
            && let Some(stack) = stack
            && here.stacks.can_reuse(stack, next.stack_size(), next.is_sharing.get())
        {
            here.place(next, stack);
            here.make_current(next, false);
            arch::reset_modes();
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
        let to = if next.thread().was_interrupted.get() { next.context.get() } else { to };
        here.make_current(next, false);
        let stays = next.thread.get() == thread;
        let thread_pointer = if stays { 0 } else { next.thread().control_block().thread_pointer() };
        return Target { to, thread_pointer };
    }
}

/// Runs a fiber's function, which has just started, and drops what nothing else gets.
#[inline(always)]
pub(crate) fn run(me: Fiber) {
    // SAFETY: it has just started, on this stack.
    unsafe { me.task.run() };
    if me.meeting.load(Relaxed) == DETACHED {
        crate::join::drop_unwanted(me);
    }
    me.extras.take();
}
