//! Actions at given times, for tests: what a co-scheduler does to threads.

mod tests;

use std::cell::RefCell;

use policy::record::Recorder;
use policy::{CellId, Instant, JobId, Span, ThreadId};

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
    /// The weight of the group of this job in a cell.
    Weight(JobId, CellId, u32),
    /// Moves the threads of a job, the first of them to this cell.
    Relocate(JobId, CellId),
}

thread_local! {
    /// The actions of the next runs of this thread.
    static SCRIPT: RefCell<Vec<(Span, Action)>> = const { RefCell::new(Vec::new()) };
    static HOMES: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Runs `body`. Meanwhile, every run of this thread is subject to these actions.
pub(crate) fn with_script<T>(script: &[(Span, Action)], body: impl FnOnce() -> T) -> T {
    /// Clears the script even if a test fails, so that the next case is not subject to it.
    struct Clear;
    impl Drop for Clear {
        fn drop(&mut self) {
            SCRIPT.take();
        }
    }
    let _clear = Clear;
    SCRIPT.set(script.to_vec());
    body()
}

/// Runs `body`. Meanwhile, all threads of a job are on the same one of these cells, whose clocks
/// agree.
pub(crate) fn with_homes<T>(homes: &[u32], body: impl FnOnce() -> T) -> T {
    struct Clear;
    impl Drop for Clear {
        fn drop(&mut self) {
            HOMES.take();
        }
    }
    let _clear = Clear;
    HOMES.set(homes.to_vec());
    body()
}

pub(crate) fn are_jobs_on_one_cell() -> bool {
    HOMES.with_borrow(|homes| !homes.is_empty())
}

/// The cell of all threads of a job, if there is such a cell.
pub(crate) fn home_of(job: usize) -> Option<CellId> {
    HOMES.with_borrow(|homes| homes.get(job).copied().map(CellId))
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
            Action::Weight(job, cell, weight) => {
                self.scheduler.set_group_weight(cell, job, weight, self.now, &mut self.marks);
            }
            Action::Relocate(job, first) => {
                let (cells, job) = (self.machine.cells.unwrap().cells(), &self.workload.jobs[job.index()]);
                let (threads, of_job) = (job.threads.clone(), job.cells() as u32);
                for (number, thread) in (0..).zip(threads) {
                    let cell = CellId((first.0 + number % of_job) % cells);
                    self.relocate(ThreadId(thread as u32), cell);
                }
            }
            Action::StopAndResume(thread) => {
                self.stop(thread);
                self.resume(thread);
            }
        }
    }
}
