//! The parker: one thread waits until another one unparks it.
//!
//! It is an auto-reset [event](crate::event), which is set if the token exists.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use crate::deadline::{Deadline, TimedOut};
use crate::objects::event::{Event, Reset};
use crate::statistics::Statistics;
use crate::sync::Arc;
use crate::waiting::Waiting;

/// Blocks its thread until another one [unparks](Unparker::unpark) it.
///
/// Like [`std::thread::park`]: there is at most one token. Unparking creates it, and parking waits
/// for it and consumes it. In contrast to `std`, the thread never resumes without it, and parkers
/// are independent.
///
/// All that a thread did before it unparked is visible to the parked thread when it resumes.
///
/// ```
/// # use rowlock_wait::Parker;
/// let parker = Parker::new();
/// let unparker = parker.unparker();
/// let other = std::thread::spawn(move || unparker.unpark());
/// parker.park();
/// # other.join().unwrap();
/// ```
pub struct Parker {
    event: Arc<Event>,
    /// One thread at a time parks, though not always the same one.
    of_one_thread: PhantomData<Cell<()>>,
}

/// Unparks the thread of a parker. A clone belongs to the same parker.
#[derive(Clone, Debug)]
pub struct Unparker {
    event: Arc<Event>,
}

impl Parker {
    /// A parker without a token, for a thread that waits by the adaptive rule.
    pub fn new() -> Parker {
        Parker::with(Waiting::ADAPTIVE)
    }

    /// A parker without a token, for a thread that waits like this.
    pub fn with(waiting: Waiting) -> Parker {
        Parker { event: Arc::new(Event::with(Reset::Auto, waiting)), of_one_thread: PhantomData }
    }

    /// Waits for the token and consumes it.
    pub fn park(&self) {
        self.event.wait();
    }

    /// Like [`Parker::park`], but waits at most until the deadline. An existing token is consumed
    /// even after the deadline.
    pub fn park_timeout(&self, deadline: impl Into<Deadline>) -> Result<(), TimedOut> {
        self.event.wait_timeout(deadline)
    }

    /// An unparker for this parker.
    pub fn unparker(&self) -> Unparker {
        Unparker { event: self.event.clone() }
    }

    /// The counts of all waits so far.
    pub fn statistics(&self) -> Statistics {
        self.event.statistics()
    }
}

impl Unparker {
    /// Creates the token, unless it exists. Never blocks.
    pub fn unpark(&self) {
        self.event.set();
    }
}

impl Default for Parker {
    fn default() -> Parker {
        Parker::new()
    }
}

impl fmt::Debug for Parker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parker").field("has_token", &self.event.is_set()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_token_lets_one_park_pass() {
        let parker = Parker::new();
        let unparkers = [parker.unparker(), parker.unparker().clone()];
        unparkers.iter().for_each(Unparker::unpark);
        parker.park();
        assert_eq!(parker.park_timeout(std::time::Duration::ZERO), Err(TimedOut));
    }

    #[test]
    fn parkers_and_unparkers_can_be_sent() {
        fn assert_send<T: Send>() {}
        fn assert_sync<T: Sync>() {}
        assert_send::<Parker>();
        assert_send::<Unparker>();
        assert_sync::<Unparker>();
    }
}
