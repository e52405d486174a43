//! Kernel threads that take turns.
//!
//! Each has its own stack besides those of fibers, and waits for its turn there. A thread that
//! gives up the turn switches to that stack first, and only then tells the next thread where to
//! continue. So the thread that has the turn finds that all stacks of fibers have been left, as on
//! a single kernel thread. It may send any of these threads to any stack of its fibers, or to a new
//! one.
//!
//! Signal handlers hand over the turn, too: that takes system calls and atomic operations, and
//! nothing of the C library.

use std::cell::Cell;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, compiler_fence};
use std::thread::Builder;

use sys::fault::AlternateStack;
use sys::futex::{self, Scope};
use sys::scheduling::{Policy, Thread, set_policy};

use crate::arch::{self, Begin, Context};
use crate::event::Event;
use crate::fiber_thread::{FiberThread, Here};
use crate::preempt::ticks::Ticks;
use crate::worker_pointer::WorkerPointer;

/// Where a kernel thread continues.
#[derive(Clone, Copy)]
pub(crate) struct Handover {
    to: Context,
    /// The worker as which it runs. `None` if no other thread takes turns with it any more.
    worker: Option<(WorkerPointer, TurnChange)>,
}

impl Handover {
    pub(crate) fn of(worker: WorkerPointer, change: TurnChange, to: Context) -> Handover {
        Handover { to, worker: Some((worker, change)) }
    }
}

/// What a worker does when its turn passes to this kernel thread.
#[derive(Clone, Copy)]
pub(crate) struct TurnChange {
    /// On its own thread, before another one has the turn.
    pub(crate) before: fn(WorkerPointer, &'static KernelThread),
    /// On the thread that has the turn.
    pub(crate) after: fn(WorkerPointer, &'static KernelThread),
}

/// A kernel thread that takes turns.
pub(crate) struct KernelThread {
    thread: Thread,
    /// How it is interrupted. While it runs, its worker is noted there. `None` for a worker's own
    /// thread, whose worker has the ticks.
    ticks: Option<Arc<Ticks>>,
    /// Whether it has been given the turn in `turn`: the futex at which it waits.
    has_turn: AtomicU32,
    turn: Cell<Handover>,
    /// The context of its own stack, while it has the turn.
    own: Cell<Context>,
    /// The thread to which it gives the turn when it is on its own stack.
    next: Cell<Option<(&'static KernelThread, Handover)>>,
}

// SAFETY: only the thread that has the turn touches its cells. The turn is written by the thread
// that gives it, which happens before it is taken.
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

/// The size of the own stack of a fiber's kernel thread. Hardly anything is called
/// there, but the stack must hold the frame of a tick and the program's thread-local variables.
const STACK: usize = 64 << 10;

/// A thread that was started, and where its thread-locals are.
type Started = io::Result<(&'static KernelThread, NonNull<Here>)>;

impl KernelThread {
    /// The calling thread, which has the turn. It is never freed: a thread that has handed over the
    /// turn to it may be about to wake it when it already runs.
    fn of_this_thread(ticks: Option<Arc<Ticks>>, own: Context) -> &'static KernelThread {
        Box::leak(Box::new(KernelThread {
            thread: Thread::current(),
            ticks,
            has_turn: AtomicU32::new(0),
            turn: Cell::new(Handover { to: Context::default(), worker: None }),
            own: Cell::new(own),
            next: Cell::new(None),
        }))
    }

    /// A worker's own thread. It waits on a stack with this top, in this function.
    ///
    /// # Safety
    /// Nothing else uses the stack as long as the worker exists.
    pub(crate) unsafe fn of_worker(top: *mut u8, wait: Begin) -> &'static KernelThread {
        // SAFETY: the caller's promise.
        KernelThread::of_this_thread(None, unsafe { arch::new_context(top, wait) })
    }

    /// Starts a thread for fibers with this state.
    pub(crate) fn start(fibers: NonNull<FiberThread>) -> Started {
        /// What the thread needs, and its answer.
        struct Start {
            fibers: NonNull<FiberThread>,
            made: Cell<Option<Started>>,
            has_answered: Event,
        }

        // SAFETY: the state of the fibers goes to the thread.
        unsafe impl Send for Start {}
        // SAFETY: only the thread touches the answer before the event, and only the caller
        // afterwards.
        unsafe impl Sync for Start {}

        let start = Arc::new(Start { fibers, made: Cell::new(None), has_answered: Event::default() });
        let theirs = Arc::clone(&start);
        let run = move || {
            let ticks = Ticks::for_fiber_thread();
            // It stays in place as long as the thread exists.
            let _alternate = AlternateStack::for_this_thread();
            let here = FiberThread::settle(theirs.fibers);
            let made = ticks.map(|ticks| (KernelThread::of_this_thread(Some(ticks), Context::default()), here));
            let thread = made.as_ref().ok().map(|made| made.0);
            theirs.made.set(Some(made));
            theirs.has_answered.set();
            // It lasts as long as the thread, which never ends. The thread sanitizer does not see
            // that the last owner of an `Arc` is the last one.
            std::mem::forget(theirs);
            if let Some(thread) = thread {
                // SAFETY: this is the calling thread, on its own stack.
                unsafe { thread.run_turns() }
            }
        };
        Builder::new().name("rowlock-fiber".into()).stack_size(STACK).spawn(run)?;
        start.has_answered.wait();
        start.made.take().unwrap_or_else(|| Err(io::ErrorKind::Other.into()))
    }

    /// Prepares this thread, which has the turn, to hand it over as soon as it is on its own stack.
    /// Returns the context of that stack.
    pub(crate) fn prepare_handover(&self, next: &'static KernelThread, turn: Handover) -> Context {
        self.next.set(Some((next, turn)));
        self.own.get()
    }

    /// Hands over the turn if that is due, waits for the next turn, and so on.
    ///
    /// # Safety
    /// This is the calling thread, on its own stack.
    pub(crate) unsafe fn run_turns(&'static self) -> ! {
        loop {
            if let Some((next, turn)) = self.next.take() {
                self.hand_over(next, turn);
            }
            let turn = self.wait_for_turn();
            if let Some((worker, change)) = turn.worker {
                (change.after)(worker, self);
            }
            // SAFETY: the stack was left, or is new; the thread that gave the turn has chosen it
            // among this thread's stacks.
            unsafe { arch::switch(self.own.as_ptr(), turn.to) };
        }
    }

    /// Gives the turn to another thread.
    fn hand_over(&self, next: &'static KernelThread, turn: Handover) {
        match (&self.ticks, turn.worker) {
            (Some(ticks), _) => ticks.detach(),
            (None, Some((worker, change))) => (change.before)(worker, next),
            (None, None) => (),
        }
        compiler_fence(SeqCst);
        next.give_turn(turn);
    }

    /// Gives this thread the turn.
    fn give_turn(&self, turn: Handover) {
        self.turn.set(turn);
        self.has_turn.store(1, Release);
        futex::wake(&self.has_turn, 1, Scope::Process);
    }

    /// Waits for the turn.
    fn wait_for_turn(&self) -> Handover {
        while self.has_turn.load(Acquire) == 0 {
            futex::wait(&self.has_turn, 0, None, Scope::Process);
        }
        self.has_turn.store(0, Relaxed);
        self.turn.get()
    }

    /// Its ticks, if it is a fiber's thread.
    pub(crate) fn ticks(&self) -> Option<&Ticks> {
        self.ticks.as_deref()
    }

    /// Lets the thread continue at a stack on its own and at the lowest priority, while the caller
    /// continues as well.
    ///
    /// # Safety
    /// The stack is that of this thread's fiber. It was left, and its worker does not
    /// use it any more.
    pub(crate) unsafe fn start_orphan(&self, to: Context) {
        // If that is refused, the thread has its share like any other.
        let _ = set_policy(self.thread, Policy::Idle);
        self.give_turn(Handover { to, worker: None });
    }

    /// Waits forever, after the thread's orphaned fiber has ended.
    ///
    /// # Safety
    /// This is the calling thread, and nothing on its current stack is needed any more.
    pub(crate) unsafe fn wait_forever(&self) -> ! {
        // SAFETY: its own stack was left when the fiber was orphaned, and it has no turn to hand
        // over.
        unsafe { arch::leave(self.own.get()) }
    }
}
