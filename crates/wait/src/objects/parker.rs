//! The parker: one thread waits until another one tells it to go on.
//!
//! It is an [event](crate::event) that resets itself, at which one thread waits; its token is the event's being set.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::time;

use crate::deadline::TimedOut;
use crate::objects::event::{Event, Reset};
use crate::statistics::Statistics;
use crate::sync::Arc;
use crate::waiting::Waiting;

/// A thread's own place to wait at until somebody [unparks](Unparker::unpark) it.
///
/// As [`std::thread::park`]: there is one token or none; unparking makes it, parking waits for it and takes it. Unlike there
/// the thread never goes on without the token, and several parkers of one thread do not disturb each other.
///
/// All that a thread did before it unparked is visible to the parked one when it goes on.
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
    /// One thread at a time parks, though not always the same.
    of_one_thread: PhantomData<Cell<()>>,
}

/// What others let a parked thread go on with; a copy of it is for the same parker.
#[derive(Clone)]
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

    /// Waits for the token and takes it.
    pub fn park(&self) {
        self.event.wait();
    }

    /// As [`Parker::park`], but waits no longer than to the deadline.
    ///
    /// # Errors
    /// When the deadline has passed. A token that is there is taken however late it is.
    pub fn park_until(&self, deadline: time::Instant) -> Result<(), TimedOut> {
        self.event.wait_until(deadline)
    }

    /// As [`Parker::park_until`], with a timeout that begins now.
    ///
    /// # Errors
    /// As [`Parker::park_until`].
    pub fn park_timeout(&self, timeout: time::Duration) -> Result<(), TimedOut> {
        self.event.wait_timeout(timeout)
    }

    /// What others let this thread go on with.
    pub fn unparker(&self) -> Unparker {
        Unparker { event: self.event.clone() }
    }

    /// What waiting has come to so far.
    pub fn statistics(&self) -> Statistics {
        self.event.statistics()
    }
}

impl Unparker {
    /// Makes the token, if it is not there. Never blocks.
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

impl fmt::Debug for Unparker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unparker").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_token_made_before_lets_one_park_pass() {
        let parker = Parker::new();
        let unparkers = [parker.unparker(), parker.unparker().clone()];
        unparkers.iter().for_each(Unparker::unpark);
        parker.park();
        assert_eq!(parker.park_until(time::Instant::now()), Err(TimedOut));
        assert_eq!(parker.park_timeout(time::Duration::from_micros(50)), Err(TimedOut));
    }

    #[test]
    fn an_unparker_may_outlive_its_parker() {
        let unparker = Parker::default().unparker();
        unparker.unpark();
    }

    #[test]
    fn parkers_and_unparkers_go_from_thread_to_thread() {
        fn goes<T: Send>() {}
        fn is_shared<T: Sync>() {}
        goes::<Parker>();
        goes::<Unparker>();
        is_shared::<Unparker>();
    }
}
