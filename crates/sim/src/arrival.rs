//! How threads come: with the run, or with a job that arrives later.
//!
//! Until its job arrives a thread is nowhere: it is no load, and no kernel knows it.

use policy::record::Recorder;
use policy::{Instant, ThreadId};
use scenario::draw::Stream;

use crate::device::Due;
use crate::engine::Engine;
use crate::scheduler::{Scheduler, Why};
use crate::watch::Watch;

impl<S: Scheduler, R: Recorder + Default, W: Watch + ?Sized> Engine<'_, S, R, W> {
    /// Makes the threads of all jobs that are there ready, in random order, and puts down when the others come.
    pub(crate) fn begins(&mut self, seed: u64) {
        for job in 0..self.crew.jobs.len() {
            match self.crew.jobs[job].arrives {
                Instant::ZERO => self.prepare_pipeline(job),
                later => self.set(later, Due::Arrives(job)),
            }
        }
        let mut order: Vec<u32> = (0..self.crew.threads.len() as u32).collect();
        Stream::named(seed, "initial queue order", 0).shuffle(&mut order);
        for thread in order {
            if self.crew.jobs[self.crew.threads[thread as usize].job()].arrives == Instant::ZERO {
                self.ready(ThreadId(thread), Why::New);
            }
        }
    }

    /// A job arrives: its threads are ready, in the order of their numbers.
    pub(crate) fn arrives(&mut self, job: usize) {
        self.crew.to_come -= 1;
        self.prepare_pipeline(job);
        for thread in self.crew.jobs[job].threads.clone() {
            self.ready(ThreadId(thread as u32), Why::New);
        }
    }
}
