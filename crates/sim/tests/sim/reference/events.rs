//! What happened, in the order in which it did.

use policy::{CpuId, Instant, JobId, ThreadId};
use rowlock_sim::observer::{CpuState, Observer, ThreadPhase};
use rowlock_sim::scheduler::ReadyReason;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    CpuChanged(CpuId, CpuState),
    ThreadBegan(ThreadId, ThreadPhase),
    ThreadReady(ThreadId, ReadyReason),
    BarrierCompletes(JobId, ThreadId),
    Wakes { waker: ThreadId, woken: ThreadId },
}

/// A list of what happened, and when.
#[derive(Debug, Default)]
pub(crate) struct Events(pub(crate) Vec<(Instant, Event)>);

/// So much of a run is looked at. Few are longer; some have no end, as where a thread is preempted in the very moment in which
/// it gets its CPU, again and again.
pub(crate) const ENOUGH: usize = 20_000;

/// What a observer unwinds with when it has seen enough.
pub(crate) struct SeenEnough;

impl Events {
    pub(crate) fn are_enough(&self) -> bool {
        self.0.len() >= ENOUGH
    }

    pub(crate) fn tell(&mut self, at: Instant, event: Event) {
        self.0.push((at, event));
    }

    /// There is no other way to make the simulator stop.
    fn tell_or_stop(&mut self, at: Instant, event: Event) {
        if self.are_enough() {
            std::panic::resume_unwind(Box::new(SeenEnough));
        }
        self.tell(at, event);
    }
}

impl Observer for Events {
    fn cpu_changed(&mut self, at: Instant, cpu: CpuId, state: CpuState) {
        self.tell_or_stop(at, Event::CpuChanged(cpu, state));
    }

    fn thread_began(&mut self, at: Instant, thread: ThreadId, what: ThreadPhase) {
        self.tell_or_stop(at, Event::ThreadBegan(thread, what));
    }

    fn thread_ready(&mut self, at: Instant, thread: ThreadId, why: ReadyReason) {
        self.tell_or_stop(at, Event::ThreadReady(thread, why));
    }

    fn barrier_completed(&mut self, at: Instant, job: JobId, last: ThreadId) {
        self.tell_or_stop(at, Event::BarrierCompletes(job, last));
    }

    fn thread_woken(&mut self, at: Instant, waker: ThreadId, woken: ThreadId) {
        self.tell_or_stop(at, Event::Wakes { waker, woken });
    }
}
