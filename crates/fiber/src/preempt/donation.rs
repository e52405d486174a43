//! Timeslice donation: code that cannot be interrupted lets interrupted fibers run while it waits
//! in the kernel.
//!
//! A preemptible fiber may be interrupted while it holds a lock of the C library or of the standard
//! library, for example the allocator's. If another preemptible fiber wants the lock, ticks
//! interrupt its wait, so the owner eventually runs. But no tick preempts fibers that are not
//! preemptible, or the library itself, which takes such locks, too. If a tick finds one of these in
//! a wait for a futex, or just after it has yielded its CPU (`sched_yield`) because it polls, then
//! the fibers that were interrupted run instead, one after another, from tick to tick, regardless
//! of their levels. In between, the donor looks whether it can continue. [`soundness`
//! ](crate::soundness::interruption#locks) has the guarantees.
//!
//! The library does not notice the donation: the current fiber is the donor. So a recipient that
//! calls the library stops there, and continues in its ordinary turn. It cannot hold what the donor
//! waits for, unless it holds a lock of the standard library while it calls this one, for which
//! there is no guarantee.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::compiler_fence;
use std::time::Duration;

use sys::tick::Interrupted;

use super::state::Ticking;
use crate::control_block::ControlBlock;
use crate::fiber_thread::FiberThread;
use crate::record::Fiber;
use crate::stack::Stack;
use crate::worker::Worker;

/// How long the donor looks whether it can continue, before the next fiber runs on its timeslice.
const DONOR_INTERVAL: Duration = Duration::from_micros(50);

/// Whether the interrupted code waits for another thread.
pub(super) fn is_waiting(interrupted: &Interrupted) -> bool {
    interrupted.is_in_futex_wait() || interrupted.has_yielded()
}

/// Whether this fiber is interrupted, and not code that is about to leave it or to continue it.
pub(super) fn is_interrupted(fiber: Fiber, block: ControlBlock, interrupted: &Interrupted) -> bool {
    let is_on_its_stack = |stack: Stack| stack.contains(interrupted.stack_pointer());
    fiber.thread().control_block() == block && fiber.stack.get().is_none_or(is_on_its_stack)
}

impl Worker {
    /// Switches back to the donor. Returns when this fiber's turn comes, or when it receives
    /// another donation.
    ///
    /// # Safety
    /// The fiber runs, and is marked as being in the runtime.
    unsafe fn switch_to_donor(&self, from: Fiber) {
        let preemption = &self.preemption;
        // SAFETY: the donor was left when it began to donate, and has not continued since.
        unsafe {
            self.switch_to_control_block(from.context.as_ptr(), preemption.donor.get(), preemption.donor_block.get());
        };
    }

    /// Donates the timeslice of the interrupted code, which waits for another thread and cannot be
    /// preempted, until the next tick. Returns false if there is no recipient. Runs in a handler.
    pub(super) fn donate(&self, interrupted: &Interrupted) -> bool {
        if interrupted.is_on_alternate_stack() {
            // The next signal would overwrite the frames that this one leaves there.
            return false;
        }
        let preemption = &self.preemption;
        let Some(next) = preemption.interrupted.pop() else { return false };
        preemption.interrupted.push(next);
        preemption.count(|counts| counts.donated += 1);
        preemption.donor_block.set(self.control_block_in_force());
        preemption.set_ticking(Ticking::On, Duration::MAX);
        compiler_fence(SeqCst);
        preemption.recipient.set(Some(next));
        next.thread().take_donation(self.pointer());
        // SAFETY: the preemptible fiber was interrupted outside the runtime, or stopped while it
        // entered it, and has not continued since. The donor's context is written before it is
        // read.
        let switch = || unsafe {
            self.switch_to_control_block(preemption.donor.as_ptr(), next.context.get(), next.thread().control_block());
        };
        interrupted.allow_ticks_during(switch);
        preemption.recipient.set(None);
        compiler_fence(SeqCst);
        preemption.set_ticking(Ticking::On, DONOR_INTERVAL);
        true
    }

    /// Returns the timeslice to the donor after a tick. Runs in a handler.
    pub(super) fn reclaim(&self, recipient: Fiber, block: ControlBlock, interrupted: &Interrupted) {
        let (thread, before) = (recipient.thread(), self.interrupted_at());
        // If it is about to enter the runtime, it returns the timeslice by itself.
        if is_interrupted(recipient, block, interrupted)
            && !interrupted.is_on_alternate_stack()
            && thread.try_enter_runtime()
        {
            // SAFETY: the fiber runs, and has been marked.
            interrupted.allow_ticks_during(|| unsafe { self.switch_to_donor(recipient) });
            super::resume(thread, interrupted, before);
        }
    }
}

/// The calling fiber enters the runtime. If it runs on a donated timeslice, the donor may be in the
/// middle of something.
pub(crate) fn wait_for_donor(thread: &FiberThread) {
    // A fiber that comes back orphaned does so on another kernel thread, and must not use this
    // worker.
    while thread.orphan.get().is_none()
        && let Some(worker) = thread.donor.get()
    {
        // SAFETY: a worker that runs a fiber exists.
        let worker = unsafe { Worker::at(worker) };
        if let Some(recipient) = worker.preemption.recipient.get() {
            // SAFETY: only the recipient runs while there is a donation.
            unsafe { worker.switch_to_donor(recipient) };
        }
    }
}
