//! How a run ends early: the first failure counts, everybody sees that the end has come, and who began the run is called.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Weak};

use wait::{Event, Mutex, Reset};

use crate::error::Cause;

/// Whether and why a run ends before its pipelines are through.
pub(crate) struct Ending {
    is_ending: AtomicBool,
    failures: Mutex<Vec<Failed>>,
    /// Set when there is something to see for the thread that began the run.
    pub(crate) attention: Event,
}

/// A cause, and where it happened.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) stage: Option<String>,
    pub(crate) round: Option<u64>,
    pub(crate) cause: Cause,
}

impl Ending {
    pub(crate) fn new() -> Ending {
        Ending {
            is_ending: AtomicBool::new(false),
            failures: Mutex::new(Vec::new()),
            attention: Event::new(Reset::Auto),
        }
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Acquire)
    }

    /// The run ends for this reason, or has had one already. Whoever sleeps is not called by this.
    pub(crate) fn end(&self, failed: Failed) {
        self.failures.lock().push(failed);
        self.is_ending.store(true, Release);
        self.attention.set();
    }

    fn cancel(&self) {
        if !self.is_ending() {
            self.end(Failed { stage: None, round: None, cause: Cause::Cancelled });
        }
    }

    /// What went wrong, in the order of time.
    pub(crate) fn take(&self) -> Vec<Failed> {
        std::mem::take(&mut self.failures.lock())
    }
}

/// Ends runs from outside, from any thread.
///
/// It may be made before a run begins, and used when it is over. Several runs may have the same one, at once or one after the other: it ends all
/// of them, while one that fails ends by itself.
#[derive(Clone, Default)]
pub struct Canceller(Arc<Mutex<Cancellation>>);

#[derive(Default)]
struct Cancellation {
    is_cancelled: bool,
    runs: Vec<Weak<Ending>>,
}

impl Canceller {
    /// One that has not cancelled anything.
    pub fn new() -> Canceller {
        Canceller::default()
    }

    /// Ends the runs that have it: no stage gets another buffer; calls that have begun come to their end, and can see by
    /// [`is_ending`](crate::Round::is_ending) that there is no time to lose. Does not wait for that.
    ///
    /// A run that begins after this ends at once.
    pub fn cancel(&self) {
        let runs = {
            let mut state = self.0.lock();
            state.is_cancelled = true;
            std::mem::take(&mut state.runs)
        };
        runs.iter().filter_map(Weak::upgrade).for_each(|run| run.cancel());
    }

    /// The ending of a run that begins, which this ends too.
    pub(crate) fn begin(&self) -> Arc<Ending> {
        let ending = Arc::new(Ending::new());
        let mut state = self.0.lock();
        if state.is_cancelled {
            ending.cancel();
        } else {
            state.runs.retain(|run| run.strong_count() > 0);
            state.runs.push(Arc::downgrade(&ending));
        }
        drop(state);
        ending
    }
}
