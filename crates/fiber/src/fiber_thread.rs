//! The thread that a fiber is to all other code.
//!
//! All that belongs to a thread, as the language, the standard library and the C library see it, is
//! in its thread control block, at the thread pointer: thread-locals, `errno`, the allocator's
//! caches, the owner of a re-entrant lock, whether the thread panics. Each fiber has its own block,
//! which is in use while the fiber runs, wherever that is. So a fiber may be left wherever a thread
//! may lose its CPU, which is everywhere, and may continue on another kernel thread. See
//! [`soundness`](crate::soundness).
//!
//! The first fiber has the block of the thread that runs the runtime. Fibers that [share their
//! worker's thread-locals](crate::Builder::spawn_sharing) have the block of the worker's scheduler.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, compiler_fence};

use policy::feedback::ThreadShare;
use sys::tick::Interrupted;

use crate::arch::{self, Context, Target};
use crate::attraction::Attraction;
use crate::control_block::ControlBlock;
use crate::worker_pointer::WorkerPointer;

thread_local! {
    pub(crate) static HERE: Here = const { Here::new() };
}

/// The part of the state that is in the thread-locals of the fiber.
pub(crate) struct Here {
    /// The worker that runs the fiber. `None` for threads that run no fibers; while the fiber runs
    /// on a donated timeslice; and once it is orphaned.
    pub(crate) worker: Cell<Option<WorkerPointer>>,
    /// `None` for threads that run no fibers.
    pub(crate) thread: Cell<Option<NonNull<FiberThread>>>,
    /// The library works for it, or has switched away from it.
    pub(crate) in_runtime: AtomicBool,
    /// A tick came while it was in the runtime.
    pub(crate) missed_tick: AtomicBool,
}

impl Here {
    const fn new() -> Here {
        Here {
            worker: Cell::new(None),
            thread: Cell::new(None),
            in_runtime: AtomicBool::new(false),
            missed_tick: AtomicBool::new(false),
        }
    }
}

/// Where an orphaned fiber runs.
#[derive(Clone, Copy)]
pub(crate) enum Orphan {
    /// On a kernel thread that was started for it.
    OnOtherThread(NonNull<OrphanHost>),
    /// On its own kernel thread.
    OnOwnThread,
}

impl Orphan {
    /// Ends the kernel thread that was started for the calling fiber.
    ///
    /// # Safety
    /// Nothing on its stack is needed any more.
    pub(crate) unsafe fn end(self) -> ! {
        let Orphan::OnOtherThread(host) = self else { unreachable!("its own thread ends by itself") };
        // SAFETY: the host exists until its stack is resumed, which is now.
        unsafe { arch::leave(Target { to: host.as_ref().left.get(), thread_pointer: host.as_ref().thread_pointer }) }
    }
}

/// A kernel thread that was started for an orphaned fiber.
pub(crate) struct OrphanHost {
    /// The context of the thread's own stack.
    pub(crate) left: Cell<Context>,
    pub(crate) thread_pointer: usize,
}

/// The part of the state that other code touches as well. For fibers with blocks of their own it is
/// above the stack, and stays there for later fibers.
#[derive(Default)]
#[repr(C, align(16))]
pub(crate) struct FiberThread {
    /// The block that is in use while the fiber runs.
    control_block: Cell<ControlBlock>,
    here: Cell<Option<NonNull<Here>>>,
    /// It was interrupted outside the runtime, and is ready.
    pub(crate) was_interrupted: Cell<bool>,
    /// Its turn has been extended by one quantum because of the locks that it holds.
    pub(crate) has_extension: Cell<bool>,
    /// How many locks it holds.
    pub(crate) locks_held: Cell<u32>,
    /// How many ticks have found it since its runtime began to end.
    pub(crate) grace_ticks: Cell<u32>,
    /// Destructors of its thread-locals run, which must not unwind.
    pub(crate) is_ending: Cell<bool>,
    /// How many [guards](crate::pin) keep it on its kernel thread.
    pub(crate) pins: Cell<u32>,
    /// Its share in the feedback queue, while it moves from one worker to another.
    pub(crate) share: Cell<ThreadShare>,
    /// How it was last woken by another worker.
    pub(crate) attraction: Attraction,
    /// The worker that runs it on a donated timeslice.
    pub(crate) donor: Cell<Option<WorkerPointer>>,
    /// Its runtime is over, and it runs on its own kernel thread.
    pub(crate) orphan: Cell<Option<Orphan>>,
}

impl FiberThread {
    /// For a fiber with this block, whose thread-locals are here.
    pub(crate) fn new(control_block: ControlBlock, here: Option<NonNull<Here>>) -> FiberThread {
        FiberThread { control_block: Cell::new(control_block), here: Cell::new(here), ..FiberThread::default() }
    }

    /// Initializes the thread-locals of the calling thread for this fiber, and returns where they
    /// are. The fiber counts as in the runtime, because none has started there yet.
    pub(crate) fn settle(thread: NonNull<FiberThread>) -> NonNull<Here> {
        // Handlers may depend on whether the thread panics: this allocates what the query needs.
        let _ = std::thread::panicking();
        HERE.with(|here| {
            here.worker.set(None);
            here.thread.set(Some(thread));
            here.in_runtime.store(true, Relaxed);
            NonNull::from(here)
        })
    }

    /// The calling thread becomes one that runs no fibers.
    pub(crate) fn leave_for_good() {
        HERE.with(|here| {
            here.worker.set(None);
            here.thread.set(None);
            here.missed_tick.store(false, Relaxed);
            compiler_fence(SeqCst);
            here.in_runtime.store(false, Relaxed);
        });
    }

    /// Sets the first fiber's thread-locals, which are the calling thread's.
    pub(crate) fn adopt(&self) {
        self.here.set(Some(FiberThread::settle(NonNull::from(self))));
    }

    /// Sets the block of the calling thread, for the first fiber.
    pub(crate) fn set_control_block(&self, block: ControlBlock) {
        self.control_block.set(block);
    }

    #[inline(always)]
    pub(crate) fn control_block(&self) -> ControlBlock {
        self.control_block.get()
    }

    #[inline(always)]
    fn here(&self) -> &Here {
        match self.here.get() {
            // SAFETY: a fiber's thread-locals exist as long as its block, which is as long as this.
            Some(here) => unsafe { here.as_ref() },
            None => unreachable!("it was set when the fiber got its thread"),
        }
    }

    /// Prepares for another fiber to start here.
    pub(crate) fn prepare_for(&self, worker: WorkerPointer) {
        let here = self.here();
        here.worker.set(Some(worker));
        here.missed_tick.store(false, Relaxed);
        self.pins.set(0);
        self.locks_held.set(0);
        self.has_extension.set(false);
        self.grace_ticks.set(0);
    }

    /// Ends the thread, for its fiber, which has run its function: the destructors of thread-locals
    /// run. Then it is new, for the next fiber.
    #[inline(always)]
    pub(crate) fn end(&self) {
        let here = std::ptr::from_ref(self.here()).addr();
        self.is_ending.set(true);
        // SAFETY: the thread belongs to the fiber, whose function has ended, and what the library
        // has borrowed is kept. With a sanitizer, fibers have kernel threads, and do not get here.
        unsafe { sys::thread_end::end(here..here + size_of::<Here>()) };
        self.is_ending.set(false);
    }

    /// Whether its fiber, which calls this, may unwind.
    #[inline(always)]
    pub(crate) fn can_unwind(&self) -> bool {
        !self.is_ending.get() && !std::thread::panicking()
    }

    /// The fiber, which is in the runtime, is about to run in its own turn.
    pub(crate) fn take_turn(&self, worker: WorkerPointer) {
        self.donor.set(None);
        self.here().worker.set(Some(worker));
    }

    /// The fiber, which is in the runtime, is about to run on a timeslice that another one donates.
    pub(crate) fn take_donation(&self, worker: WorkerPointer) {
        self.donor.set(Some(worker));
        self.here().worker.set(None);
    }

    /// Enters the runtime from a handler. Returns false if the fiber is in the runtime already, and
    /// so must not be interrupted.
    pub(crate) fn try_enter_runtime(&self) -> bool {
        !self.here().in_runtime.swap(true, Relaxed)
    }

    /// The worker that runs it, in its own turn or on a donated timeslice.
    pub(crate) fn runs_on(&self) -> Option<WorkerPointer> {
        self.here().worker.get().or(self.donor.get()).filter(|_| self.orphan.get().is_none())
    }

    /// Continues after an interruption.
    pub(crate) fn resume_after(&self, interrupted: &Interrupted) {
        if let Some(Orphan::OnOtherThread(_)) = self.orphan.get() {
            // It was interrupted on another kernel thread, to which the alternate stack belongs.
            interrupted.disable_alternate_stack();
        }
        compiler_fence(SeqCst);
        self.here().in_runtime.store(false, Relaxed);
    }

    /// Notes that a tick came while the fiber was in the runtime.
    pub(crate) fn note_missed_tick(&self) {
        self.here().missed_tick.store(true, Relaxed);
    }

    /// Detaches it from its worker.
    pub(crate) fn become_orphan(&self, orphan: Orphan) {
        self.orphan.set(Some(orphan));
        self.here().worker.set(None);
    }
}

/// The state of the calling fiber. `None` for other threads.
pub(crate) fn current() -> Option<NonNull<FiberThread>> {
    HERE.with(|here| here.thread.get())
}

/// Whether the caller is a fiber outside of the runtime, in its own turn.
#[cfg(interposed)]
#[inline(always)]
pub(crate) fn is_outside_runtime() -> bool {
    HERE.with(|here| here.worker.get().is_some() && !here.in_runtime.load(Relaxed))
}

/// An address that belongs to the calling thread as long as it exists. A multiple of 8.
#[inline(always)]
pub(crate) fn address() -> usize {
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

/// The worker of the calling fiber, for a caller that is in the runtime, or only reads.
#[inline(always)]
pub(crate) fn worker() -> Option<WorkerPointer> {
    HERE.with(|here| here.worker.get())
}
