//! What a [preemptible fiber](crate::preemptible) has of its own, as a kernel thread has it, and how one goes there.
//!
//! To all code that runs there it is the thread: its thread-local variables are found by it. It is one of two things:
//!
//! * A thread control block alone. To go there is to change the thread pointer, on the worker's kernel thread, which goes from one block to the next.
//! * A kernel thread with all that it has, where there can be no block without one. It waits in the kernel for its turn, so that of the worker's kernel threads, its own
//!   and its preemptible fibers', exactly one runs at a time: to go there is to [hand over](thread::KernelThread) the turn.
//!
//! A fiber that is no preemptible fiber is in the block of its worker's own kernel thread.

pub(crate) mod thread;

use self::thread::{Handover, KernelThread};
use crate::arch::{self, Context};
use crate::error::PreemptionError;
use crate::preemptible::PreemptibleFiber;
use crate::record::Fiber;
use crate::worker::Worker;

/// What preemptible fibers have of their own, so that they can be interrupted anywhere; see [`Config::preempt_by`](crate::Config::preempt_by).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PreemptBy {
    /// Thread control blocks where these can be made, and kernel threads elsewhere.
    #[default]
    Auto,
    /// Each a thread control block. One worker's fibers share its kernel thread, and to go from one to another takes nanoseconds. That takes the GNU C library, and a
    /// processor and a kernel that let programs change the thread pointer.
    ThreadBlocks,
    /// Each a kernel thread, of which one runs at a time for each worker. That takes nothing but Linux, and to go from one to another takes microseconds. Each
    /// fiber that has started has a kernel thread and a timer, of which a process may have some 16000; they stay, for later fibers. A kernel thread keeps the
    /// CPUs, the nice value and the policy of the thread that has made it. With a policy of real time on a single CPU, what others send does not
    /// interrupt a fiber that comes to no point, since the worker's own thread, which is the one that they know, does not come to run there.
    KernelThreads,
}

/// What it comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ControlBlockKind {
    ThreadPointer,
    KernelThread,
}

impl PreemptBy {
    /// What it comes to here.
    pub(crate) fn kind(self) -> Result<ControlBlockKind, PreemptionError> {
        use sys::thread_block::{ThreadBlockError, check_support};
        match (self, check_support()) {
            // That sanitizer handles signals when it sees fit, and so not in an endless loop; and it would have to hear of each turn.
            (_, Err(why @ ThreadBlockError::Sanitizer("thread"))) => Err(why.into()),
            (PreemptBy::ThreadBlocks, Err(why)) => Err(why.into()),
            (PreemptBy::KernelThreads, _) | (PreemptBy::Auto, Err(_)) => Ok(ControlBlockKind::KernelThread),
            (PreemptBy::Auto | PreemptBy::ThreadBlocks, Ok(())) => Ok(ControlBlockKind::ThreadPointer),
        }
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlBlock {
    /// A block, by the thread pointer.
    ThreadPointer(usize),
    KernelThread(&'static KernelThread),
}

impl ControlBlock {
    /// Nobody's.
    pub(crate) const NONE: ControlBlock = ControlBlock::ThreadPointer(0);

    pub(crate) fn thread(self) -> Option<&'static KernelThread> {
        match self {
            ControlBlock::ThreadPointer(_) => None,
            ControlBlock::KernelThread(thread) => Some(thread),
        }
    }
}

impl Worker {
    /// The block that a fiber of this worker is in.
    #[inline(always)]
    pub(crate) fn control_block_of(&self, fiber: Fiber) -> ControlBlock {
        fiber.preemptible().map_or(self.preemption.control_block.get(), PreemptibleFiber::control_block)
    }

    /// The one that is in force. For who runs as this worker.
    pub(crate) fn control_block_in_force(&self) -> ControlBlock {
        self.preemption
            .runs_on
            .get()
            .map_or_else(|| ControlBlock::ThreadPointer(arch::thread_pointer()), ControlBlock::KernelThread)
    }

    /// Does something in the block of the worker's own kernel thread, so that what the C library keeps for a thread that allocates memory is not kept in a preemptible fiber's. For who is
    /// inside. It must not panic.
    pub(crate) fn in_own_control_block<R>(&self, call: impl FnOnce() -> R) -> R {
        unsafe extern "C" fn run(call: *mut ()) {
            // SAFETY: that is what is passed on below.
            unsafe { (*call.cast::<&mut dyn FnMut()>())() }
        }
        let ControlBlock::ThreadPointer(own) = self.preemption.control_block.get() else { return call() };
        if own == arch::thread_pointer() {
            return call();
        }
        let (mut call, mut result) = (Some(call), None);
        let mut once = || result = call.take().map(|call| call());
        let mut once: &mut dyn FnMut() = &mut once;
        // SAFETY: it was noted before there was a preemptible fiber, and nobody else runs in it while one does: who is no preemptible fiber was left where the library was called, or waits in the kernel, and then a preemptible fiber that runs in
        // its place does not come inside.
        unsafe { arch::call_with_thread_pointer(own, run, (&raw mut once).cast()) };
        match result {
            Some(result) => result,
            None => unreachable!("it was called"),
        }
    }

    /// Leaves this stack, noting in `save` where, and goes on where the other was left. Returns when somebody comes back.
    ///
    /// # Safety
    /// As with [`arch::switch`]; and the block is the one with which the other stack was left, or is to begin.
    #[inline(always)]
    pub(crate) unsafe fn switch_to_control_block(&self, save: *mut Context, to: Context, block: ControlBlock) {
        // SAFETY: the caller's promise.
        unsafe {
            match block {
                ControlBlock::ThreadPointer(pointer) => arch::switch_and_set_thread_pointer(save, to, pointer),
                ControlBlock::KernelThread(next) => arch::switch(save, self.handover_target(to, next)),
            }
        }
    }

    /// The same for good.
    ///
    /// # Safety
    /// As with [`Worker::switch_to_control_block`]; and nothing that is on this stack will be missed.
    #[inline(always)]
    pub(crate) unsafe fn leave_to_control_block(&self, to: Context, block: ControlBlock) -> ! {
        // SAFETY: the caller's promise.
        unsafe {
            match block {
                ControlBlock::ThreadPointer(pointer) => arch::leave_and_set_thread_pointer(to, pointer),
                ControlBlock::KernelThread(next) => arch::leave(self.handover_target(to, next)),
            }
        }
    }

    /// Where this kernel thread is to go on so that the next one goes on there: there itself, if that is this one.
    fn handover_target(&self, to: Context, next: &'static KernelThread) -> Context {
        match self.preemption.runs_on.get() {
            Some(own) if own != next => own.prepare_handover(next, Handover::of(self, to)),
            _ => to,
        }
    }
}

/// What the stack begins with on which a worker's own kernel thread waits for its turn.
pub(crate) unsafe extern "C" fn wait_for_turn() -> ! {
    let here = crate::here::Here::expect();
    let Some(own) = here.preemption.runs_on.get() else { unreachable!("it is to hand over its turn") };
    // SAFETY: it is this kernel thread, on its own stack.
    unsafe { own.run_turns() }
}
