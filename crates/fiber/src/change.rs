//! Switches from one fiber to another.
//!
//! A fiber that is left calls this, and returns from it when it continues; in between its stack is
//! unchanged. If it has [its own thread control block](crate::preemptible), that is switched
//! along with the stack.

use crate::arch;
use crate::record::{Fiber, State};
use crate::stack::Shadow;
use crate::worker::Worker;

impl Worker {
    /// Leaves one fiber, which has left the queue or is in it again, and continues with another.
    #[inline(always)]
    pub(crate) fn change(&self, me: Fiber, next: Fiber) {
        if self.has_preemptible() { self.change_with_control_block(me, next) } else { self.change_plainly(me, next) }
    }

    /// The same if no fiber has its own thread control block.
    #[inline(always)]
    pub(crate) fn change_plainly(&self, me: Fiber, next: Fiber) {
        if me == next {
            me.state.set(State::Running);
            return;
        }
        let Some(to) = self.entrance(next) else {
            // While another fiber is chosen, the first preemptible fiber may come.
            return self.change_again(me);
        };
        next.state.set(State::Running);
        self.current.set(Some(next));
        if std::thread::panicking() {
            return self.switch_panicking(me, next, to);
        }
        // SAFETY: the other stack was left in this way by this worker, or is new. The fiber was in
        // the queue once, so it does not run anywhere.
        unsafe { self.switch(me, next, to) }
    }

    /// The same if the fiber that was chosen has ended instead.
    #[cold]
    #[inline(never)]
    fn change_again(&self, me: Fiber) {
        self.change(me, self.next());
    }

    /// The same if one of the two may have its own thread control block.
    #[inline(never)]
    fn change_with_control_block(&self, me: Fiber, mut next: Fiber) {
        let to = loop {
            if me == next {
                return self.make_current(me, false);
            }
            match self.entrance(next) {
                Some(to) => break to,
                None => next = self.next(),
            }
        };
        self.make_current(next, false);
        let preemptible = me.preemptible();
        if let Some(preemptible) = preemptible {
            preemptible.has_extension.set(false);
        }
        // SAFETY: as above; and the block is the other fiber's.
        let switch = || unsafe {
            self.shadow(next).enter();
            self.switch_to_control_block(me.context.as_ptr(), to, self.control_block_of(next));
        };
        if preemptible.is_none() && std::thread::panicking() { self.unwinding.stop(switch) } else { switch() }
    }

    /// # Safety
    /// As for [`arch::switch`].
    #[inline(always)]
    unsafe fn switch(&self, me: Fiber, next: Fiber, to: arch::Context) {
        self.shadow(next).enter();
        // SAFETY: the caller's promise.
        unsafe { arch::switch(me.context.as_ptr(), to) };
    }

    #[cold]
    #[inline(never)]
    fn switch_panicking(&self, me: Fiber, next: Fiber, to: arch::Context) {
        // SAFETY: as above.
        self.unwinding.stop(|| unsafe { self.switch(me, next, to) });
    }

    /// The sanitizer's record of the stack of a fiber of this worker.
    #[inline(always)]
    pub(crate) fn shadow(&self, fiber: Fiber) -> Shadow {
        fiber.stack.get().map_or(self.shadow.get(), |stack| stack.shadow)
    }
}
