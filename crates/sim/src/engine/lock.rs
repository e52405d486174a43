//! The threads of a lock job: they acquire and release its lock.

use policy::record::Recorder;
use policy::waiting::Observation;
use policy::{CpuId, ThreadId};

use super::Engine;
use super::job::Task;
use super::observer::Observer;
use super::scheduler::Scheduler;
use super::threads::Activity;

impl<S: Scheduler, R: Recorder + Default, W: Observer + ?Sized> Engine<'_, S, R, W> {
    /// A thread of a lock job has ended a computation. It releases the lock if it has it, and wants
    /// it otherwise.
    pub(super) fn reach_lock(&mut self, cpu: CpuId, thread: ThreadId, rounds: u64) {
        let job = self.workload.threads[thread.index()].job();
        let lock = &mut self.workload.jobs[job].lock;
        if lock.is_held_by(thread) {
            self.release_lock(cpu, thread, rounds);
        } else if lock.is_free() {
            self.acquire_lock(cpu, thread);
        } else {
            self.workload.begin_wait(thread);
            self.decide(cpu, thread, Observation::Arrived);
        }
    }

    /// Whether a thread that waits for a lock finds it free.
    pub(super) fn is_lock_free_for(&self, thread: ThreadId) -> bool {
        let waiting = &self.workload.threads[thread.index()];
        let job = &self.workload.jobs[waiting.job()];
        waiting.is_waiting && matches!(job.task, Task::Lock { .. }) && job.lock.is_free()
    }

    /// A thread that has a CPU acquires the lock.
    pub(super) fn acquire_lock(&mut self, cpu: CpuId, thread: ThreadId) {
        let acquiring = &mut self.workload.threads[thread.index()];
        let job = acquiring.job();
        if std::mem::take(&mut acquiring.is_waiting) {
            self.workload.note_wait_over(thread.index());
            self.end_wait(thread);
        }
        self.workload.jobs[job].lock.acquire(thread);
        self.observer.lock_acquired(self.now, thread);
        self.begin(thread);
        self.await_event(cpu, thread);
    }

    fn release_lock(&mut self, cpu: CpuId, thread: ThreadId, rounds: u64) {
        self.observer.lock_released(self.now, thread);
        let job = self.workload.threads[thread.index()].job();
        let threads = &self.workload.threads;
        let spins = |waiting: ThreadId| matches!(threads[waiting.index()].activity, Activity::Spin { .. });
        if let Some(woken) = self.workload.jobs[job].lock.release(spins) {
            self.observer.thread_woken(self.now, thread, woken);
            self.wake(woken);
        }
        let spins_on = |waiter| Some((waiter, self.workload.spins_on(waiter)?));
        let first = self.workload.jobs[job].lock.awake().find_map(spins_on);
        if let Some((spinner, cpu)) = first {
            self.charge(cpu);
            self.acquire_lock(cpu, spinner);
        }
        self.finish_turn(cpu, thread, rounds);
    }

    /// A thread has released the lock.
    fn finish_turn(&mut self, cpu: CpuId, thread: ThreadId, rounds: u64) {
        let is_through = self.workload.count_turn(thread.index()) >= rounds;
        if is_through && !self.keep_running {
            return self.end(cpu, thread);
        }
        if is_through {
            self.count_as_ended(thread);
        }
        self.begin(thread);
        self.await_event(cpu, thread);
    }
}
