//! Fibers that may be interrupted anywhere: *guests* of a worker, each with a thread control block of its own, or a [kernel thread](crate::block).
//!
//! All that belongs to a kernel thread, as the language, the standard library and the C library see it, lies in the thread control block that the thread pointer shows:
//! thread-locals, `errno`, the allocator's caches, who owns a re-entrant lock, whether it panics. A guest has a block of its own, which is in force while it runs: to all that code
//! it is a kernel thread. So it may be interrupted wherever a kernel thread may be. See [`soundness`](crate::soundness).
//!
//! # Inside and outside
//! What the library itself does with its worker must not be interrupted by another fiber. A guest is *inside* from when it calls the library until that returns; a tick
//! that comes meanwhile leaves a note, and who goes outside looks for one. That costs a few stores, and no system call.
//!
//! The mark of who is inside is written by the guest alone, on its own kernel thread, and read by a handler that interrupts that thread: each sees
//! what the other did before, as long as the compiler keeps to the order of the program, which fences tell it to. Going outside, the mark is
//! taken away first, and the note looked for after that: a tick before finds the mark and leaves the note in time, and one after it finds no mark, and
//! needs none. The model goes through all of it.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, compiler_fence};

use sys::tick::Interrupted;

use crate::block::Block;
use crate::here::{HERE, Here};
use crate::preempt::exile::Exile;
use crate::worker::Worker;

thread_local! {
    /// In the block of a guest's stack: the guest.
    static GUEST: Cell<Option<NonNull<Guest>>> = const { Cell::new(None) };
}

/// What lies above the stack of a fiber that may be interrupted anywhere, below its thread control block if it has no kernel thread. Fibers have it one after another, as they have the stack.
#[repr(C, align(16))]
pub(crate) struct Guest {
    /// What is in force while it runs.
    block: Block,
    /// None where it is in exile.
    worker: Cell<Option<NonNull<Worker>>>,
    /// The library does something for it, or has left it.
    inside: AtomicBool,
    /// A tick has come meanwhile.
    missed: AtomicBool,
    /// It was interrupted outside, and is ready.
    pub(crate) was_interrupted: Cell<bool>,
    /// How many locks it has.
    pub(crate) locks: Cell<u32>,
    /// It has been given a quantum more because of these.
    pub(crate) is_favoured: Cell<bool>,
    /// How many ticks have found it since its runtime began to end.
    pub(crate) grace: Cell<u32>,
    /// Its runtime is over, and it runs on a kernel thread of its own.
    pub(crate) exile: Cell<Option<Exile>>,
}

impl Guest {
    /// One that is inside, as nobody runs there yet.
    pub(crate) fn new(block: Block) -> Guest {
        Guest {
            block,
            worker: Cell::new(None),
            inside: AtomicBool::new(true),
            missed: AtomicBool::new(false),
            was_interrupted: Cell::new(false),
            locks: Cell::new(0),
            is_favoured: Cell::new(false),
            grace: Cell::new(0),
            exile: Cell::new(None),
        }
    }

    /// From now on whoever asks in the block that is in force is this guest.
    pub(crate) fn moves_in(guest: Option<NonNull<Guest>>) {
        GUEST.set(guest);
        HERE.set(None);
        // Whether it panics is asked in a handler's reach, too: what has to be made for that is made now.
        let _ = std::thread::panicking();
    }

    #[inline(always)]
    pub(crate) fn block(&self) -> Block {
        self.block
    }

    /// Another fiber will begin here.
    pub(crate) fn expects(&self, worker: &Worker) {
        self.worker.set(Some(NonNull::from(worker)));
        self.missed.store(false, Relaxed);
        self.locks.set(0);
        self.is_favoured.set(false);
        self.grace.set(0);
    }

    /// The library is left alone: true if it is not at work already, and so may be interrupted.
    pub(crate) fn is_interrupted(&self) -> bool {
        !self.inside.swap(true, Relaxed)
    }

    /// What has interrupted it is over.
    pub(crate) fn goes_on_after(&self, interrupted: &Interrupted) {
        if let Some(Exile::Elsewhere(_)) = self.exile.get() {
            // It was interrupted on another kernel thread, whose alternate stack is that one's.
            interrupted.disable_alternate_stack();
        }
        compiler_fence(SeqCst);
        self.inside.store(false, Relaxed);
    }

    /// A tick has come while the library was at work.
    pub(crate) fn misses(&self) {
        self.missed.store(true, Relaxed);
    }

    /// It is sent away, and has no worker any more.
    pub(crate) fn goes_into_exile(&self, exile: Exile) {
        self.exile.set(Some(exile));
        self.worker.set(None);
    }

    /// Comes inside, and gets its worker. An exile has none.
    #[inline(always)]
    fn come_in(&self) -> Option<NonNull<Worker>> {
        self.inside.store(true, Relaxed);
        compiler_fence(SeqCst);
        // Not before that: until then it may be interrupted, and sent away.
        let worker = self.worker.get()?;
        HERE.set(Some(worker));
        // SAFETY: the worker of a guest that is not in exile is there.
        if unsafe { worker.as_ref() }.has_a_stuck_one() { self.come_in_late(worker) } else { Some(worker) }
    }

    /// Comes inside when the one in whose place it runs has gone on.
    #[cold]
    #[inline(never)]
    fn come_in_late(&self, worker: NonNull<Worker>) -> Option<NonNull<Worker>> {
        // SAFETY: as above. As soon as it is sent away the worker is not looked at any more.
        unsafe { worker.as_ref() }.wait_for_the_stuck_one(self);
        let worker = self.worker.get();
        if worker.is_none() {
            HERE.set(None);
        }
        worker
    }

    /// Goes outside, from this worker.
    #[inline(always)]
    fn go_out(&self, worker: NonNull<Worker>) {
        if self.leaves(worker) {
            self.make_up_for_ticks();
        }
    }

    /// Goes outside. True if a tick came while it was inside.
    #[inline(always)]
    fn leaves(&self, worker: NonNull<Worker>) -> bool {
        // SAFETY: it is the worker of the guest, which is inside and so not in exile.
        unsafe { worker.as_ref() }.sees_to_ticks();
        HERE.set(None);
        compiler_fence(SeqCst);
        self.inside.store(false, Relaxed);
        compiler_fence(SeqCst);
        self.missed.load(Relaxed)
    }

    /// Comes in again for what a tick would have done that came while it was inside.
    #[cold]
    #[inline(never)]
    fn make_up_for_ticks(&self) {
        while let Some(worker) = self.come_in() {
            self.missed.store(false, Relaxed);
            // SAFETY: it has just come in.
            unsafe { worker.as_ref() }.makes_up_for_a_tick();
            if !self.leaves(worker) {
                return;
            }
        }
    }

    /// Runs what is the fiber's own, outside, from inside.
    #[inline(always)]
    pub(crate) fn outside(&self, run: impl FnOnce()) {
        if let Some(worker) = self.worker.get() {
            self.go_out(worker);
        }
        run();
        self.come_in();
    }
}

/// A guest that is inside until this is dropped.
pub(crate) struct Inside {
    guest: NonNull<Guest>,
    worker: NonNull<Worker>,
}

impl Inside {
    #[inline(always)]
    pub(crate) fn here(&self) -> Here {
        // SAFETY: it is that of the guest that runs here.
        unsafe { Here::of(self.worker, true) }
    }
}

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the guest is who runs here.
        unsafe { self.guest.as_ref() }.go_out(self.worker);
    }
}

/// The guest that asks comes inside. None where no guest asks, or one that is in exile.
#[inline(always)]
pub(crate) fn visit() -> Option<Inside> {
    let guest = GUEST.get()?;
    // SAFETY: a guest stays where it is for ever.
    let worker = unsafe { guest.as_ref() }.come_in()?;
    Some(Inside { guest, worker })
}

/// None has come inside for what an exile cannot do: one unwinds, or waits for ever where it unwinds already.
#[cold]
#[inline(never)]
pub(crate) fn is_refused() {
    if GUEST.get().is_some() {
        crate::preempt::exile::unwind();
    }
}

/// The worker of the guest that asks, inside or not.
pub(crate) fn look() -> Option<Here> {
    let guest = GUEST.get()?;
    // SAFETY: a guest stays where it is for ever, and its worker is there as long as it has one.
    unsafe { guest.as_ref().worker.get().map(|worker| Here::of(worker, true)) }
}

/// The worker of a guest that begins, inside.
#[inline(never)]
pub(crate) fn begin() -> Option<Here> {
    let here = look()?;
    HERE.set(Some(here.pointer()));
    Some(here)
}

#[cfg(test)]
mod model;
