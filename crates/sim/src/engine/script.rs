//! Actions at given times, for tests: what a co-scheduler does to threads.

mod tests;

use std::cell::RefCell;

use policy::record::Recorder;
use policy::{Instant, Span, ThreadId};

use super::Engine;
use super::device::TimedEvent;
use super::observer::Observer;
use super::scheduler::Scheduler;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    Stop(ThreadId),
    Resume(ThreadId),
    /// In one event.
    StopAndResume(ThreadId),
}

thread_local! {
    /// The actions of the next runs of this thread.
    static SCRIPT: RefCell<Vec<(Span, Action)>> = const { RefCell::new(Vec::new()) };
}

/// Runs `body`. Meanwhile, every run of this thread is subject to these actions.
pub(crate) fn with_script<T>(script: &[(Span, Action)], body: impl FnOnce() -> T) -> T {
    SCRIPT.set(script.to_vec());
    let result = body();
    SCRIPT.take();
    result
}

impl<S: Scheduler, R: Recorder + Default, W: Observer + ?Sized> Engine<'_, S, R, W> {
    pub(super) fn load_script(&mut self) {
        for (at, action) in SCRIPT.with_borrow(Clone::clone) {
            self.set_timed_event(Instant::ZERO + at, TimedEvent::Act(action));
        }
    }

    pub(super) fn act(&mut self, action: Action) {
        match action {
            Action::Stop(thread) => self.stop(thread),
            Action::Resume(thread) => self.resume(thread),
            Action::StopAndResume(thread) => {
                self.stop(thread);
                self.resume(thread);
            }
        }
    }
}
