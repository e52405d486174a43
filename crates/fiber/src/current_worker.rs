//! The worker of the calling fiber, and how a fiber enters the runtime.
//!
//! The library works for a fiber *in the runtime*: between the call of [`CurrentWorker::enter`] or
//! [`CurrentWorker::visit`] and its return. A fiber that is not preemptible finds its worker in a
//! thread-local. A preemptible fiber has its own thread-locals, which contain the worker only while
//! the fiber is in the runtime. So the path of other fibers contains no extra check. See
//! [preemptible](crate::preemptible).

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::preemptible;
use crate::worker::Worker;

thread_local! {
    /// The worker that this kernel thread is.
    pub(crate) static HERE: Cell<Option<NonNull<Worker>>> = const { Cell::new(None) };
}

/// The worker that runs the calling fiber. Must not be kept longer than the fiber's current call.
#[derive(Clone, Copy)]
pub(crate) struct CurrentWorker {
    worker: NonNull<Worker>,
    /// Whether the caller is known to be a preemptible fiber.
    is_preemptible: bool,
    on_this_thread: PhantomData<*const ()>,
}

impl CurrentWorker {
    /// # Safety
    /// It is the worker of this kernel thread.
    #[inline(always)]
    pub(crate) unsafe fn of(worker: NonNull<Worker>, is_preemptible: bool) -> CurrentWorker {
        CurrentWorker { worker, is_preemptible, on_this_thread: PhantomData }
    }

    /// Calls a function in the runtime, for what only fibers can do. It must not call user code,
    /// which could not be interrupted there.
    ///
    /// # Panics
    /// If called outside a runtime.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn enter<R>(then: impl FnOnce(CurrentWorker) -> R) -> R {
        match CurrentWorker::get() {
            Some(here) => then(here),
            None => enter_as_preemptible(then),
        }
    }

    /// The same for what other threads may do as well: these get no worker.
    #[inline(always)]
    pub(crate) fn visit<R>(then: impl FnOnce(Option<CurrentWorker>) -> R) -> R {
        match CurrentWorker::get() {
            Some(here) => then(Some(here)),
            None => visit_as_preemptible(then),
        }
    }

    /// The worker, for a caller in the runtime. `None` on a kernel thread that is not a worker.
    #[inline(always)]
    pub(crate) fn get() -> Option<CurrentWorker> {
        // SAFETY: `HERE` contains this thread's worker.
        HERE.get().map(|worker| unsafe { CurrentWorker::of(worker, false) })
    }

    /// The worker, for a caller in the runtime.
    ///
    /// # Panics
    /// If called outside a runtime.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn expect() -> CurrentWorker {
        match CurrentWorker::get() {
            Some(here) => here,
            None => no_runtime(),
        }
    }

    /// The worker, for a fiber that starts and is in the runtime.
    #[inline(always)]
    pub(crate) fn begin() -> CurrentWorker {
        match CurrentWorker::get().or_else(preemptible::begin) {
            Some(here) => here,
            None => no_runtime(),
        }
    }

    /// The worker, for a caller that only reads, such as a signal handler, in the runtime or not.
    #[cold]
    pub(crate) fn look() -> Option<CurrentWorker> {
        CurrentWorker::get().or_else(preemptible::look)
    }

    pub(crate) fn pointer(self) -> NonNull<Worker> {
        self.worker
    }

    /// Whether the caller is known to be a preemptible fiber. Code on the path of other fibers must
    /// not check more.
    #[inline(always)]
    pub(crate) fn is_preemptible(self) -> bool {
        self.is_preemptible
    }
}

/// Calls a function for a caller without a worker in its thread-local: a preemptible fiber.
#[inline(never)]
#[track_caller]
fn enter_as_preemptible<R>(then: impl FnOnce(CurrentWorker) -> R) -> R {
    match preemptible::enter_runtime() {
        Some(entered) => then(entered.here()),
        None => {
            preemptible::unwind_if_orphaned();
            no_runtime()
        }
    }
}

/// The same for what other threads may do as well.
#[inline(never)]
fn visit_as_preemptible<R>(then: impl FnOnce(Option<CurrentWorker>) -> R) -> R {
    match preemptible::enter_runtime() {
        Some(entered) => then(Some(entered.here())),
        None => then(None),
    }
}

#[cold]
#[track_caller]
#[allow(clippy::panic, reason = "documented, as for everything else that needs a runtime")]
fn no_runtime() -> ! {
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
