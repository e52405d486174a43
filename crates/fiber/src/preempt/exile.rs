//! What becomes of a guest that never comes to a point, when its runtime ends: it goes on as a kernel thread.
//!
//! A fiber that is left is told that its runtime ends where it next waits, and unwinds from there. One in an endless loop never does, and it cannot be
//! unwound from wherever it happens to be, nor just be left there: it may have a lock that the whole process needs, the allocator's for instance. So a kernel thread is made that
//! goes on with it, with the least claim to a CPU that there is; or its own does, where it has one. That is sound since a guest has a thread control block of its own: which
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
use crate::block::Block;
use crate::guest::Guest;
use crate::record::Fiber;

/// Where a guest is that was sent away.
#[derive(Clone, Copy)]
pub(crate) enum Exile {
    /// On a kernel thread that was made for it.
    Elsewhere(NonNull<Host>),
    /// On its own kernel thread.
    AtHome,
}

/// A kernel thread that goes on with a guest.
pub(crate) struct Host {
    /// Where it was left for the guest.
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
    fn comes(&self) {
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

/// Sends a guest away that was interrupted, if there is a kernel thread for it. Its worker lets go of it no sooner than it is asked to: what makes a kernel thread
/// may have to wait for what this one has, and so may the thread itself when it begins.
pub(crate) fn send(fiber: Fiber, lets_go: impl FnOnce()) {
    let Some(guest) = fiber.guest() else { return lets_go() };
    let thread_pointer = match guest.block() {
        Block::Pointer(thread_pointer) => thread_pointer,
        Block::Thread(thread) => {
            lets_go();
            guest.goes_into_exile(Exile::AtHome);
            // SAFETY: it was interrupted outside, or has stopped as it came inside; its worker has let go of it.
            unsafe { thread.goes_away(fiber.context.get()) };
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
        is_ready.comes();
        is_let_go.wait();
        // Where that is refused it has its share like any other thread.
        let _ = set_policy(Thread::current(), Policy::Idle);
        let Some(guest) = fiber.guest() else { return };
        let host = Host { left: Cell::new(Context::NONE), thread_pointer: arch::thread_pointer() };
        guest.goes_into_exile(Exile::Elsewhere(NonNull::from(&host)));
        // SAFETY: it was interrupted outside, or has stopped as it came inside; its worker has let go of it, and it never goes back.
        unsafe { arch::switch_block(host.left.as_ptr(), fiber.context.get(), thread_pointer) };
    };
    let (is_ready, is_let_go) = &*events;
    match Builder::new().name("rowlock-exile".into()).spawn(run) {
        Ok(_) => {
            is_ready.wait();
            lets_go();
            is_let_go.comes();
        }
        Err(why) => {
            let _ = writeln!(
                stderr(),
                "rowlock_fiber: a fiber that comes to no point stands still with all that it has locked, since there is no kernel thread to go on with it: {why}"
            );
            lets_go();
        }
    }
}

/// An exile has come to what it cannot do.
#[cold]
pub(crate) fn unwind() -> ! {
    if std::thread::panicking() || !crate::ending::CAN_UNWIND {
        wait_for_ever();
    }
    crate::ending::unwind()
}

/// An exile has come to where it must not go on before others have ended, of which it does not hear any more: those who borrow from it.
#[cold]
pub(crate) fn wait_for_ever() -> ! {
    loop {
        park();
    }
}

/// An exile has ended: so does its kernel thread, or it waits for ever where it was its own.
///
/// # Safety
/// It is this guest's fiber that asks, and nothing that is on its stack will be missed.
pub(crate) unsafe fn end(guest: &Guest, exile: Exile) -> ! {
    // SAFETY: the host stays until it is gone back to, which is now; and a thread at home is the calling one.
    unsafe {
        match (exile, guest.block()) {
            (Exile::Elsewhere(host), _) => arch::leave_block(host.as_ref().left.get(), host.as_ref().thread_pointer),
            (Exile::AtHome, Block::Thread(thread)) => thread.ends(),
            (Exile::AtHome, Block::Pointer(_)) => unreachable!("it was sent to another kernel thread"),
        }
    }
}
