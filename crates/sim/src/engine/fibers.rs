//! Kernel threads that run the fibers of a job: each acts as a worker of the library, and blocks
//! when that would sleep.

use policy::record::Recorder;
use policy::{CpuId, ThreadId};

use super::Engine;
use super::observer::{Observer, ThreadPhase};
use super::scheduler::Scheduler;
use super::threads::Activity;
use crate::workloads::fibers::WorkerAction;

impl<S: Scheduler, R: Recorder + Default, W: Observer + ?Sized> Engine<'_, S, R, W> {
    /// A thread of a fiber job has a CPU and continues.
    pub(super) fn run_fibers(&mut self, cpu: CpuId, thread: ThreadId) {
        let now = self.now;
        let (job, worker) = self.workload.job_and_number(thread);
        let was_asleep = self.workload.threads[thread.index()].activity == Activity::Look;
        let of = &mut self.workload.jobs[job];
        let Some(fibers) = &mut of.fibers else { return };
        let mut action = fibers.resume(now, worker);
        of.rounds_done = fibers.bursts;
        if action == WorkerAction::End && self.keep_running && fibers.is_over {
            // Only the first end counts.
            if of.outcome.is_none() {
                self.freeze(job);
            }
            let Some(fibers) = &mut self.workload.jobs[job].fibers else { return };
            fibers.begin();
            action = fibers.resume(now, worker);
        }
        self.wake_workers(job, thread);
        let activity = match action {
            WorkerAction::Compute(left) => Activity::Compute { left },
            WorkerAction::Manage(left) => Activity::Manage { left },
            WorkerAction::Sleep(until) => return self.sleep(cpu, thread, until),
            WorkerAction::End => return self.end(cpu, thread),
        };
        self.workload.threads[thread.index()].activity = activity;
        if was_asleep {
            self.observer.thread_began(now, thread, ThreadPhase::Computation);
        }
        self.await_event(cpu, thread);
    }

    /// Wakes the workers that have work again.
    fn wake_workers(&mut self, job: usize, waker: ThreadId) {
        let first = self.workload.jobs[job].threads.start;
        while let Some(worker) = self.workload.jobs[job].fibers.as_mut().and_then(|fibers| fibers.woken.pop()) {
            let woken = ThreadId((first + worker) as u32);
            if self.workload.threads[woken.index()].activity == Activity::Block {
                self.observer.thread_woken(self.now, waker, woken);
                self.wake(woken);
            }
        }
    }

    /// The time until which a worker or a rank sleeps is reached. Another event may have woken a
    /// worker before.
    pub(super) fn end_sleep(&mut self, thread: ThreadId) {
        let (job, worker) = self.workload.job_and_number(thread);
        let fibers = self.workload.jobs[job].fibers.as_ref();
        let has_slept_enough = fibers.is_none_or(|fibers| fibers.has_slept_enough(self.now, worker));
        if has_slept_enough && self.workload.threads[thread.index()].activity == Activity::Block {
            self.wake(thread);
        }
    }
}
