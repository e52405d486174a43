//! Kernel threads that take turns.
//!
//! Each has a stack of its own besides those of fibers, on which it waits for its turn. Who gives up the turn goes there first, and only from there tells the next one where
//! to go on. So whoever has the turn finds all fibers' stacks left, as it would on a single kernel thread, and may send any of these threads to any stack
//! of its fibers, or to a fresh one.
//!
//! Handing over is done in handlers, too: it takes system calls and atomic operations, and nothing of the C library's.

use std::cell::Cell;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, compiler_fence};
use std::sync::mpsc;
use std::thread::Builder;

use sys::futex::{self, Scope};
use sys::scheduling::{Policy, Thread, set_policy};

use crate::arch::{self, Context};
use crate::preempt::Ticks;
use crate::preemptible::PreemptibleFiber;
use crate::worker::Worker;

/// Where a kernel thread goes on.
#[derive(Clone, Copy)]
pub(crate) struct Handover {
    to: Context,
    /// As whom. None where nobody takes turns with it any more.
    worker: Option<NonNull<Worker>>,
}

impl Handover {
    pub(crate) fn of(worker: &Worker, to: Context) -> Handover {
        Handover { to, worker: Some(NonNull::from(worker)) }
    }
}

/// One of the kernel threads that take turns.
pub(crate) struct KernelThread {
    thread: Thread,
    /// How it is interrupted; the worker that it runs as is there while it does. None where it is a worker's own, which has its ticks itself.
    ticks: Option<Arc<Ticks>>,
    /// Whether it has the turn that is noted next: the futex at which it waits.
    has_turn: AtomicU32,
    turn: Cell<Handover>,
    /// Where its own stack was left, while it has the turn.
    own: Cell<Context>,
    /// Who is to have the turn when it is on its own stack.
    next: Cell<Option<(&'static KernelThread, Handover)>>,
}

// SAFETY: its cells are its own while it has the turn, and the turn is noted by the one who gives it, which happens before it is taken.
unsafe impl Send for KernelThread {}
// SAFETY: as above.
unsafe impl Sync for KernelThread {}

impl PartialEq for KernelThread {
    fn eq(&self, other: &KernelThread) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for KernelThread {}

impl std::fmt::Debug for KernelThread {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_tuple("KernelThread").field(&self.thread.number()).finish()
    }
}

/// How large a preemptible fiber's kernel thread's own stack is. What is called there is next to nothing, but it takes a tick, and has the program's thread-local variables.
const STACK: usize = 64 << 10;

impl KernelThread {
    /// The calling thread, which has the turn. It stays for ever, as who has handed over to it may be about to wake it later than it runs.
    fn of_this_thread(ticks: Option<Arc<Ticks>>, own: Context) -> &'static KernelThread {
        Box::leak(Box::new(KernelThread {
            thread: Thread::current(),
            ticks,
            has_turn: AtomicU32::new(0),
            turn: Cell::new(Handover { to: Context::NONE, worker: None }),
            own: Cell::new(own),
            next: Cell::new(None),
        }))
    }

    /// A worker's own. It is to wait on a stack of this top.
    ///
    /// # Safety
    /// The stack is nobody's for as long as the worker has preemptible fibers.
    pub(crate) unsafe fn of_worker(top: *mut u8) -> &'static KernelThread {
        // SAFETY: the caller's promise.
        KernelThread::of_this_thread(None, unsafe { arch::new_context(top, arch::Entrance::Wait) })
    }

    /// A new one, for a preemptible fiber at this address.
    pub(crate) fn start(preemptible: NonNull<PreemptibleFiber>) -> io::Result<&'static KernelThread> {
        /// What goes to the thread.
        struct Address(NonNull<PreemptibleFiber>);

        // SAFETY: it is the thread's own there.
        unsafe impl Send for Address {}

        let address = Address(preemptible);
        let (tell, told) = mpsc::sync_channel(1);
        let run = move || {
            let Address(preemptible) = { address };
            let ticks = Ticks::for_preemptible_thread();
            // For as long as the thread is there.
            let _alternate = crate::stack::overflow::watch();
            PreemptibleFiber::set_current(Some(preemptible));
            let made = ticks.map(|ticks| KernelThread::of_this_thread(Some(ticks), Context::NONE));
            let thread = made.as_ref().ok().copied();
            let _ = tell.send(made);
            drop(tell);
            if let Some(thread) = thread {
                // SAFETY: it is this one, on its own stack.
                unsafe { thread.run_turns() }
            }
        };
        Builder::new().name("rowlock-preempt".into()).stack_size(STACK).spawn(run)?;
        told.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    }

    /// This thread, which has the turn, is to give it to another one when it is on its own stack: that is where it has to go.
    pub(super) fn prepare_handover(&self, next: &'static KernelThread, turn: Handover) -> Context {
        self.next.set(Some((next, turn)));
        self.own.get()
    }

    /// Hands over the turn, if that is to be done, waits for the next one, and so on.
    ///
    /// # Safety
    /// It is the calling thread, on its own stack.
    pub(super) unsafe fn run_turns(&'static self) -> ! {
        loop {
            if let Some((next, turn)) = self.next.take() {
                self.hand_over(next, turn);
            }
            let turn = self.wait_for_turn();
            // SAFETY: a worker is there while its kernel threads take turns, and this is the one whose turn it is.
            if let Some(worker) = turn.worker.map(|worker| unsafe { &*worker.as_ptr() }) {
                worker.resume_on(self);
            }
            // SAFETY: the stack was left, or is fresh; it is one of this thread's, by who gave it the turn.
            unsafe { arch::switch(self.own.as_ptr(), turn.to) };
        }
    }

    /// Gives the turn away.
    fn hand_over(&self, next: &'static KernelThread, turn: Handover) {
        match (&self.ticks, turn.worker) {
            (Some(ticks), _) => ticks.detach(),
            // SAFETY: as it has the turn.
            (None, Some(worker)) => unsafe { worker.as_ref() }.forward_ticks_to(next),
            (None, None) => (),
        }
        compiler_fence(SeqCst);
        next.give_turn(turn);
    }

    /// It is its turn.
    fn give_turn(&self, turn: Handover) {
        self.turn.set(turn);
        self.has_turn.store(1, Release);
        futex::wake(&self.has_turn, 1, Scope::Process);
    }

    /// Waits for its turn.
    fn wait_for_turn(&self) -> Handover {
        while self.has_turn.load(Acquire) == 0 {
            futex::wait(&self.has_turn, 0, None, Scope::Process);
        }
        self.has_turn.store(0, Relaxed);
        self.turn.get()
    }

    /// Its ticks, where it is a preemptible fiber's.
    pub(crate) fn ticks(&self) -> Option<&Ticks> {
        self.ticks.as_deref()
    }

    /// Goes on at a stack of its own accord from now on, with the least claim to a CPU that there is, while the one who says so goes on as well.
    ///
    /// # Safety
    /// The stack is that of this thread's preemptible fiber, which was left, and of which its worker has let go.
    pub(crate) unsafe fn start_orphan(&self, to: Context) {
        // Where that is refused it has its share like any other thread.
        let _ = set_policy(self.thread, Policy::Idle);
        self.give_turn(Handover { to, worker: None });
    }

    /// Waits for ever, for who went away.
    ///
    /// # Safety
    /// It is the calling thread, and nothing that is on the stack that it is on will be missed.
    pub(crate) unsafe fn wait_forever(&self) -> ! {
        // SAFETY: its own stack was left when it went away, and has nobody to hand over to.
        unsafe { arch::leave(self.own.get()) }
    }
}
