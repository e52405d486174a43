//! The worker of the calling fiber.

use std::marker::PhantomData;
use std::ops::Deref;

use crate::fiber_thread::{self, InRuntime};
use crate::worker::Worker;

/// The worker that runs the calling fiber, for a caller in the runtime. It is looked up at each
/// use: a fiber that has waited may continue on another worker.
#[derive(Clone, Copy)]
pub(crate) struct CurrentWorker {
    on_this_thread: PhantomData<*const ()>,
}

impl CurrentWorker {
    /// # Safety
    /// The caller is run by a worker, and stays in the runtime as long as this is used, or only
    /// reads, as a signal handler does.
    #[inline(always)]
    pub(crate) unsafe fn new() -> CurrentWorker {
        CurrentWorker { on_this_thread: PhantomData }
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
        // SAFETY: the caller's thread-locals say that it has a worker.
        fiber_thread::worker().map(|_| unsafe { CurrentWorker::new() })
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
        match fiber_thread::worker() {
            // SAFETY: a worker outlives the fibers that it runs, and the caller is one of them.
            Some(worker) => unsafe { worker.as_ref() },
            None => unreachable!("a worker runs the caller"),
        }
    }
}
