//! Fibers that may be interrupted anywhere: *preemptible fibers* of a worker, each with a thread control block of its own, or a [kernel thread](crate::control_block).
//!
//! All that belongs to a kernel thread, as the language, the standard library and the C library see it, lies in the thread control block that the thread pointer shows:
//! thread-locals, `errno`, the allocator's caches, who owns a re-entrant lock, whether it panics. A preemptible fiber has a block of its own, which is in force while it runs: to all that code
//! it is a kernel thread. So it may be interrupted wherever a kernel thread may be. See [`soundness`](crate::soundness).
//!
//! # Inside and outside
//! What the library itself does with its worker must not be interrupted by another fiber. A preemptible fiber is *inside* from when it calls the library until that returns; a tick
//! that comes meanwhile clear_in_runtime a note, and who goes outside looks for one. That costs a few stores, and no system call.
//!
//! The mark of who is inside is written by the preemptible fiber alone, on its own kernel thread, and read by a handler that interrupts that thread: each sees
//! what the other did before, as long as the compiler keeps to the order of the program, which fences tell it to. Going outside, the mark is
//! taken away first, and the note looked for after that: a tick before finds the mark and clear_in_runtime the note in time, and one after it finds no mark, and
//! needs none. The model goes through all of it.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, compiler_fence};

use sys::tick::Interrupted;

use crate::control_block::ControlBlock;
use crate::here::{HERE, Here};
use crate::preempt::orphan::Orphan;
use crate::worker::Worker;

thread_local! {
    /// In the block of a preemptible fiber's stack: the preemptible fiber.
    static PREEMPTIBLE: Cell<Option<NonNull<PreemptibleFiber>>> = const { Cell::new(None) };
}

/// What lies above the stack of a fiber that may be interrupted anywhere, below its thread control block if it has no kernel thread. Fibers have it one after another, as they have the stack.
#[repr(C, align(16))]
pub(crate) struct PreemptibleFiber {
    /// What is in force while it runs.
    control_block: ControlBlock,
    /// None where it is orphaned.
    worker: Cell<Option<NonNull<Worker>>>,
    /// The library does something for it, or has left it.
    in_runtime: AtomicBool,
    /// A tick has come meanwhile.
    missed_tick: AtomicBool,
    /// It was interrupted outside, and is ready.
    pub(crate) was_interrupted: Cell<bool>,
    /// How many locks it has.
    pub(crate) locks_held: Cell<u32>,
    /// It has been given a quantum more because of these.
    pub(crate) has_extension: Cell<bool>,
    /// How many ticks have found it since its runtime began to end.
    pub(crate) grace_ticks: Cell<u32>,
    /// Its runtime is over, and it runs on a kernel thread of its own.
    pub(crate) orphan: Cell<Option<Orphan>>,
}

impl PreemptibleFiber {
    /// One that is inside, as nobody runs there yet.
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

    /// From now on whoever asks in the block that is in force is this preemptible fiber.
    pub(crate) fn set_current(preemptible: Option<NonNull<PreemptibleFiber>>) {
        PREEMPTIBLE.set(preemptible);
        HERE.set(None);
        // Whether it panics is asked in a handler's reach, too: what has to be made for that is made now.
        let _ = std::thread::panicking();
    }

    #[inline(always)]
    pub(crate) fn control_block(&self) -> ControlBlock {
        self.control_block
    }

    /// Another fiber will begin here.
    pub(crate) fn prepare_for(&self, worker: &Worker) {
        self.worker.set(Some(NonNull::from(worker)));
        self.missed_tick.store(false, Relaxed);
        self.locks_held.set(0);
        self.has_extension.set(false);
        self.grace_ticks.set(0);
    }

    /// The library is left alone: true if it is not at work already, and so may be interrupted.
    pub(crate) fn try_enter_runtime(&self) -> bool {
        !self.in_runtime.swap(true, Relaxed)
    }

    /// What has interrupted it is over.
    pub(crate) fn resume_after(&self, interrupted: &Interrupted) {
        if let Some(Orphan::OnOtherThread(_)) = self.orphan.get() {
            // It was interrupted on another kernel thread, whose alternate stack is that one's.
            interrupted.disable_alternate_stack();
        }
        compiler_fence(SeqCst);
        self.in_runtime.store(false, Relaxed);
    }

    /// A tick has come while the library was at work.
    pub(crate) fn note_missed_tick(&self) {
        self.missed_tick.store(true, Relaxed);
    }

    /// It is sent away, and has no worker any more.
    pub(crate) fn become_orphan(&self, orphan: Orphan) {
        self.orphan.set(Some(orphan));
        self.worker.set(None);
    }

    /// Comes inside, and gets its worker. An orphan has none.
    #[inline(always)]
    fn enter_runtime(&self) -> Option<NonNull<Worker>> {
        self.in_runtime.store(true, Relaxed);
        compiler_fence(SeqCst);
        // Not before that: until then it may be interrupted, and sent away.
        let worker = self.worker.get()?;
        HERE.set(Some(worker));
        // SAFETY: the worker of a preemptible fiber that is not orphaned is there.
        if unsafe { worker.as_ref() }.is_donating() { self.enter_runtime_after_donation(worker) } else { Some(worker) }
    }

    /// Comes inside when the one in whose place it runs has gone on.
    #[cold]
    #[inline(never)]
    fn enter_runtime_after_donation(&self, worker: NonNull<Worker>) -> Option<NonNull<Worker>> {
        // SAFETY: as above. As soon as it is sent away the worker is not looked at any more.
        unsafe { worker.as_ref() }.wait_for_donor(self);
        let worker = self.worker.get();
        if worker.is_none() {
            HERE.set(None);
        }
        worker
    }

    /// Goes outside, from this worker.
    #[inline(always)]
    fn leave_runtime(&self, worker: NonNull<Worker>) {
        if self.clear_in_runtime(worker) {
            self.handle_missed_ticks();
        }
    }

    /// Goes outside. True if a tick came while it was inside.
    #[inline(always)]
    fn clear_in_runtime(&self, worker: NonNull<Worker>) -> bool {
        // SAFETY: it is the worker of the preemptible fiber, which is inside and so not orphaned.
        unsafe { worker.as_ref() }.start_ticks_if_needed();
        HERE.set(None);
        compiler_fence(SeqCst);
        self.in_runtime.store(false, Relaxed);
        compiler_fence(SeqCst);
        self.missed_tick.load(Relaxed)
    }

    /// Comes in again for what a tick would have done that came while it was inside.
    #[cold]
    #[inline(never)]
    fn handle_missed_ticks(&self) {
        while let Some(worker) = self.enter_runtime() {
            self.missed_tick.store(false, Relaxed);
            // SAFETY: it has just come in.
            unsafe { worker.as_ref() }.handle_missed_tick();
            if !self.clear_in_runtime(worker) {
                return;
            }
        }
    }

    /// Runs what is the fiber's own, outside, from inside.
    #[inline(always)]
    pub(crate) fn run_outside(&self, run: impl FnOnce()) {
        if let Some(worker) = self.worker.get() {
            self.leave_runtime(worker);
        }
        run();
        self.enter_runtime();
    }
}

/// A preemptible fiber that is inside until this is dropped.
pub(crate) struct InRuntime {
    preemptible: NonNull<PreemptibleFiber>,
    worker: NonNull<Worker>,
}

impl InRuntime {
    #[inline(always)]
    pub(crate) fn here(&self) -> Here {
        // SAFETY: it is that of the preemptible fiber that runs here.
        unsafe { Here::of(self.worker, true) }
    }
}

impl Drop for InRuntime {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the preemptible fiber is who runs here.
        unsafe { self.preemptible.as_ref() }.leave_runtime(self.worker);
    }
}

/// The preemptible fiber that asks comes inside. None where no preemptible fiber asks, or one that is orphaned.
#[inline(always)]
pub(crate) fn enter_runtime() -> Option<InRuntime> {
    let preemptible = PREEMPTIBLE.get()?;
    // SAFETY: a preemptible fiber stays where it is for ever.
    let worker = unsafe { preemptible.as_ref() }.enter_runtime()?;
    Some(InRuntime { preemptible, worker })
}

/// None has come inside for what an orphan cannot do: one unwinds, or waits for ever where it unwinds already.
#[cold]
#[inline(never)]
pub(crate) fn unwind_if_orphaned() {
    if PREEMPTIBLE.get().is_some() {
        crate::preempt::orphan::unwind();
    }
}

/// The worker of the preemptible fiber that asks, inside or not.
pub(crate) fn look() -> Option<Here> {
    let preemptible = PREEMPTIBLE.get()?;
    // SAFETY: a preemptible fiber stays where it is for ever, and its worker is there as long as it has one.
    unsafe { preemptible.as_ref().worker.get().map(|worker| Here::of(worker, true)) }
}

/// The worker of a preemptible fiber that begins, inside.
#[inline(never)]
pub(crate) fn begin() -> Option<Here> {
    let here = look()?;
    HERE.set(Some(here.pointer()));
    Some(here)
}

#[cfg(test)]
mod model;
