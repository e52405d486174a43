//! Workers: threads that run copies of stages where buffers wait.
//!
//! A worker that has processed a buffer takes it to the next stage itself, if a copy is idle there.
//! So a buffer passes through many stages on one CPU while its bytes are in that CPU's cache, and
//! no thread is woken. Buffers that still wait at the previous stage are left to other workers. A
//! worker wakes one for them only before a call that takes longer than waking.

use std::sync::Arc;

use wait::Event;

use crate::copy::{GroupCopy, Processed};
use crate::engine::{Engine, Job, Sleeper, ThreadBuffers};
use crate::queue::TakeResult;
use crate::ready::NextJob;
use crate::yield_budget::YieldBudget;

/// The approximate time to wake a worker, in nanoseconds.
const WAKING: u64 = 5_000;

impl<'a, T> Engine<'a, T> {
    /// Runs jobs until no group that workers run can get another buffer. `own` is the event of this
    /// worker.
    pub(crate) fn work(&self, own: &Arc<Event>) {
        let (mut buffers, mut yield_budget) = (ThreadBuffers::for_worker(), YieldBudget::new());
        loop {
            // Jobs nearest to the end of their pipeline come first, because they free buffers.
            match self.ready.take(|job| self.groups.len() - job.at, own) {
                NextJob::Job(mut job) => {
                    job.end_wait_for_worker();
                    self.run_job(job, &mut buffers);
                }
                NextJob::Sleeping => {
                    self.sleep(own, &mut yield_budget);
                }
                NextJob::Ended => break,
            }
        }
        self.leave();
    }

    fn run_job(&self, job: Job<'a, T>, buffers: &mut ThreadBuffers<'a, T>) {
        let mut job = Some(job);
        while let Some(Job { at, mut copy, .. }) = job.take() {
            let passed = buffers.take_passed();
            if self.ending.is_ending() || !copy.begin(&self.ending) {
                self.return_free(self.groups[at].first, buffers);
                self.retire(*copy);
                job = buffers.next_job.take();
                continue;
            }
            let taken = match passed {
                Some(first) => TakeResult::Buffers { first, left: 0, taker: Sleeper::Copy(copy) },
                None => {
                    let most = copy.batch_size();
                    self.take(at, most, buffers, Sleeper::Copy(copy))
                }
            };
            match taken {
                TakeResult::Buffers { first, left, taker: Sleeper::Copy(mut copy) } => {
                    copy.record_depths(left, buffers.input.len());
                    if self.ready.has_unattended() && copy.estimate(buffers.input.len()) > WAKING {
                        self.ready.sleeper().iter().for_each(|sleeper| self.wake(sleeper));
                    }
                    let processed = copy.process(&mut buffers.input, &mut buffers.output, &self.ending);
                    let (depth, sent) = self.deliver(at, first, &processed, buffers);
                    if sent > 0 {
                        copy.output_depth = Some(depth);
                    }
                    if processed == Processed::Broken {
                        self.retire(*copy);
                    } else if buffers.next_job.is_none() {
                        buffers.next_job = Some(Job::new(at, copy));
                    } else {
                        self.leave_behind(at, copy, buffers);
                    }
                }
                TakeResult::Closed(Sleeper::Copy(copy)) => self.retire(*copy),
                // Only for threads that run their own stages.
                TakeResult::Sleeping | TakeResult::Buffers { .. } | TakeResult::Closed(Sleeper::Thread(_)) => {}
            }
            job = buffers.next_job.take();
        }
    }

    /// Gives up a copy: it becomes idle, or a job if buffers wait for it.
    fn leave_behind(&self, at: usize, copy: Box<GroupCopy<'a, T>>, buffers: &mut ThreadBuffers<'a, T>) {
        match self.take(at, 0, buffers, Sleeper::Copy(copy)) {
            TakeResult::Buffers { taker: Sleeper::Copy(copy), .. } => self.add(Job::new(at, copy), false),
            TakeResult::Closed(Sleeper::Copy(copy)) => self.retire(*copy),
            _ => {}
        }
    }

    pub(crate) fn retire(&self, copy: GroupCopy<'a, T>) {
        let log = copy.end(&self.ending);
        if log.is_enabled {
            self.call_logs.lock().push(log);
        }
    }
}
