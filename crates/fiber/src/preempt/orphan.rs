//! Orphaned fibers: a preemptible fiber that reaches no safepoint when its runtime ends continues
//! as a kernel thread.
//!
//! When a runtime ends, each remaining fiber is cancelled at its next wait, and unwinds from there.
//! A fiber in an endless loop never waits. It cannot be unwound from an arbitrary place, nor just
//! be abandoned: it may hold a lock that the whole process needs, for example the allocator's. So a
//! new kernel thread continues with it, at the lowest priority; or its own does, if it has one.
//! That is sound because the fiber has its own thread control block: it does not matter which
//! kernel thread runs it.
//!
//! If it calls the library after all, it unwinds, and when it has ended, the kernel thread ends,
//! too. An event that it would wait for while it unwinds never comes, so it waits forever. It also
//! waits forever at the end of a scope whose fibers borrow from it. Its stack is never freed.

use std::cell::Cell;
use std::io::{Write, stderr};
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread::{Builder, park};

use sys::scheduling::{Policy, Thread, set_policy};

use crate::arch::{self, Context, Target};
use crate::control_block::ControlBlock;
use crate::event::Event;
use crate::fiber_thread::{self, Orphan, OrphanHost};
use crate::record::Fiber;
use crate::unwinding::{CAN_UNWIND, unwind};

/// A fiber that moves to another kernel thread.
struct Sent(Fiber);

// SAFETY: only the receiver touches it afterwards.
unsafe impl Send for Sent {}

/// Moves an interrupted fiber to its own kernel thread, if one can be started. `let_go`
/// detaches it from its worker, and is called late: the code that starts the thread may have to
/// wait for what this fiber holds, and so may the thread itself when it starts.
pub(crate) fn move_to_thread(fiber: Fiber, let_go: impl FnOnce()) {
    let thread_pointer = match fiber.thread().control_block() {
        ControlBlock::ThreadPointer(thread_pointer) => thread_pointer,
        ControlBlock::KernelThread(thread) => {
            let_go();
            return thread.start_orphan();
        }
    };
    let sent = Sent(fiber);
    let events = Arc::new((Event::default(), Event::default()));
    let theirs = Arc::clone(&events);
    let run = move || {
        let Sent(fiber) = { sent };
        let (is_ready, is_let_go) = &*theirs;
        // From here on the thread does nothing for which it could wait for the fiber.
        is_ready.set();
        is_let_go.wait();
        // If that is refused, the thread has its share like any other.
        let _ = set_policy(Thread::current(), Policy::Idle);
        let host = OrphanHost { left: Cell::new(Context::default()), thread_pointer: arch::thread_pointer() };
        fiber.thread().become_orphan(Orphan::OnOtherThread(NonNull::from(&host)));
        // SAFETY: it was interrupted outside the runtime, or stopped while it entered it; its
        // worker does not use it any more, and it never goes back.
        unsafe { arch::switch(host.left.as_ptr(), Target { to: fiber.context.get(), thread_pointer }) };
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
                "rowlock_fiber: a fiber that reaches no safepoint stops with everything that it has locked, because there is no kernel thread for it: {why}"
            );
            let_go();
        }
    }
}

/// An orphaned fiber that calls what needs a runtime unwinds, or waits forever if it unwinds
/// already. Returns for other threads.
#[cold]
pub(crate) fn unwind_if_orphaned() {
    let Some(thread) = fiber_thread::current() else { return };
    // SAFETY: it is the calling fiber's.
    if !unsafe { thread.as_ref() }.can_unwind() || !CAN_UNWIND {
        wait_forever();
    }
    unwind()
}

/// An orphaned fiber waits for fibers that borrow from it. It is not told when they end.
#[cold]
pub(crate) fn wait_forever() -> ! {
    loop {
        park();
    }
}
