//! Early ends: the first failure decides, all threads see that the run is ending, and the thread
//! that started the run is woken.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Weak};

use wait::{Event, Mutex, Reset};

use crate::error::Cause;

/// Whether and why a run ends early.
pub(crate) struct Ending {
    is_ending: AtomicBool,
    failures: Mutex<Vec<Failed>>,
    /// Wakes the thread that started the run.
    pub(crate) attention: Event,
}

/// A cause of an early end, and where it occurred.
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

    /// Ends the run, or adds a further failure. Does not wake sleeping threads.
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

    /// Takes all failures, in order of time.
    pub(crate) fn take(&self) -> Vec<Failed> {
        std::mem::take(&mut self.failures.lock())
    }
}

/// Ends runs early, from any thread.
///
/// It can be created before a run starts and used after it has ended. Several runs may share one,
/// at the same time or in sequence. It then cancels all of them, but the failure of one does not
/// end the others.
#[derive(Clone, Default)]
pub struct Canceller(Arc<Mutex<Cancellation>>);

#[derive(Default)]
struct Cancellation {
    is_cancelled: bool,
    runs: Vec<Weak<Ending>>,
}

impl Canceller {
    /// Creates a canceller that has not cancelled anything.
    pub fn new() -> Canceller {
        Canceller::default()
    }

    /// Cancels its runs. No stage gets another buffer. Calls in progress complete; long ones can
    /// check [`is_ending`](crate::Round::is_ending). Does not wait for the runs to end.
    ///
    /// Runs that start later end immediately.
    pub fn cancel(&self) {
        let runs = {
            let mut state = self.0.lock();
            state.is_cancelled = true;
            std::mem::take(&mut state.runs)
        };
        runs.iter().filter_map(Weak::upgrade).for_each(|run| run.cancel());
    }

    /// Registers a run that starts, and returns its ending.
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
