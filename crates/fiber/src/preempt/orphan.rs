//! What becomes of a preemptible fiber that never comes to a point, when its runtime ends: it goes on as a kernel thread.
//!
//! A fiber that is left is told that its runtime ends where it next waits, and unwinds from there. One in an endless loop never does, and it cannot be
//! unwound from wherever it happens to be, nor just be left there: it may have a lock that the whole process needs, the allocator's for instance. So a kernel thread is made that
//! goes on with it, with the least claim to a CPU that there is; or its own does, where it has one. That is sound since a preemptible fiber has a thread control block of its own: which
//! kernel thread runs it makes no difference to it. If it comes to the library after all it unwinds, and when it has ended the kernel thread does, too. What it would have waited for while it unwinds
//! does not come; then it waits for ever, as it does where a scope ends, whose fibers borrow from it. Its stack stays.

use std::cell::Cell;
use std::io::{Write, stderr};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread::{Builder, park};

use sys::futex::{self, Scope};
use sys::scheduling::{Policy, Thread, set_policy};

use crate::arch::{self, Context};
use crate::control_block::ControlBlock;
use crate::preemptible::PreemptibleFiber;
use crate::record::Fiber;

/// Where a preemptible fiber is that was sent away.
#[derive(Clone, Copy)]
pub(crate) enum Orphan {
    /// On a kernel thread that was made for it.
    OnOtherThread(NonNull<OrphanHost>),
    /// On its own kernel thread.
    OnOwnThread,
}

/// A kernel thread that goes on with a preemptible fiber.
pub(crate) struct OrphanHost {
    /// Where it was left for the preemptible fiber.
    left: Cell<Context>,
    thread_pointer: usize,
}

/// A fiber that goes to another kernel thread.
struct Sent(Fiber);

// SAFETY: whoever gets it is the only one to touch it from then on.
unsafe impl Send for Sent {}

/// Something that is so from some time on.
#[derive(Default)]
struct Event(AtomicU32);

impl Event {
    fn set(&self) {
        self.0.store(1, Release);
        futex::wake(&self.0, 1, Scope::Process);
    }

    /// Waits for it, as a worker has to that [lends](super::lend) meanwhile: at a futex, and for as long as it takes.
    fn wait(&self) {
        while self.0.load(Acquire) == 0 {
            futex::wait(&self.0, 0, None, Scope::Process);
        }
    }
}

/// Sends a preemptible fiber away that was interrupted, if there is a kernel thread for it. Its worker lets go of it no sooner than it is asked to: what makes a kernel thread
/// may have to wait for what this one has, and so may the thread itself when it begins.
pub(crate) fn move_to_thread(fiber: Fiber, let_go: impl FnOnce()) {
    let Some(preemptible) = fiber.preemptible() else { return let_go() };
    let thread_pointer = match preemptible.control_block() {
        ControlBlock::ThreadPointer(thread_pointer) => thread_pointer,
        ControlBlock::KernelThread(thread) => {
            let_go();
            preemptible.become_orphan(Orphan::OnOwnThread);
            // SAFETY: it was interrupted outside, or has stopped as it came inside; its worker has let go of it.
            unsafe { thread.start_orphan(fiber.context.get()) };
            return;
        }
    };
    let sent = Sent(fiber);
    let events = Arc::new((Event::default(), Event::default()));
    let theirs = Arc::clone(&events);
    let run = move || {
        let Sent(fiber) = { sent };
        let (is_ready, is_let_go) = &*theirs;
        // From here on nothing is done for which this one would have to wait.
        is_ready.set();
        is_let_go.wait();
        // Where that is refused it has its share like any other thread.
        let _ = set_policy(Thread::current(), Policy::Idle);
        let Some(preemptible) = fiber.preemptible() else { return };
        let host = OrphanHost { left: Cell::new(Context::NONE), thread_pointer: arch::thread_pointer() };
        preemptible.become_orphan(Orphan::OnOtherThread(NonNull::from(&host)));
        // SAFETY: it was interrupted outside, or has stopped as it came inside; its worker has let go of it, and it never goes back.
        unsafe { arch::switch_and_set_thread_pointer(host.left.as_ptr(), fiber.context.get(), thread_pointer) };
    };
    let (is_ready, is_let_go) = &*events;
    match Builder::new().name("rowlock-orphan".into()).spawn(run) {
        Ok(_) => {
            is_ready.wait();
            let_go();
            is_let_go.set();
        }
        Err(why) => {
            let _ = writeln!(
                stderr(),
                "rowlock_fiber: a fiber that comes to no point stands still with all that it has locked, since there is no kernel thread to go on with it: {why}"
            );
            let_go();
        }
    }
}

/// An orphan has come to what it cannot do.
#[cold]
pub(crate) fn unwind() -> ! {
    if std::thread::panicking() || !crate::ending::CAN_UNWIND {
        wait_forever();
    }
    crate::ending::unwind()
}

/// An orphan has come to where it must not go on before others have ended, of which it does not hear any more: those who borrow from it.
#[cold]
pub(crate) fn wait_forever() -> ! {
    loop {
        park();
    }
}

/// An orphan has ended: so does its kernel thread, or it waits for ever where it was its own.
///
/// # Safety
/// It is this preemptible fiber's fiber that asks, and nothing that is on its stack will be missed.
pub(crate) unsafe fn end(preemptible: &PreemptibleFiber, orphan: Orphan) -> ! {
    // SAFETY: the host stays until it is gone back to, which is now; and a thread at home is the calling one.
    unsafe {
        match (orphan, preemptible.control_block()) {
            (Orphan::OnOtherThread(host), _) => {
                arch::leave_and_set_thread_pointer(host.as_ref().left.get(), host.as_ref().thread_pointer)
            }
            (Orphan::OnOwnThread, ControlBlock::KernelThread(thread)) => thread.wait_forever(),
            (Orphan::OnOwnThread, ControlBlock::ThreadPointer(_)) => {
                unreachable!("it was sent to another kernel thread")
            }
        }
    }
}
