//! Lending the kernel thread: who waits in the kernel for what an interrupted guest has lets that one run meanwhile.
//!
//! A guest may be interrupted while it has a lock of the C library's or of the standard library's: the allocator's, say. Another guest that wants it, outside
//! of the library, waits in the kernel until a tick interrupts it in turn; so whoever has the lock comes to run, and gives it back. The library does not know
//! that it has one, so it comes to run as its level says. Where there is always somebody at a higher one, that is after each boost, once all who were ready
//! before it at the highest level have had a turn: a boost puts those of lower levels behind. Without boosts it is never. But there are those whom no tick
//! takes off their CPU: fibers that are no guests, and the library itself, which takes such locks, too, when it allocates memory. If one of these waits for a
//! futex when a tick comes, then guests that were interrupted run in its place, one after another, from tick to tick; between two it looks whether it can go
//! on. So it waits for as many running times as there are such guests, for each that who has the lock needs to give it back, whatever the levels.
//!
//! Some do not wait in the kernel, but look again and again, and let other kernel threads run in between (`sched_yield`): a receiver of an unbounded channel of the standard
//! library's, for one, while a message is being sent. Where a tick finds a fiber in that, it is the same. A fiber that looks again and again and does nothing else is not found
//! out, and looks for ever: a receiver of a bounded channel of the standard library's, for one.
//!
//! To the library nothing happens meanwhile: the current fiber is who waits. So a guest that runs in its place and comes to the library stops there, and goes
//! on when its turn comes in the ordinary way. It cannot have what the other waits for: what the library itself locks it gives back inside, where nobody is interrupted; and
//! who holds a lock of the standard library's and calls this one, which may let others run, has no promise from anybody.

use std::cell::Cell;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::compiler_fence;
use std::time::Duration;

use sys::tick::Interrupted;

use super::Ticking;
use crate::arch::Context;
use crate::block::Block;
use crate::guest::Guest;
use crate::record::Fiber;
use crate::worker::Worker;

/// For how long who waits looks whether it can go on, before the next one runs in its place.
const LOOKS: Duration = Duration::from_micros(50);

/// Who runs in whose place.
pub(super) struct Lending {
    to: Cell<Option<Fiber>>,
    /// Where who waits was left, and its block.
    waits: Cell<Context>,
    block: Cell<Block>,
}

impl Default for Lending {
    fn default() -> Lending {
        Lending { to: Cell::new(None), waits: Cell::new(Context::NONE), block: Cell::new(Block::NONE) }
    }
}

impl Lending {
    pub(super) fn to(&self) -> Option<Fiber> {
        self.to.get()
    }
}

/// Whether somebody else is to run in the place of who does this.
pub(super) fn is_due(interrupted: &Interrupted) -> bool {
    interrupted.is_in_futex_wait() || interrupted.has_yielded()
}

impl Worker {
    /// Goes back to who waits, from the fiber that runs in its place. Returns when that one's turn has come, or when it is lent to again.
    ///
    /// # Safety
    /// The fiber runs, and is marked as inside.
    unsafe fn goes_back(&self, from: Fiber) {
        let lending = &self.preemption.lending;
        // SAFETY: it was left as it began to lend, and nobody has gone on there.
        unsafe { self.switch_block(from.context.as_ptr(), lending.waits.get(), lending.block.get()) };
    }

    /// The one that runs waits for somebody else, and no tick can take it off: somebody else runs in its place until the next one. False if there is
    /// nobody. In a handler.
    pub(super) fn lends(&self, interrupted: &Interrupted) -> bool {
        if interrupted.is_on_alternate_stack() {
            // There the next signal would be handled over what is left.
            return false;
        }
        let preemption = &self.preemption;
        let next = preemption.interrupted(|queue| {
            let next = queue.pop();
            next.inspect(|next| queue.push(*next))
        });
        let Some((next, guest)) = next.and_then(|next| Some((next, next.guest()?))) else { return false };
        let lending = &preemption.lending;
        preemption.count(|counts| counts.lent += 1);
        lending.block.set(self.block_in_force());
        preemption.will_tick(Ticking::On);
        compiler_fence(SeqCst);
        lending.to.set(Some(next));
        // SAFETY: the guest was interrupted outside, or has stopped as it came inside, and nobody has gone on there. Where it is left is written before anybody asks.
        let switch = || unsafe { self.switch_block(lending.waits.as_ptr(), next.context.get(), guest.block()) };
        interrupted.allow_ticks_during(switch);
        lending.to.set(None);
        compiler_fence(SeqCst);
        preemption.will_tick_after(LOOKS);
        true
    }

    /// A tick has come while somebody was to run in the place of another: its time is over. In a handler.
    pub(super) fn takes_back(&self, lent: Fiber, block: Block, interrupted: &Interrupted) {
        let on_its_stack = |stack: crate::stack::Stack| stack.has(interrupted.stack_pointer());
        let guest = lent.guest().filter(|guest| guest.block() == block);
        let Some(guest) = guest.filter(|_| lent.stack.get().is_some_and(on_its_stack)) else { return };
        if interrupted.is_on_alternate_stack() {
            return;
        }
        // If it is about to come inside it goes back by itself.
        if guest.is_interrupted() {
            // SAFETY: just so.
            interrupted.allow_ticks_during(|| unsafe { self.goes_back(lent) });
            guest.goes_on_after(interrupted);
        }
    }

    /// Whether somebody is in the middle of something inside and waits in the kernel, while a guest runs in its place.
    #[inline(always)]
    pub(crate) fn has_a_stuck_one(&self) -> bool {
        self.preemption.lending.to().is_some()
    }

    /// A guest comes inside, where another may be in the middle of something, and waits in the kernel.
    #[cold]
    pub(crate) fn wait_for_the_stuck_one(&self, guest: &Guest) {
        // Who comes back in exile does so on another kernel thread, and does not ask this worker for anything.
        while guest.exile.get().is_none()
            && let Some(lent) = self.preemption.lending.to()
        {
            // SAFETY: nobody else runs while that is so.
            unsafe { self.goes_back(lent) };
        }
    }
}
