//! How other threads make a worker look at its inbox if its timer is stopped.
//!
//! While the timer is stopped, a fiber that reaches no safepoint keeps its worker from its inbox.
//! So the worker first publishes that its timer is *stopped*. After that it looks at its inbox and
//! at the fibers that any worker may take. A thread that adds one of these does so first, and then
//! looks for a stopped timer. Both sides have a fence between the two steps, and all fences have
//! one order. So one of the two sees the other: either the worker does not let its timer stop, or
//! the other thread fires it.
//!
//! The timer must exist until it has been fired, even if the worker ends meanwhile. So the worker
//! publishes a share of it, which belongs to the thread that exchanges the word for null, possibly
//! the worker itself. The model explores all this.

use std::sync::Arc;

use crate::sync::{AtomicPtr, Ordering, fence};

/// The event that makes a worker look at its inbox.
pub(crate) trait FireTimer {
    /// Fires soon.
    fn fire(&self);
}

/// A worker's timer, if it is stopped; see the module.
pub(crate) struct StoppedTimer<T>(AtomicPtr<T>);

impl<T: FireTimer> StoppedTimer<T> {
    pub(crate) fn new() -> StoppedTimer<T> {
        StoppedTimer(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Publishes the timer. For the worker itself, which must look at its inbox afterwards.
    ///
    /// # Safety
    /// It is in an [`Arc`], of which the worker has a share.
    pub(crate) unsafe fn set(&self, ticks: &T) {
        if self.0.load(Ordering::Relaxed).is_null() {
            // SAFETY: the caller's promise; the new share is for the thread that takes it.
            unsafe { Arc::increment_strong_count(ticks) };
            let before = self.0.swap(std::ptr::from_ref(ticks).cast_mut(), Ordering::AcqRel);
            debug_assert!(before.is_null(), "only the worker itself publishes its timer");
        }
        fence(Ordering::SeqCst);
    }

    /// Takes the timer back. `None` if it was not published, or another thread has taken it.
    pub(crate) fn take(&self) -> Option<Arc<T>> {
        let ticks = self.0.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: the thread that takes the pointer owns its share.
        (!ticks.is_null()).then(|| unsafe { Arc::from_raw(ticks) })
    }

    /// Makes the worker look for what the caller has added before, if its timer is stopped. Returns
    /// false if it is not.
    pub(crate) fn fire_if_stopped(&self) -> bool {
        fence(Ordering::SeqCst);
        !self.0.load(Ordering::Relaxed).is_null() && self.take().inspect(|ticks| ticks.fire()).is_some()
    }
}
