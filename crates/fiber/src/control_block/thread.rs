//! Kernel threads that take turns, for fibers that have one each.
//!
//! Such a fiber *is* its kernel thread: it runs on the thread's own stack, from its start to its
//! end. So all that anything knows of a thread holds for it. To switch is to give the turn to
//! another thread and to wait for the own one, in place, even in a signal handler: that takes
//! system calls and atomic operations, and nothing of the C library. See
//! [`turns`](crate::turns) for what a worker does with them.

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};

use sys::fault::AlternateStack;
use sys::futex::{self, Scope};
use sys::native_thread::{NativeThread, call_at_end, stack_of_this_thread};
use sys::reservation::page_size;
use sys::scheduling::{Policy, Thread, set_policy};

use crate::control_block::ControlBlock;
use crate::fiber_thread::{self, FiberThread, Orphan};
use crate::preempt::ticks::Ticks;
use crate::worker_pointer::WorkerPointer;

// The values of a turn. The thread has:
/// no turn yet, because it is starting;
const STARTING: u32 = 0;
/// no turn, and never will, because it could not start, or has ended;
const NEVER: u32 = 1;
/// no turn: it waits for it;
const WAITS: u32 = 2;
/// the turn;
const RUNS: u32 = 3;
/// no turn any more: it continues without a worker, or ends if it has no fiber.
const ALONE: u32 = 4;

/// A kernel thread that takes turns; see the module.
pub(crate) struct KernelThread {
    /// The futex at which it waits for its turn.
    turn: AtomicU32,
    handle: Cell<Option<NativeThread>>,
    // These are set while it starts.
    thread: Cell<Option<Thread>>,
    stack: Cell<(usize, usize)>,
    /// How it is interrupted. `None` for a worker's own thread, whose worker has the ticks.
    ticks: Cell<Option<NonNull<Ticks>>>,
    why_failed: Cell<Option<io::Error>>,
    /// The thread that it starts in its turn, if it is a starter.
    order: Cell<Option<(&'static KernelThread, Order)>>,
    /// The state of its fiber.
    pub(crate) state: FiberThread,
}

/// How a thread is started.
#[derive(Clone, Copy)]
pub(crate) struct Order {
    pub(crate) worker: WorkerPointer,
    /// How much stack it has at least.
    pub(crate) bytes: usize,
    /// The function that it calls in its first turn,
    pub(crate) run: fn(&'static KernelThread),
    /// and the one that it calls when nothing else of it runs any more.
    pub(crate) end: fn(),
}

// SAFETY: only the thread that has the turn touches the cells, and the thread itself while it
// starts, before it can get the turn. A thread that a starter has in hand is awaited.
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
        to.debug_tuple("KernelThread").field(&self.thread.get().map(Thread::number)).finish()
    }
}

/// The kernel threads of a worker whose fibers have some.
#[derive(Default)]
pub(crate) struct Threads {
    /// The one that has the turn.
    pub(crate) runs_on: Cell<Option<&'static KernelThread>>,
    pub(crate) scheduler: Cell<Option<&'static KernelThread>>,
    /// Starts others.
    pub(crate) starter: Cell<Option<&'static KernelThread>>,
    /// For a fiber that cannot get one, and drops its function.
    pub(crate) spare: Cell<Option<&'static KernelThread>>,
    /// That of a fiber that has ended, until the scheduler has joined it.
    pub(crate) ended: Cell<Option<&'static KernelThread>>,
}

/// Threads that have ended, to be reused for others. They are never freed: a thread that has given
/// the turn to one may be about to wake it when that has already ended.
static FREE: Mutex<Vec<&'static KernelThread>> = Mutex::new(Vec::new());

/// How much is above the first frame of a thread. 0 until the first one has started.
static ABOVE: AtomicUsize = AtomicUsize::new(0);

impl KernelThread {
    fn new() -> &'static KernelThread {
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let new = free.unwrap_or_else(|| {
            Box::leak(Box::new(KernelThread {
                turn: AtomicU32::new(NEVER),
                handle: Cell::new(None),
                thread: Cell::new(None),
                stack: Cell::new((0, 0)),
                ticks: Cell::new(None),
                why_failed: Cell::new(None),
                order: Cell::new(None),
                state: FiberThread::new(ControlBlock::NONE, None),
            }))
        });
        new.turn.swap(STARTING, Acquire);
        new.state.set_control_block(ControlBlock::KernelThread(new));
        new
    }

    /// The calling thread, which is a worker's own, and has the turn.
    pub(crate) fn of_worker() -> &'static KernelThread {
        let new = KernelThread::new();
        new.thread.set(Some(Thread::current()));
        new.turn.store(RUNS, Relaxed);
        new
    }

    /// Starts a thread.
    pub(crate) fn start(order: Order) -> io::Result<&'static KernelThread> {
        let new = KernelThread::new();
        new.launch(order);
        new.await_start(order.worker)
    }

    /// Starts a thread that inherits from this one, a [starter](KernelThread::start_others), what
    /// the kernel keeps for a thread.
    pub(crate) fn let_start(&self, order: Order) -> io::Result<&'static KernelThread> {
        let new = KernelThread::new();
        self.order.set(Some((new, order)));
        self.give_turn();
        self.wait_while(RUNS);
        new.await_start(order.worker)
    }

    /// Runs in a starter: starts threads.
    pub(crate) fn start_others(&'static self) {
        loop {
            self.order.take().into_iter().for_each(|(new, order)| new.launch(order));
            self.set_turn(WAITS);
            if !self.wait_for_turn() {
                return FiberThread::leave_for_good();
            }
        }
    }

    /// Starts the thread. The calling thread does not wait until it runs.
    fn launch(&'static self, order: Order) {
        let first = move || {
            // A name for debuggers.
            let _ = rustix::thread::set_name(c"rowlock-fiber");
            // It stays in place until the destructors run.
            let _alternate = AlternateStack::for_this_thread();
            let settled = self.settle(order.end);
            let turn = if settled.is_ok() { WAITS } else { NEVER };
            self.why_failed.set(settled.err());
            self.set_turn(turn);
            if turn == WAITS && self.wait_for_turn() {
                (order.run)(self);
            } else {
                FiberThread::leave_for_good();
            }
        };
        // In addition to what the fiber uses: thread-locals and what the C library needs, the
        // guard, and what the kernel saves at an interruption.
        let more = ABOVE.load(Relaxed) + page_size() + sys::tick::signal_frame_size();
        match NativeThread::start(order.bytes + more, first) {
            Ok(handle) => self.handle.set(Some(handle)),
            Err(why) => {
                self.why_failed.set(Some(why));
                self.turn.store(NEVER, Release);
            }
        }
    }

    /// Waits until the thread has started.
    fn await_start(&'static self, worker: WorkerPointer) -> io::Result<&'static KernelThread> {
        self.wait_while(STARTING);
        if let Some(why) = self.why_failed.take() {
            self.join();
            return Err(why);
        }
        self.state.prepare_for(worker);
        Ok(self)
    }

    /// Sets what belongs to the calling thread, which is starting.
    fn settle(&'static self, end: fn()) -> io::Result<()> {
        let (stack, here) = (stack_of_this_thread()?, 0_u8);
        ABOVE.fetch_max(stack.end - (&raw const here).addr(), Relaxed);
        self.thread.set(Some(Thread::current()));
        self.stack.set((stack.start, stack.end));
        call_at_end(end)?;
        let ticks = Ticks::for_fiber_thread()?;
        self.ticks.set(NonNull::new(Arc::into_raw(ticks).cast_mut()));
        self.state.adopt();
        Ok(())
    }

    /// Waits until the thread, which ends, is gone.
    pub(crate) fn join(&'static self) {
        self.handle.take().into_iter().for_each(NativeThread::join);
        self.free();
    }

    /// Frees what belongs to the thread, of which nothing runs any more, and lets another one reuse
    /// the rest.
    fn free(&'static self) {
        if let Some(ticks) = self.ticks.take() {
            // SAFETY: they come from `Arc::into_raw`, and nothing runs on the thread to which they
            // belong.
            drop(unsafe { Arc::from_raw(ticks.as_ptr()) });
        }
        self.turn.store(NEVER, Release);
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }

    fn set_turn(&self, turn: u32) {
        let order = if cfg!(rowlock_canary = "a-turn-is-given-relaxed") { Relaxed } else { Release };
        self.turn.store(turn, order);
        futex::wake(&self.turn, 1, Scope::Process);
    }

    fn wait_while(&self, turn: u32) {
        while self.turn.load(Acquire) == turn {
            futex::wait(&self.turn, turn, None, Scope::Process);
        }
    }

    /// Waits until the calling thread, which is this one, gets the turn. Returns false if it is
    /// alone instead.
    fn wait_for_turn(&self) -> bool {
        self.wait_while(WAITS);
        self.turn.load(Relaxed) == RUNS
    }

    /// Gives this thread the turn.
    pub(crate) fn give_turn(&self) {
        self.set_turn(RUNS);
    }

    /// Gives the turn of this thread, the calling one, to another one, and waits for the next.
    /// Returns false if it is alone instead.
    pub(crate) fn exchange_turn(&self, next: &KernelThread) -> bool {
        self.turn.store(WAITS, Relaxed);
        next.give_turn();
        self.wait_for_turn()
    }

    /// Its stack, if it is not a worker's own thread.
    pub(crate) fn stack(&self) -> Range<usize> {
        let (low, top) = self.stack.get();
        low..top
    }

    /// Its ticks, if it is not a worker's own thread.
    pub(crate) fn ticks(&self) -> Option<&Ticks> {
        // SAFETY: it has a share of them until it has ended.
        self.ticks.get().map(|ticks| unsafe { ticks.as_ref() })
    }

    /// Lets the thread, which waits for its turn and has no fiber, end.
    pub(crate) fn end(&'static self) {
        self.set_turn(ALONE);
        self.join();
    }

    /// Lets the thread continue at the lowest priority with its fiber, which has become an orphan,
    /// while the caller continues as well.
    pub(crate) fn start_orphan(&self) {
        drop(self.handle.take());
        if let Some(thread) = self.thread.get() {
            // If that is refused, the thread has its share like any other.
            let _ = set_policy(thread, Policy::Idle);
        }
        self.state.become_orphan(Orphan::OnOwnThread);
        self.set_turn(ALONE);
    }

    /// The calling thread, if its fiber is an orphan.
    pub(crate) fn of_orphan() -> Option<&'static KernelThread> {
        // SAFETY: it is the calling thread's.
        unsafe { fiber_thread::current()?.as_ref() }.control_block().thread()
    }

    /// Ends the orphan of this thread, the calling one, of which nothing else runs any more.
    pub(crate) fn end_orphan(&'static self) {
        FiberThread::leave_for_good();
        self.state.is_ending.set(false);
        self.state.donor.set(None);
        self.state.orphan.set(None);
        self.free();
    }
}
