//! The worker of the calling fiber, which works for it in the runtime.
//!
//! # In the runtime and outside
//! No fiber may be interrupted while the library works for it. A fiber is *in the runtime* from its
//! call of the library until that returns. A tick that comes meanwhile sets `missed_tick`, and a
//! fiber that leaves the runtime checks this flag. That costs a few loads and stores, and no system
//! call.
//!
//! Only the fiber writes the flag `in_runtime`, on its own kernel thread, and a handler that
//! interrupts this thread reads it. Each sees what the other did before, as long as the compiler
//! keeps the order of the program, which fences ensure. A fiber that leaves the runtime first
//! clears `in_runtime` and then checks `missed_tick`. A tick before that finds `in_runtime` set,
//! and sets `missed_tick` in time. A tick after that finds `in_runtime` cleared, and may interrupt
//! the fiber. The model explores all interleavings.
//!
//! The worker that runs the fiber is noted in the fiber's thread-locals. While the fiber runs on a
//! [donated](crate::preempt) timeslice, or is [orphaned](crate::preempt::orphan), no worker is
//! noted there, so the usual path needs no check for either.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::compiler_fence;

use crate::fiber_thread::{self, HERE, Here};
use crate::preempt::{donation, orphan};
use crate::worker::Worker;
use crate::worker_pointer::WorkerPointer;

/// The worker that runs the calling fiber, for a caller in the runtime. It is looked up at each
/// use: a fiber that has waited may continue on another worker.
#[derive(Clone, Copy)]
pub(crate) struct CurrentWorker {
    on_this_thread: PhantomData<*const ()>,
}

impl CurrentWorker {
    /// Calls a function in the runtime, for what only fibers can do. It must not call user code,
    /// which could not be interrupted there.
    ///
    /// # Panics
    /// If called outside a runtime.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn enter<R>(then: impl FnOnce(CurrentWorker) -> R) -> R {
        let inside = InRuntime::enter();
        match inside.worker() {
            Some(here) => then(here),
            None => {
                drop(inside);
                no_runtime()
            }
        }
    }

    /// The same for what other threads may do as well: these get no worker.
    #[inline(always)]
    pub(crate) fn visit<R>(then: impl FnOnce(Option<CurrentWorker>) -> R) -> R {
        let inside = InRuntime::enter();
        let here = inside.worker();
        // One call, which is inlined.
        let _inside = match here {
            Some(_) => Some(inside),
            None => {
                drop(inside);
                None
            }
        };
        then(here)
    }

    /// The worker, for a caller in the runtime.
    ///
    /// # Panics
    /// If called outside a runtime.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn expect() -> CurrentWorker {
        match CurrentWorker::look() {
            Some(here) => here,
            None => no_runtime(),
        }
    }

    /// The worker, for a caller that is in the runtime, or only reads, such as a signal handler.
    #[inline(always)]
    pub(crate) fn look() -> Option<CurrentWorker> {
        fiber_thread::worker().map(|_| CurrentWorker { on_this_thread: PhantomData })
    }
}

#[cold]
#[track_caller]
#[allow(clippy::panic, reason = "documented, as for everything else that needs a runtime")]
fn no_runtime() -> ! {
    orphan::unwind_if_orphaned();
    panic!("only a fiber can do this, and there is no runtime on this thread: see rowlock_fiber::run")
}

impl Deref for CurrentWorker {
    type Target = Worker;

    #[inline(always)]
    fn deref(&self) -> &Worker {
        match fiber_thread::worker() {
            // SAFETY: a worker outlives the fibers that it runs, and the caller is one of them.
            Some(worker) => unsafe { Worker::at(worker) },
            None => unreachable!("a worker runs the caller"),
        }
    }
}

/// Keeps the calling thread in the runtime until it is dropped.
pub(crate) struct InRuntime {
    here: NonNull<Here>,
    /// It was in the runtime before.
    is_nested: bool,
}

impl InRuntime {
    /// Enters the runtime.
    #[inline(always)]
    pub(crate) fn enter() -> InRuntime {
        let entered = HERE.with(|here| {
            let is_nested = here.in_runtime.load(Relaxed);
            here.in_runtime.store(true, Relaxed);
            InRuntime { here: NonNull::from(here), is_nested }
        });
        compiler_fence(SeqCst);
        entered
    }

    #[inline(always)]
    fn here(&self) -> &Here {
        // SAFETY: they are the caller's thread-locals, which it keeps until this is dropped.
        unsafe { self.here.as_ref() }
    }

    /// Whether the thread was in the runtime before.
    #[cfg(interposed)]
    #[inline(always)]
    pub(crate) fn is_nested(&self) -> bool {
        self.is_nested
    }

    /// The worker that runs the calling fiber. `None` for other threads, and if it is orphaned.
    #[inline(always)]
    pub(crate) fn worker(&self) -> Option<CurrentWorker> {
        // Not before the flag is set: until then, the fiber may be interrupted and orphaned.
        let worker = match self.here().worker.get() {
            Some(worker) => Some(worker),
            None => self.wait_for_donor(),
        };
        worker.map(|_| CurrentWorker { on_this_thread: PhantomData })
    }

    /// The fiber may run on a donated timeslice, and the donor be in the middle of something.
    #[cold]
    #[inline(never)]
    fn wait_for_donor(&self) -> Option<WorkerPointer> {
        // SAFETY: the state of a fiber exists while its thread-locals say so.
        let thread = unsafe { self.here().thread.get()?.as_ref() };
        donation::wait_for_donor(thread);
        self.here().worker.get()
    }

    #[cold]
    #[inline(never)]
    fn handle_missed_ticks(&self) {
        let here = self.here();
        while here.missed_tick.load(Relaxed) {
            here.in_runtime.store(true, Relaxed);
            compiler_fence(SeqCst);
            here.missed_tick.store(false, Relaxed);
            if let Some(worker) = self.worker() {
                worker.handle_missed_tick();
            }
            compiler_fence(SeqCst);
            here.in_runtime.store(false, Relaxed);
            compiler_fence(SeqCst);
        }
    }
}

impl Drop for InRuntime {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.is_nested {
            let here = self.here();
            compiler_fence(SeqCst);
            here.in_runtime.store(false, Relaxed);
            compiler_fence(SeqCst);
            if here.missed_tick.load(Relaxed) {
                self.handle_missed_ticks();
            }
        }
    }
}

/// Leaves the runtime, for a fiber that is in it.
#[inline(always)]
pub(crate) fn leave_runtime() {
    HERE.with(|here| drop(InRuntime { here: NonNull::from(here), is_nested: false }));
}

/// Calls a function outside the runtime, for a fiber that is in it. The function must not unwind.
#[inline(always)]
pub(crate) fn call_outside<R>(call: impl FnOnce() -> R) -> R {
    leave_runtime();
    let result = call();
    let inside = InRuntime::enter();
    let _ = inside.worker();
    std::mem::forget(inside);
    result
}

#[cfg(test)]
mod model;
