//! The threads of a lock job: they acquire and release its lock.

use policy::record::Recorder;
use policy::waiting::Observation;
use policy::{CpuId, ThreadId};

use super::Engine;
use super::observer::Observer;
use super::scheduler::{ReadyReason, Scheduler};
use super::threads::{Activity, Place};

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
            let wait = lock.begin_wait(thread);
            self.workload.begin_wait(thread.index(), wait);
            self.decide(cpu, thread, Observation::Arrived);
        }
    }

    /// Whether a thread that waits for a lock finds it free.
    pub(super) fn is_lock_free_for(&self, thread: ThreadId) -> bool {
        let waiting = &self.workload.threads[thread.index()];
        let job = &self.workload.jobs[waiting.job()];
        waiting.is_waiting && job.has_lock() && job.lock.is_free()
    }

    /// A thread that has a CPU acquires the lock.
    pub(super) fn acquire_lock(&mut self, cpu: CpuId, thread: ThreadId) {
        let taking = &mut self.workload.threads[thread.index()];
        let job = taking.job();
        if std::mem::take(&mut taking.is_waiting) {
            self.workload.note_wait_over(thread.index());
            self.end_wait(thread);
        }
        self.workload.jobs[job].lock.acquire(thread, cpu);
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
            self.workload.threads[woken.index()].activity = Activity::Look;
            // If it is still on its way to sleep, it becomes ready when its CPU has switched away.
            if self.workload.threads[woken.index()].place == Place::Blocked {
                self.ready(woken, ReadyReason::Woken);
            }
        }
        if let Some((spinner, cpu)) = self.first_spinner(job) {
            self.charge(cpu);
            self.acquire_lock(cpu, spinner);
        }
        self.finish_turn(cpu, thread, rounds);
    }

    /// The thread that spins with a CPU, and that CPU. If there are several, the one that has waited longest.
    fn first_spinner(&self, job: usize) -> Option<(ThreadId, CpuId)> {
        self.workload.jobs[job].lock.awake().find_map(|thread| {
            let waiting = &self.workload.threads[thread.index()];
            match (waiting.activity, waiting.place) {
                (Activity::Spin { .. }, Place::Running(cpu)) => Some((thread, cpu)),
                _ => None,
            }
        })
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
