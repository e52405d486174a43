//! The notification of one waiting thread, on which no other thread sleeps.

use std::cell::Cell;

use policy::Instant;

use crate::protocol::counted_futex::{Change, CountedFutex};
use crate::protocol::wait_loop::Awaited;
use crate::sync::{Arc, Scope};

/// How often a thread was notified, modulo 2^32. A notifying thread shares it, so that it can wake
/// the other one even if that has seen the notification and has returned.
#[derive(Debug)]
pub(crate) struct NotificationCount(CountedFutex);

/// A notification that was counted, of a thread that may sleep.
#[must_use = "the thread must be woken"]
pub(crate) struct Notified {
    count: Arc<NotificationCount>,
    change: Change,
}

impl NotificationCount {
    fn new() -> NotificationCount {
        NotificationCount(CountedFutex::new(0))
    }

    /// Notifies the thread, which must be woken then.
    pub(crate) fn notify(count: Arc<NotificationCount>) -> Option<Notified> {
        let change = count.0.change(|times| Some(times.wrapping_add(1))).ok()?;
        Some(Notified { count, change })
    }
}

impl Notified {
    /// Wakes the thread if it sleeps.
    pub(crate) fn wake(&self) {
        self.count.0.wake(1, self.change, Scope::Process);
    }
}

/// The next notification of the calling thread.
pub(crate) struct Notification {
    count: Arc<NotificationCount>,
    times_before: u32,
}

thread_local! {
    /// The count of the thread while it does not wait, so that waits need no allocation.
    static SPARE: Cell<Option<Arc<NotificationCount>>> = const { Cell::new(None) };
}

impl Notification {
    /// The next one from now on.
    pub(crate) fn next() -> Notification {
        let spare = SPARE.try_with(Cell::take).ok().flatten();
        let count = spare.unwrap_or_else(|| Arc::new(NotificationCount::new()));
        Notification { times_before: count.0.value(), count }
    }

    /// The count, for threads that notify this one.
    pub(crate) fn count(&self) -> &Arc<NotificationCount> {
        &self.count
    }

    /// Ends the wait. No thread may be about to notify this one.
    pub(crate) fn end(self) {
        // In a model, each wait has a count of its own.
        if !cfg!(loom) {
            let _ = SPARE.try_with(|spare| spare.set(Some(self.count)));
        }
    }
}

impl Awaited for Notification {
    #[inline]
    fn poll(&mut self) -> bool {
        self.count.0.value() != self.times_before
    }

    fn sleep(&mut self, deadline: Option<Instant>) {
        self.count.0.sleep(|times| times == self.times_before, deadline, Scope::Process);
    }
}
