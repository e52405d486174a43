//! The list of a run's events.

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

/// The events, with their times, in the order in which they happened.
#[derive(Debug, Default)]
pub(crate) struct Events(pub(crate) Vec<(Instant, Event)>);

/// The number of events that are compared. Few runs are longer. Some have no end, for example if a
/// thread is preempted again and again at the moment at which it gets its CPU.
pub(crate) const ENOUGH: usize = 20_000;

/// The payload with which an observer unwinds when it has seen enough.
pub(crate) struct SeenEnough;

impl Events {
    pub(crate) fn are_enough(&self) -> bool {
        self.0.len() >= ENOUGH
    }

    pub(crate) fn tell(&mut self, at: Instant, event: Event) {
        self.0.push((at, event));
    }

    /// There is no other way to stop the simulator.
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
