//! The worker of the calling fiber.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::fiber_thread::{self, InRuntime};
use crate::worker::Worker;

/// The worker that runs the calling fiber. Must not be kept longer than the fiber's current call.
#[derive(Clone, Copy)]
pub(crate) struct CurrentWorker {
    worker: NonNull<Worker>,
    on_this_thread: PhantomData<*const ()>,
}

impl CurrentWorker {
    /// # Safety
    /// It is the worker that runs the calling fiber.
    #[inline(always)]
    pub(crate) unsafe fn of(worker: NonNull<Worker>) -> CurrentWorker {
        CurrentWorker { worker, on_this_thread: PhantomData }
    }

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
        match inside.worker() {
            Some(here) => then(Some(here)),
            None => {
                drop(inside);
                then(None)
            }
        }
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
        // SAFETY: the caller's thread-locals tell its worker.
        fiber_thread::worker().map(|worker| unsafe { CurrentWorker::of(worker) })
    }
}

#[cold]
#[track_caller]
#[allow(clippy::panic, reason = "documented, as for everything else that needs a runtime")]
fn no_runtime() -> ! {
    crate::preempt::orphan::unwind_if_orphaned();
    panic!("only a fiber can do this, and there is no runtime on this thread: see rowlock_fiber::run")
}

impl Deref for CurrentWorker {
    type Target = Worker;

    #[inline(always)]
    fn deref(&self) -> &Worker {
        // SAFETY: a worker outlives the fibers that it runs, and the caller is one of them.
        unsafe { self.worker.as_ref() }
    }
}
