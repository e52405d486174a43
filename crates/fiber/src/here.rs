//! The worker that a fiber runs on, and how a fiber comes to it.
//!
//! Whatever the library does for a fiber happens *inside*: between the call of [`Here::enter`] or [`Here::visit`] and its return. A fiber that is not
//! preemptible finds its worker in a thread-local, and there is nothing else to it. One that is has thread-locals of its own, in which the worker is only
//! while the fiber is inside: so nothing has to be asked on the way of the others. See [`preemptible fiber`](crate::preemptible).

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

/// The worker that runs the fiber that asks. Not to be kept beyond what that fiber does.
#[derive(Clone, Copy)]
pub(crate) struct Here {
    worker: NonNull<Worker>,
    /// Whether it is known that a preemptible fiber has entered.
    is_preemptible: bool,
    on_this_thread: PhantomData<*const ()>,
}

impl Here {
    /// # Safety
    /// It is the worker of this kernel thread.
    #[inline(always)]
    pub(crate) unsafe fn of(worker: NonNull<Worker>, is_preemptible: bool) -> Here {
        Here { worker, is_preemptible, on_this_thread: PhantomData }
    }

    /// Does something inside, for what only fibers can do. Code of who uses the crate is not to be called there, as it would not be interrupted.
    ///
    /// # Panics
    /// Where no runtime runs.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn enter<R>(then: impl FnOnce(Here) -> R) -> R {
        match Here::get() {
            Some(here) => then(here),
            None => enter_as_preemptible(then),
        }
    }

    /// The same for what others may do as well: there is no worker then.
    #[inline(always)]
    pub(crate) fn visit<R>(then: impl FnOnce(Option<Here>) -> R) -> R {
        match Here::get() {
            Some(here) => then(Some(here)),
            None => visit_as_preemptible(then),
        }
    }

    /// The worker, inside. None on a kernel thread that is no worker.
    #[inline(always)]
    pub(crate) fn get() -> Option<Here> {
        // SAFETY: that is what it says.
        HERE.get().map(|worker| unsafe { Here::of(worker, false) })
    }

    /// The worker, inside.
    ///
    /// # Panics
    /// Where no runtime runs.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn expect() -> Here {
        match Here::get() {
            Some(here) => here,
            None => no_runtime(),
        }
    }

    /// The worker for a fiber that begins, which is inside.
    #[inline(always)]
    pub(crate) fn begin() -> Here {
        match Here::get().or_else(preemptible::begin) {
            Some(here) => here,
            None => no_runtime(),
        }
    }

    /// The worker for who only looks, from a signal's handler say, inside or not.
    #[cold]
    pub(crate) fn look() -> Option<Here> {
        Here::get().or_else(preemptible::look)
    }

    pub(crate) fn pointer(self) -> NonNull<Worker> {
        self.worker
    }

    /// Whether a preemptible fiber has entered, as far as that is known: for whom the way of the others must not ask.
    #[inline(always)]
    pub(crate) fn is_preemptible(self) -> bool {
        self.is_preemptible
    }
}

/// Does something for whoever finds no worker: for a preemptible fiber.
#[inline(never)]
#[track_caller]
fn enter_as_preemptible<R>(then: impl FnOnce(Here) -> R) -> R {
    match preemptible::enter_runtime() {
        Some(entered) => then(entered.here()),
        None => {
            preemptible::unwind_if_orphaned();
            no_runtime()
        }
    }
}

/// The same for what others may do as well.
#[inline(never)]
fn visit_as_preemptible<R>(then: impl FnOnce(Option<Here>) -> R) -> R {
    match preemptible::enter_runtime() {
        Some(entered) => then(Some(entered.here())),
        None => then(None),
    }
}

#[cold]
#[track_caller]
#[allow(clippy::panic, reason = "it is what is documented, as with everything else that needs a runtime")]
fn no_runtime() -> ! {
    panic!("only a fiber can do this, and there is no runtime on this thread: see rowlock_fiber::run")
}

impl Deref for Here {
    type Target = Worker;

    #[inline(always)]
    fn deref(&self) -> &Worker {
        // SAFETY: a worker outlives the fibers that it runs, and one of them asks.
        unsafe { self.worker.as_ref() }
    }
}
