//! The worker that a fiber runs on.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::worker::Worker;

thread_local! {
    /// The worker that this kernel thread is.
    pub(crate) static HERE: Cell<Option<NonNull<Worker>>> = const { Cell::new(None) };
}

/// The worker that runs the fiber that asks. Not to be kept beyond what that fiber does.
#[derive(Clone, Copy)]
pub(crate) struct Here(NonNull<Worker>, PhantomData<*const ()>);

impl Here {
    /// None on a kernel thread that is no worker.
    #[inline(always)]
    pub(crate) fn get() -> Option<Here> {
        HERE.get().map(|worker| Here(worker, PhantomData))
    }

    /// For what only fibers can do.
    ///
    /// # Panics
    /// Where no runtime runs.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn expect() -> Here {
        match Here::get() {
            Some(here) => here,
            None => not_here(),
        }
    }

    pub(crate) fn pointer(self) -> NonNull<Worker> {
        self.0
    }
}

#[cold]
#[track_caller]
#[allow(clippy::panic, reason = "it is what is documented, as with everything else that needs a runtime")]
fn not_here() -> ! {
    panic!("only a fiber can do this, and there is no runtime on this thread: see rowlock_fiber::run")
}

impl Deref for Here {
    type Target = Worker;

    #[inline(always)]
    fn deref(&self) -> &Worker {
        // SAFETY: a worker outlives the fibers that it runs, and one of them asks.
        unsafe { self.0.as_ref() }
    }
}
