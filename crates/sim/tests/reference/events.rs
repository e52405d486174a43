//! What happened, in the order in which it did.

use policy::{CpuId, Instant, JobId, ThreadId};
use rowlock_sim::scheduler::Why;
use rowlock_sim::watch::{Begins, Doing, Watch};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    CpuDoes(CpuId, Doing),
    ThreadBegins(ThreadId, Begins),
    ThreadIsReady(ThreadId, Why),
    BarrierCompletes(JobId, ThreadId),
    Wakes { waker: ThreadId, woken: ThreadId },
}

/// A list of what happened, and when.
#[derive(Debug, Default)]
pub(crate) struct Events(pub(crate) Vec<(Instant, Event)>);

impl Watch for Events {
    fn cpu_does(&mut self, at: Instant, cpu: CpuId, doing: Doing) {
        self.0.push((at, Event::CpuDoes(cpu, doing)));
    }

    fn thread_begins(&mut self, at: Instant, thread: ThreadId, what: Begins) {
        self.0.push((at, Event::ThreadBegins(thread, what)));
    }

    fn thread_is_ready(&mut self, at: Instant, thread: ThreadId, why: Why) {
        self.0.push((at, Event::ThreadIsReady(thread, why)));
    }

    fn barrier_completes(&mut self, at: Instant, job: JobId, last: ThreadId) {
        self.0.push((at, Event::BarrierCompletes(job, last)));
    }

    fn wakes(&mut self, at: Instant, waker: ThreadId, woken: ThreadId) {
        self.0.push((at, Event::Wakes { waker, woken }));
    }
}
