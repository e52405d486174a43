//! Switches from one fiber to another.
//!
//! A fiber that is left calls this, and returns from it when it continues; in between its stack is
//! unchanged. The [thread control block](crate::control_block) is switched along with the stack.

use crate::arch::{self, Context, Target};
use crate::control_block::ControlBlock;
use crate::record::{Fiber, State};
use crate::worker::Worker;

impl Worker {
    /// Leaves one fiber, which has left the queue or is in it again, and continues with another.
    #[inline(always)]
    pub(crate) fn change(&self, me: Fiber, mut next: Fiber) {
        let to = loop {
            if me == next {
                return self.make_current(me, false);
            }
            match self.entrance(next) {
                Some(to) => break to,
                None => next = self.next_again(),
            }
        };
        self.make_current(next, false);
        if self.has_ticks() {
            me.thread().has_extension.set(false);
        }
        let stays = me.thread.get() == next.thread.get();
        let block = if stays { ControlBlock::NONE } else { next.thread().control_block() };
        // SAFETY: the other stack was left in this way by this worker, or is new, and the block is
        // the one with which it was left. The fiber was in the queue once, so it does not run
        // anywhere.
        unsafe { self.switch_to_control_block(me.context.as_ptr(), to, block) };
    }

    /// Yields to another fiber of any level, if one is ready.
    #[cold]
    pub(crate) fn yield_to_any(&self) {
        let me = self.current();
        self.end_turn(Some(me));
        let Some(next) = self.take() else { return };
        me.state.set(State::Ready);
        self.ready(|ready| ready.enqueue(me.id()));
        self.change(me, next);
    }

    /// The next fiber, if the one that was chosen has ended instead.
    #[cold]
    #[inline(never)]
    fn next_again(&self) -> Fiber {
        self.next()
    }

    /// The block that is in use now. For code that runs as this worker.
    pub(crate) fn control_block_in_force(&self) -> ControlBlock {
        self.preemption
            .threads
            .runs_on
            .get()
            .map_or_else(|| ControlBlock::ThreadPointer(arch::thread_pointer()), ControlBlock::KernelThread)
    }

    /// Leaves this stack, stores its context in `save`, and continues at the other one. Returns
    /// when another switch comes back.
    ///
    /// # Safety
    /// As for [`arch::switch`]. The block must be the one with which the other stack was left, or
    /// with which it starts, or none if that is in use.
    #[inline(always)]
    pub(crate) unsafe fn switch_to_control_block(&self, save: *mut Context, to: Context, block: ControlBlock) {
        // SAFETY: the caller's promise.
        unsafe {
            match block {
                ControlBlock::ThreadPointer(thread_pointer) => arch::switch(save, Target { to, thread_pointer }),
                ControlBlock::KernelThread(next) => _ = self.hand_over(save, next),
            }
        }
    }
}
