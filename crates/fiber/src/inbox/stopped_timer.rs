//! A worker that may run for long without looking at its inbox, and how others make it look.
//!
//! A fiber that only a tick takes off its CPU may run while the timer stands still. Then its worker first says that it is *quiet*, and looks after that at its inbox and at the fibers that any
//! worker may take. Whoever brings one of these does so first, and looks after that who is quiet. Between the two steps there is a fence on both sides, all of them in one order: so one of the two
//! sees the other, and either the worker does not let its timer stand still, or somebody sets it off.
//!
//! What sets the timer off has to be there until that is done, though the worker may be over meanwhile. So a quiet worker gives a share of it away, which belongs to whoever
//! exchanges the word for nothing, be that the worker itself. The model tries all this.

use std::sync::Arc;

use crate::sync::{AtomicPtr, Ordering, fence};

/// What makes a worker look at its inbox.
pub(crate) trait FireTimer {
    /// Soon.
    fn fire(&self);
}

/// Whether a worker is quiet; see the module.
pub(crate) struct StoppedTimer<T>(AtomicPtr<T>);

impl<T: FireTimer> StoppedTimer<T> {
    pub(crate) fn new() -> StoppedTimer<T> {
        StoppedTimer(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// For the worker itself, which has a share of this, and is to look at its inbox after it.
    ///
    /// # Safety
    /// It is in an [`Arc`], of which the worker has a share.
    pub(crate) unsafe fn set(&self, ticks: &T) {
        if self.0.load(Ordering::Relaxed).is_null() {
            // SAFETY: the caller's promise; here is another share, for who takes it.
            unsafe { Arc::increment_strong_count(ticks) };
            let before = self.0.swap(std::ptr::from_ref(ticks).cast_mut(), Ordering::AcqRel);
            debug_assert!(before.is_null(), "only the worker itself is stopped_timer");
        }
        fence(Ordering::SeqCst);
    }

    /// The worker is quiet no more. None if it was not.
    pub(crate) fn take(&self) -> Option<Arc<T>> {
        let ticks = self.0.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: whoever takes them off there has their share.
        (!ticks.is_null()).then(|| unsafe { Arc::from_raw(ticks) })
    }

    /// Makes the worker look, if it is quiet, for who has brought something before. False if it is not.
    pub(crate) fn fire_if_stopped(&self) -> bool {
        fence(Ordering::SeqCst);
        !self.0.load(Ordering::Relaxed).is_null() && self.take().inspect(|ticks| ticks.fire()).is_some()
    }
}
