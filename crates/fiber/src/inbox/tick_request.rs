//! How other threads request a tick, so that a worker looks at its inbox soon.
//!
//! A fiber that reaches no safepoint keeps its worker from its inbox until the next tick, which may
//! be far away or never come. So a worker that has set or stopped its timer *publishes* it, and
//! then looks at its inbox. A thread that sends something does so first, and then takes the
//! published timer and fires it. Both sides have a fence between the two steps, and all fences have
//! one order. So one of the two sees the other: either the worker finds what was sent, and sets the
//! timer to fire soon, or the other thread fires it. If the worker sets its timer just after that,
//! it publishes it afterwards, and finds what was sent.
//!
//! A thread that finds no published timer relies on the one that has taken it, so a flood of items
//! brings one tick. The worker publishes its timer again when that has come.
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

/// A worker's timer, if a tick may be requested; see the module. The lowest bit says that it ticks.
pub(crate) struct TickRequest<T>(AtomicPtr<T>);

impl<T: FireTimer> TickRequest<T> {
    pub(crate) fn new() -> TickRequest<T> {
        TickRequest(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Publishes the timer, which ticks at least once per running time or is stopped. For the
    /// worker itself, which must look at its inbox afterwards.
    ///
    /// # Safety
    /// It is in an [`Arc`], of which the worker has a share.
    pub(crate) unsafe fn publish(&self, timer: &T, ticks: bool) {
        let word = std::ptr::from_ref(timer).cast_mut().map_addr(|address| address | usize::from(ticks));
        if self.0.load(Ordering::Relaxed) != word {
            // SAFETY: the caller's promise; the new share is for the thread that takes it.
            unsafe { Arc::increment_strong_count(timer) };
            drop(Self::owned(self.0.swap(word, Ordering::AcqRel)));
        }
        fence(Ordering::SeqCst);
    }

    /// Whether it is published. If not, a tick was requested, which may have come already.
    pub(crate) fn is_published(&self) -> bool {
        !self.0.load(Ordering::Relaxed).is_null()
    }

    /// Takes the timer back. `None` if it was not published, or another thread has taken it.
    pub(crate) fn take(&self) -> Option<Arc<T>> {
        Self::owned(self.0.swap(std::ptr::null_mut(), Ordering::AcqRel))
    }

    fn owned(word: *mut T) -> Option<Arc<T>> {
        let timer = word.map_addr(|address| address & !1);
        // SAFETY: the thread that has exchanged the word owns its share.
        (!timer.is_null()).then(|| unsafe { Arc::from_raw(timer) })
    }

    /// Makes the worker look for what the caller has added before. Returns false if its timer is
    /// not published.
    pub(crate) fn fire(&self) -> bool {
        self.fire_if(|_| true)
    }

    /// The same if its timer is stopped.
    pub(crate) fn fire_if_stopped(&self) -> bool {
        self.fire_if(|ticks| !ticks)
    }

    fn fire_if(&self, wanted: impl FnOnce(bool) -> bool) -> bool {
        fence(Ordering::SeqCst);
        let word = self.0.load(Ordering::Relaxed);
        !word.is_null() && wanted(word.addr() & 1 == 1) && self.take().inspect(|timer| timer.fire()).is_some()
    }
}
