//! How a job's kernel threads carry out its fibers: each does what a worker of the library does, and sleeps where that would.

use policy::record::Recorder;
use policy::{CpuId, ThreadId};

use crate::device::Due;
use crate::engine::Engine;
use crate::scheduler::Scheduler;
use crate::team::Activity;
use crate::watch::{Begins, Leaving, Watch};

use super::Deed;

impl<S: Scheduler, R: Recorder + Default, W: Watch + ?Sized> Engine<'_, S, R, W> {
    /// A thread of a job of fibers has a CPU and does what comes next.
    pub(crate) fn runs_fibers(&mut self, cpu: CpuId, thread: ThreadId) {
        let now = self.now;
        let (job, worker) = (self.crew.threads[thread.index()].job(), self.crew.number(thread.index()));
        let was_asleep = self.crew.threads[thread.index()].activity == Activity::Look;
        let of = &mut self.crew.jobs[job];
        let Some(fibers) = &mut of.fibers else { return };
        let mut deed = fibers.go_on(now, worker);
        of.rounds_done = fibers.bursts();
        if deed == Deed::End && self.keep_running && fibers.is_over() {
            self.freeze_once(job);
            let Some(fibers) = &mut self.crew.jobs[job].fibers else { return };
            fibers.begin();
            deed = fibers.go_on(now, worker);
        }
        self.wakes_workers(job, thread);
        let activity = match deed {
            Deed::Compute(left) => Activity::Compute { left },
            Deed::Manage(left) => Activity::Manage { left },
            Deed::Sleep(until) => {
                self.crew.threads[thread.index()].activity = Activity::Block;
                self.watch.thread_begins(now, thread, Begins::Block);
                if let Some(until) = until {
                    self.set(until, Due::Rested(thread));
                }
                return self.leave(cpu, thread, Leaving::Blocking);
            }
            Deed::End => return self.end(cpu, thread),
        };
        self.crew.threads[thread.index()].activity = activity;
        if was_asleep {
            self.watch.thread_begins(now, thread, Begins::Computation);
        }
        self.await_event(cpu, thread);
    }

    /// Where jobs keep running, what would have been the end of one counts once.
    fn freeze_once(&mut self, job: usize) {
        if self.crew.jobs[job].outcome.is_none() {
            self.freeze(job);
        }
    }

    /// Wakes the workers that have something to do again.
    fn wakes_workers(&mut self, job: usize, waker: ThreadId) {
        let first = self.crew.jobs[job].threads.start;
        while let Some(worker) = self.crew.jobs[job].fibers.as_mut().and_then(super::Fibers::take_woken) {
            let woken = ThreadId((first + worker) as u32);
            if self.crew.threads[woken.index()].activity == Activity::Block {
                self.watch.wakes(self.now, waker, woken);
                self.wake(woken);
            }
        }
    }

    /// The time has come up to which a worker was to sleep; something else may have woken it before.
    pub(crate) fn has_rested(&mut self, thread: ThreadId) {
        let (job, worker) = (self.crew.threads[thread.index()].job(), self.crew.number(thread.index()));
        let fibers = self.crew.jobs[job].fibers.as_ref();
        let has_slept_enough = fibers.is_some_and(|fibers| fibers.has_slept_enough(self.now, worker));
        if has_slept_enough && self.crew.threads[thread.index()].activity == Activity::Block {
            self.wake(thread);
        }
    }
}
