//! *Preemptible fibers* may be interrupted anywhere: each has its own thread control block, or
//! a [kernel thread](crate::control_block).
//!
//! All that belongs to a kernel thread, as the language, the standard library and the C library see
//! it, is in the thread control block at the thread pointer: thread-locals, `errno`, the
//! allocator's caches, the owner of a re-entrant lock, whether the thread panics. A preemptible
//! fiber has its own block, which is in use while the fiber runs. To all code there it is a
//! kernel thread, so it may be interrupted wherever a kernel thread may be. See
//! [`soundness`](crate::soundness).
//!
//! # In the runtime and outside
//! No other fiber may interrupt what the library itself does with its worker. A preemptible fiber
//! is *in the runtime* from its call of the library until that returns. A tick that comes meanwhile
//! sets `missed_tick`, and a fiber that leaves the runtime checks this flag. That costs a few
//! stores, and no system call.
//!
//! Only the fiber writes the flag `in_runtime`, on its own kernel thread, and a handler that
//! interrupts this thread reads it. Each sees what the other did before, as long as the compiler
//! keeps the order of the program, which fences ensure. A fiber that leaves the runtime first
//! clears `in_runtime` and then checks `missed_tick`. A tick before that finds `in_runtime` set,
//! and sets `missed_tick` in time. A tick after that finds `in_runtime` cleared, and may interrupt
//! the fiber. The model explores all interleavings.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, compiler_fence};

use sys::tick::Interrupted;

use crate::control_block::ControlBlock;
use crate::current_worker::{CurrentWorker, HERE};
use crate::preempt::orphan::Orphan;
use crate::worker::Worker;

thread_local! {
    /// In the block of a preemptible fiber's stack: the fiber.
    static PREEMPTIBLE: Cell<Option<NonNull<PreemptibleFiber>>> = const { Cell::new(None) };
}

/// The state of a preemptible fiber. It is above the fiber's stack, and below its thread control
/// block if it has no kernel thread. Successive fibers on that stack use it.
#[repr(C, align(16))]
pub(crate) struct PreemptibleFiber {
    /// The block that is in use while it runs.
    control_block: ControlBlock,
    /// `None` if it is orphaned.
    worker: Cell<Option<NonNull<Worker>>>,
    /// The library works for it, or has switched away from it.
    in_runtime: AtomicBool,
    /// A tick came while it was in the runtime.
    missed_tick: AtomicBool,
    /// It was interrupted outside the runtime, and is ready.
    pub(crate) was_interrupted: Cell<bool>,
    /// How many locks it holds.
    pub(crate) locks_held: Cell<u32>,
    /// Its turn has been extended by one quantum because of these locks.
    pub(crate) has_extension: Cell<bool>,
    /// How many ticks have found it since its runtime began to end.
    pub(crate) grace_ticks: Cell<u32>,
    /// Its runtime is over, and it runs on its own kernel thread.
    pub(crate) orphan: Cell<Option<Orphan>>,
}

impl PreemptibleFiber {
    /// A fiber that is in the runtime, because none has started there yet.
    pub(crate) fn new(control_block: ControlBlock) -> PreemptibleFiber {
        PreemptibleFiber {
            control_block,
            worker: Cell::new(None),
            in_runtime: AtomicBool::new(true),
            missed_tick: AtomicBool::new(false),
            was_interrupted: Cell::new(false),
            locks_held: Cell::new(0),
            has_extension: Cell::new(false),
            grace_ticks: Cell::new(0),
            orphan: Cell::new(None),
        }
    }

    /// Sets the preemptible fiber to which the block in use belongs.
    pub(crate) fn set_current(preemptible: Option<NonNull<PreemptibleFiber>>) {
        PREEMPTIBLE.set(preemptible);
        HERE.set(None);
        // Handlers may depend on whether the thread panics: this allocates what the query needs.
        let _ = std::thread::panicking();
    }

    #[inline(always)]
    pub(crate) fn control_block(&self) -> ControlBlock {
        self.control_block
    }

    /// Prepares for another fiber to start here.
    pub(crate) fn prepare_for(&self, worker: &Worker) {
        self.worker.set(Some(NonNull::from(worker)));
        self.missed_tick.store(false, Relaxed);
        self.locks_held.set(0);
        self.has_extension.set(false);
        self.grace_ticks.set(0);
    }

    /// Enters the runtime from a handler. Returns false if the fiber is in the runtime already, and
    /// so must not be interrupted.
    pub(crate) fn try_enter_runtime(&self) -> bool {
        !self.in_runtime.swap(true, Relaxed)
    }

    /// Continues after an interruption.
    pub(crate) fn resume_after(&self, interrupted: &Interrupted) {
        if let Some(Orphan::OnOtherThread(_)) = self.orphan.get() {
            // It was interrupted on another kernel thread, to which the alternate stack belongs.
            interrupted.disable_alternate_stack();
        }
        compiler_fence(SeqCst);
        self.in_runtime.store(false, Relaxed);
    }

    /// Notes that a tick came while the fiber was in the runtime.
    pub(crate) fn note_missed_tick(&self) {
        self.missed_tick.store(true, Relaxed);
    }

    /// Detaches it from its worker.
    pub(crate) fn become_orphan(&self, orphan: Orphan) {
        self.orphan.set(Some(orphan));
        self.worker.set(None);
    }

    /// Enters the runtime. Returns the worker, or `None` if the fiber is orphaned.
    #[inline(always)]
    fn enter_runtime(&self) -> Option<NonNull<Worker>> {
        self.in_runtime.store(true, Relaxed);
        compiler_fence(SeqCst);
        // Not earlier: before the flag is set, the fiber may be interrupted and orphaned.
        let worker = self.worker.get()?;
        HERE.set(Some(worker));
        // SAFETY: the worker of a fiber that is not orphaned exists.
        if unsafe { worker.as_ref() }.is_donating() { self.enter_runtime_after_donation(worker) } else { Some(worker) }
    }

    /// Enters the runtime after the fiber that donated its timeslice to this one has continued.
    #[cold]
    #[inline(never)]
    fn enter_runtime_after_donation(&self, worker: NonNull<Worker>) -> Option<NonNull<Worker>> {
        // SAFETY: as above. If the fiber is orphaned meanwhile, the worker is not used again.
        unsafe { worker.as_ref() }.wait_for_donor(self);
        let worker = self.worker.get();
        if worker.is_none() {
            HERE.set(None);
        }
        worker
    }

    /// Leaves the runtime of this worker.
    #[inline(always)]
    fn leave_runtime(&self, worker: NonNull<Worker>) {
        if self.clear_in_runtime(worker) {
            self.handle_missed_ticks();
        }
    }

    /// Clears `in_runtime`. Returns whether a tick was missed.
    #[inline(always)]
    fn clear_in_runtime(&self, worker: NonNull<Worker>) -> bool {
        // SAFETY: it is the worker of this fiber, which is in the runtime and so not orphaned.
        unsafe { worker.as_ref() }.start_ticks_if_needed();
        HERE.set(None);
        compiler_fence(SeqCst);
        self.in_runtime.store(false, Relaxed);
        compiler_fence(SeqCst);
        self.missed_tick.load(Relaxed)
    }

    /// Enters the runtime again to do what a missed tick would have done.
    #[cold]
    #[inline(never)]
    fn handle_missed_ticks(&self) {
        while let Some(worker) = self.enter_runtime() {
            self.missed_tick.store(false, Relaxed);
            // SAFETY: the fiber has just entered the runtime.
            unsafe { worker.as_ref() }.handle_missed_tick();
            if !self.clear_in_runtime(worker) {
                return;
            }
        }
    }

    /// Runs the fiber's own code outside the runtime, and returns into it.
    #[inline(always)]
    pub(crate) fn run_outside(&self, run: impl FnOnce()) {
        if let Some(worker) = self.worker.get() {
            self.leave_runtime(worker);
        }
        run();
        self.enter_runtime();
    }
}

/// Keeps a preemptible fiber in the runtime until it is dropped.
pub(crate) struct InRuntime {
    preemptible: NonNull<PreemptibleFiber>,
    worker: NonNull<Worker>,
}

impl InRuntime {
    #[inline(always)]
    pub(crate) fn here(&self) -> CurrentWorker {
        // SAFETY: it is the worker of the fiber that runs here.
        unsafe { CurrentWorker::of(self.worker, true) }
    }
}

impl Drop for InRuntime {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: it is the fiber that runs here.
        unsafe { self.preemptible.as_ref() }.leave_runtime(self.worker);
    }
}

/// Lets the calling preemptible fiber enter the runtime. `None` if the caller is not one, or is
/// orphaned.
#[inline(always)]
pub(crate) fn enter_runtime() -> Option<InRuntime> {
    let preemptible = PREEMPTIBLE.get()?;
    // SAFETY: a preemptible fiber's state stays in its place forever.
    let worker = unsafe { preemptible.as_ref() }.enter_runtime()?;
    Some(InRuntime { preemptible, worker })
}

/// Called when `enter_runtime` has returned `None`. An orphaned fiber unwinds here, or waits
/// forever if it unwinds already.
#[cold]
#[inline(never)]
pub(crate) fn unwind_if_orphaned() {
    if PREEMPTIBLE.get().is_some() {
        crate::preempt::orphan::unwind();
    }
}

/// The worker of the calling preemptible fiber, in the runtime or not.
pub(crate) fn look() -> Option<CurrentWorker> {
    let preemptible = PREEMPTIBLE.get()?;
    // SAFETY: a preemptible fiber's state stays in its place forever, and the worker that it has
    // exists.
    unsafe { preemptible.as_ref().worker.get().map(|worker| CurrentWorker::of(worker, true)) }
}

/// The worker of a preemptible fiber that starts; it is in the runtime.
#[inline(never)]
pub(crate) fn begin() -> Option<CurrentWorker> {
    let here = look()?;
    HERE.set(Some(here.pointer()));
    Some(here)
}

#[cfg(test)]
mod model;
