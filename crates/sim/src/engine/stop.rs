//! Stopping threads, and resuming them, as signals do.
//!
//! A stopped thread never runs, whatever happens to it meanwhile. A ready one leaves its queue
//! immediately; Linux lets it run first, for as long as it takes to stop. A running one leaves its
//! CPU when the event is over. A thread that is woken, or whose spin ends, continues when it is
//! resumed and has a CPU.

use policy::record::Recorder;
use policy::{Span, ThreadId};

use super::Engine;
use super::observer::Observer;
use super::scheduler::{ReadyReason, Scheduler};
use super::threads::{Activity, Place};

impl<S: Scheduler, R: Recorder + Default, W: Observer + ?Sized> Engine<'_, S, R, W> {
    /// Stops a thread, in any place. Does nothing if it is stopped.
    pub(super) fn stop(&mut self, thread: ThreadId) {
        let stopping = &mut self.workload.threads[thread.index()];
        if std::mem::replace(&mut stopping.is_stopped, true) {
            return;
        }
        match stopping.place {
            Place::Ready => self.dequeue(thread),
            Place::Running(cpu) => self.marks.mark(cpu),
            // It is put aside when it would be ready, or would run.
            Place::SwitchingIn(_) | Place::SwitchingOut(_) | Place::Stopped | Place::Blocked | Place::Gone => {}
        }
    }

    /// Resumes a thread, in any place. Does nothing if it is not stopped.
    pub(super) fn resume(&mut self, thread: ThreadId) {
        let resuming = &mut self.workload.threads[thread.index()];
        resuming.is_stopped = false;
        if resuming.place == Place::Stopped {
            self.ready(thread, ReadyReason::Woken);
        }
    }

    /// Whether a thread may not have its CPU, or none at all: it is stopped, or moves to another
    /// cell.
    #[inline]
    pub(super) fn may_not_run(&self, thread: ThreadId) -> bool {
        self.workload.threads[thread.index()].may_not_run()
    }

    /// A ready thread leaves its queue.
    pub(super) fn dequeue(&mut self, thread: ThreadId) {
        self.scheduler.dequeue(thread, self.now);
        self.put_aside(thread);
        self.observer.thread_stopped(self.now, thread);
    }

    /// A thread that could run, and is in no queue, waits until it is resumed.
    pub(super) fn put_aside(&mut self, thread: ThreadId) {
        if cfg!(rowlock_canary = "a-stop-loses-work")
            && let Activity::Compute { left } = &mut self.workload.threads[thread.index()].activity
        {
            *left = Span::ZERO;
        }
        self.workload.put(thread, Place::Stopped, self.now);
    }
}
