//! Donation the kernel thread: who waits in the kernel for what an interrupted preemptible fiber has lets that one run meanwhile.
//!
//! A preemptible fiber may be interrupted while it has a lock of the C library's or of the standard library's: the allocator's, say. Another preemptible fiber that wants it, outside
//! of the library, waits in the kernel until a tick interrupts it in turn; so whoever has the lock comes to run, and gives it back. The library does not know
//! that it has one, so it comes to run as its level says. Where there is always somebody at a higher one, that is after each boost, once all who were ready
//! before it at the highest level have had a turn: a boost puts those of lower levels behind. Without boosts it is never. But there are those whom no tick
//! takes off their CPU: fibers that are no preemptible fibers, and the library itself, which takes such locks, too, when it allocates memory. If one of these waits for a
//! futex when a tick comes, then preemptible fibers that were interrupted run in its place, one after another, from tick to tick; between two it looks whether it can go
//! on. So it waits for as many running times as there are such preemptible fibers, for each that who has the lock needs to give it back, whatever the levels.
//!
//! Some do not wait in the kernel, but look again and again, and let other kernel threads run in between (`sched_yield`): a receiver of an unbounded channel of the standard
//! library's, for one, while a message is being sent. Where a tick finds a fiber in that, it is the same. A fiber that looks again and again and does nothing else is not found
//! out, and looks for ever: a receiver of a bounded channel of the standard library's, for one.
//!
//! To the library nothing happens meanwhile: the current fiber is who waits. So a preemptible fiber that runs in its place and comes to the library stops there, and goes
//! on when its turn comes in the ordinary way. It cannot have what the other waits for: what the library itself locks it gives back inside, where nobody is interrupted; and
//! who holds a lock of the standard library's and calls this one, which may let others run, has no promise from anybody.

use std::cell::Cell;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::compiler_fence;
use std::time::Duration;

use sys::tick::Interrupted;

use super::Ticking;
use crate::arch::Context;
use crate::control_block::ControlBlock;
use crate::preemptible::PreemptibleFiber;
use crate::record::Fiber;
use crate::worker::Worker;

/// For how long who waits looks whether it can go on, before the next one runs in its place.
const DONOR_INTERVAL: Duration = Duration::from_micros(50);

/// Who runs in whose place.
pub(super) struct Donation {
    recipient: Cell<Option<Fiber>>,
    /// Where who waits was left, and its block.
    donor: Cell<Context>,
    donor_block: Cell<ControlBlock>,
}

impl Default for Donation {
    fn default() -> Donation {
        Donation {
            recipient: Cell::new(None),
            donor: Cell::new(Context::NONE),
            donor_block: Cell::new(ControlBlock::NONE),
        }
    }
}

impl Donation {
    pub(super) fn recipient(&self) -> Option<Fiber> {
        self.recipient.get()
    }
}

/// Whether somebody else is to run in the place of who does this.
pub(super) fn is_waiting(interrupted: &Interrupted) -> bool {
    interrupted.is_in_futex_wait() || interrupted.has_yielded()
}

impl Worker {
    /// Goes back to who waits, from the fiber that runs in its place. Returns when that one's turn has come, or when it is lent to again.
    ///
    /// # Safety
    /// The fiber runs, and is marked as inside.
    unsafe fn switch_to_donor(&self, from: Fiber) {
        let donation = &self.preemption.donation;
        // SAFETY: it was left as it began to lend, and nobody has gone on there.
        unsafe {
            self.switch_to_control_block(from.context.as_ptr(), donation.donor.get(), donation.donor_block.get());
        };
    }

    /// The one that runs waits for somebody else, and no tick can take it off: somebody else runs in its place until the next one. False if there is
    /// nobody. In a handler.
    pub(super) fn donate(&self, interrupted: &Interrupted) -> bool {
        if interrupted.is_on_alternate_stack() {
            // There the next signal would be handled over what is left.
            return false;
        }
        let preemption = &self.preemption;
        let next = preemption.with_interrupted(|queue| {
            let next = queue.pop();
            next.inspect(|next| queue.push(*next))
        });
        let Some((next, preemptible)) = next.and_then(|next| Some((next, next.preemptible()?))) else { return false };
        let donation = &preemption.donation;
        preemption.count(|counts| counts.donated += 1);
        donation.donor_block.set(self.control_block_in_force());
        preemption.set_ticking(Ticking::On);
        compiler_fence(SeqCst);
        donation.recipient.set(Some(next));
        // SAFETY: the preemptible fiber was interrupted outside, or has stopped as it came inside, and nobody has gone on there. Where it is left is written before anybody asks.
        let switch = || unsafe {
            self.switch_to_control_block(donation.donor.as_ptr(), next.context.get(), preemptible.control_block());
        };
        interrupted.allow_ticks_during(switch);
        donation.recipient.set(None);
        compiler_fence(SeqCst);
        preemption.set_ticking_after(DONOR_INTERVAL);
        true
    }

    /// A tick has come while somebody was to run in the place of another: its time is over. In a handler.
    pub(super) fn reclaim(&self, recipient: Fiber, block: ControlBlock, interrupted: &Interrupted) {
        let on_its_stack = |stack: crate::stack::Stack| stack.contains(interrupted.stack_pointer());
        let preemptible = recipient.preemptible().filter(|preemptible| preemptible.control_block() == block);
        let Some(preemptible) = preemptible.filter(|_| recipient.stack.get().is_some_and(on_its_stack)) else { return };
        if interrupted.is_on_alternate_stack() {
            return;
        }
        // If it is about to come inside it goes back by itself.
        if preemptible.try_enter_runtime() {
            // SAFETY: just so.
            interrupted.allow_ticks_during(|| unsafe { self.switch_to_donor(recipient) });
            preemptible.resume_after(interrupted);
        }
    }

    /// Whether somebody is in the middle of something inside and waits in the kernel, while a preemptible fiber runs in its place.
    #[inline(always)]
    pub(crate) fn is_donating(&self) -> bool {
        self.preemption.donation.recipient().is_some()
    }

    /// A preemptible fiber comes inside, where another may be in the middle of something, and waits in the kernel.
    #[cold]
    pub(crate) fn wait_for_donor(&self, preemptible: &PreemptibleFiber) {
        // Who comes back orphaned does so on another kernel thread, and does not ask this worker for anything.
        while preemptible.orphan.get().is_none()
            && let Some(recipient) = self.preemption.donation.recipient()
        {
            // SAFETY: nobody else runs while that is so.
            unsafe { self.switch_to_donor(recipient) };
        }
    }
}
