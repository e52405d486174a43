//! How the kernel threads of a worker take turns, if [fibers have some](crate::control_block).
//!
//! These take turns as the worker: its own kernel thread, which is its first fiber; those of its
//! other fibers; and its scheduler's, which chooses the next fiber after a tick and after the end
//! of a fiber.
//!
//! # The starter
//! Another thread starts the others. A thread inherits what the kernel keeps for the one that
//! starts it, and a fiber must not get what another one has changed for itself. And sanitizers
//! block signals while they start a thread, and wait for locks that an interrupted fiber may hold.
//! The worker waits for the starter without that, and so can [donate](crate::preempt::donation) its
//! timeslice to the fiber.
//!
//! # The end of a fiber
//! It returns from the thread's first function, and the C library ends the thread. The destructors
//! that it runs belong to the fiber: they may wait, and be interrupted. After them comes [`end`],
//! which gives the turn to the scheduler. That joins the thread before anything else, so nothing is
//! left of the fiber when another one runs.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::compiler_fence;

use crate::arch::{self, Context};
use crate::control_block::ControlBlock;
use crate::control_block::thread::{KernelThread, Order};
use crate::current_worker::{self, CurrentWorker, InRuntime};
use crate::error::{PreemptionError, StackError};
use crate::fiber_thread::FiberThread;
use crate::preempt::ROOM;
use crate::record::Fiber;
use crate::stack::Stack;
use crate::worker::Worker;

impl Worker {
    /// Prepares this worker, whose first fiber is the caller, for fibers with kernel threads.
    pub(crate) fn prepare_threads(&self) -> Result<(), StackError> {
        let threads = &self.preemption.threads;
        if threads.starter.get().is_none() {
            threads.starter.set(Some(self.start_thread(ROOM, KernelThread::start_others)?));
        }
        threads.scheduler.set(Some(self.start_thread(2 * ROOM, run_scheduler)?));
        let own = KernelThread::of_worker();
        self.own_thread.set_control_block(ControlBlock::KernelThread(own));
        threads.runs_on.set(Some(own));
        Ok(())
    }

    fn start_thread(&self, bytes: usize, run: fn(&'static KernelThread)) -> Result<&'static KernelThread, StackError> {
        let order = Order { worker: self.pointer(), bytes, run, end };
        let starter = self.preemption.threads.starter.get();
        let started = starter.map_or_else(|| KernelThread::start(order), |starter| starter.let_start(order));
        started.map_err(|why| PreemptionError::Thread(why).into())
    }

    /// Gives an unstarted fiber a kernel thread.
    pub(crate) fn place_on_thread(&self, fiber: Fiber) -> Result<(), StackError> {
        self.prepare_spare_thread();
        let thread = self.start_thread(self.stacks.bytes(fiber.stack_size())?, run_fiber)?;
        self.seat(fiber, thread);
        Ok(())
    }

    /// The same with the spare thread. `None` if that is in use.
    pub(crate) fn place_on_spare_thread(&self, fiber: Fiber) -> Option<()> {
        self.preemption.threads.spare.take().map(|thread| self.seat(fiber, thread))
    }

    fn seat(&self, fiber: Fiber, thread: &'static KernelThread) {
        fiber.stack.set(Stack::of_thread(&thread.stack()));
        fiber.home.set(Some(self.pointer()));
        fiber.thread.set(Some(NonNull::from(&thread.state)));
    }

    fn prepare_spare_thread(&self) {
        let spare = &self.preemption.threads.spare;
        if spare.get().is_none() {
            let start = |bytes| self.start_thread(bytes, run_fiber).ok();
            spare.set(self.stacks.bytes(None).ok().and_then(start));
        }
    }

    /// Gives the turn to another kernel thread, and returns when this one has the next turn. Stores
    /// where its fiber was left in `save`. Returns false if it is alone, without a worker.
    ///
    /// # Safety
    /// `save` is writable. The other thread waits for its turn.
    pub(crate) unsafe fn hand_over(&self, save: *mut Context, next: &'static KernelThread) -> bool {
        struct Change<'a> {
            worker: &'a Worker,
            own: &'static KernelThread,
            next: &'static KernelThread,
            has_turn: bool,
        }

        extern "C" fn exchange(change: *mut ()) {
            // SAFETY: it is the change below.
            let change = unsafe { &mut *change.cast::<Change<'_>>() };
            let Change { worker, own, next, .. } = *change;
            match own.ticks() {
                Some(ticks) => ticks.detach(),
                None => worker.forward_ticks_to(next),
            }
            compiler_fence(SeqCst);
            change.has_turn = own.exchange_turn(next);
            if change.has_turn {
                worker.resume_on(own);
            }
        }

        let Some(own) = self.preemption.threads.runs_on.get() else { unreachable!("it has the turn") };
        let mut change = Change { worker: self, own, next, has_turn: false };
        // SAFETY: the function gets what it expects; the rest is the caller's promise.
        unsafe { arch::call_as_if_left(save, exchange, (&raw mut change).cast()) };
        change.has_turn
    }

    /// Ends the kernel threads that have no fiber. The caller is the worker's first fiber, which is
    /// its last one.
    pub(crate) fn end_threads(&self) {
        let threads = &self.preemption.threads;
        let idle = [threads.scheduler.take(), threads.spare.take(), threads.starter.take()];
        idle.into_iter().flatten().for_each(KernelThread::end);
        threads.runs_on.take().into_iter().for_each(KernelThread::join);
    }
}

/// What the scheduler's thread does.
fn run_scheduler(own: &'static KernelThread) {
    let here = CurrentWorker::expect();
    here.resume_on(own);
    loop {
        if let Some(ended) = here.preemption.threads.ended.take() {
            ended.join();
            here.prepare_spare_thread();
        }
        let (_, next) = here.choose();
        let ControlBlock::KernelThread(next) = next.thread().control_block() else {
            unreachable!("all fibers of the worker have kernel threads")
        };
        let mut left = Context::default();
        // SAFETY: the fiber was in the queue, so its thread waits.
        if !unsafe { here.hand_over(&raw mut left, next) } {
            return FiberThread::leave_for_good();
        }
    }
}

/// What the thread of the current fiber does, which has not started yet.
fn run_fiber(own: &'static KernelThread) {
    let here = CurrentWorker::expect();
    here.resume_on(own);
    let me = here.current();
    // The thread has inherited both from the one that has started it.
    here.preemption.apply_mask();
    arch::reset_modes();
    current_worker::call_outside(|| crate::start::run(me));
    own.state.is_ending.set(true);
    BEFORE_OTHERS.with(|_| ());
}

thread_local! {
    static BEFORE_OTHERS: LeavesRuntime = const { LeavesRuntime };
}

/// The first destructor of a fiber's thread-locals, because it is the last one that is registered.
/// Before it, sanitizers and the C library end the thread, which must not be interrupted: they hold
/// locks for which they wait with signals blocked.
struct LeavesRuntime;

impl Drop for LeavesRuntime {
    fn drop(&mut self) {
        current_worker::leave_runtime();
    }
}

/// Ends the fiber of the calling thread, of which nothing else runs any more.
fn end() {
    let inside = InRuntime::enter();
    let Some(here) = inside.worker() else {
        // It is an orphan, or had no fiber.
        return KernelThread::of_orphan().into_iter().for_each(KernelThread::end_orphan);
    };
    std::mem::forget(inside);
    // SAFETY: the worker exists as long as this thread has the turn.
    let worker = unsafe { Worker::at(here.pointer()) };
    let threads = &worker.preemption.threads;
    let (Some(own), Some(scheduler)) = (threads.runs_on.get(), threads.scheduler.get()) else {
        unreachable!("this thread has the turn")
    };
    let me = worker.current();
    me.stack.take();
    worker.preemption.restart_grace();
    worker.end_turn(None);
    own.state.is_ending.set(false);
    crate::join::ended(here, me);
    worker.current.set(None);
    FiberThread::leave_for_good();
    threads.ended.set(Some(own));
    own.ticks().inspect(|ticks| ticks.detach());
    compiler_fence(SeqCst);
    scheduler.give_turn();
}
