//! The arrival of jobs, at the start of the run or later.
//!
//! Until its job arrives, a thread adds no load and no kernel knows it.

use policy::record::Recorder;
use policy::{Instant, ThreadId};
use scenario::draw::Stream;

use super::Engine;
use super::device::TimedEvent;
use super::observer::Observer;
use super::scheduler::{ReadyReason, Scheduler};

impl<S: Scheduler, R: Recorder + Default, W: Observer + ?Sized> Engine<'_, S, R, W> {
    /// Makes the threads of all jobs that start with the run ready, in random order, and schedules
    /// the arrivals of the others.
    pub(super) fn start_jobs(&mut self, seed: u64) {
        for job in 0..self.workload.jobs.len() {
            match self.workload.jobs[job].arrives {
                Instant::ZERO => self.prepare_pipeline(job),
                later => self.set_timed_event(later, TimedEvent::JobArrival(job)),
            }
        }
        let mut order: Vec<u32> = (0..self.workload.threads.len() as u32).collect();
        Stream::named(seed, "initial queue order", 0).shuffle(&mut order);
        for thread in order {
            if self.workload.jobs[self.workload.threads[thread as usize].job()].arrives == Instant::ZERO {
                self.ready(ThreadId(thread), ReadyReason::New);
            }
        }
    }

    /// A job arrives: its threads become ready, in the order of their numbers.
    pub(super) fn admit_job(&mut self, job: usize) {
        self.workload.to_come -= 1;
        self.prepare_pipeline(job);
        for thread in self.workload.jobs[job].threads.clone() {
            self.ready(ThreadId(thread as u32), ReadyReason::New);
        }
    }
}
