//! Looking on: what each CPU does, as it happens.

use policy::{CpuId, Instant, ThreadId};

/// How a thread leaves its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// The scheduler prefers another.
    Preempted,
    /// It has yielded, to another.
    Yielding,
    /// It waits to be woken.
    Blocking,
    /// It has ended.
    Ending,
}

/// What a CPU is doing. Threads are numbered through the run, job by job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Nothing.
    Idle,
    /// Switching from one thread to another; either may be idleness.
    Switching {
        /// Who leaves, and how.
        from: Option<(ThreadId, Leaving)>,
        /// Who comes.
        to: Option<ThreadId>,
    },
    /// Running a thread.
    Running(ThreadId),
}

/// Somebody who looks on while a simulation runs. It is told of what happens and changes nothing.
pub trait Watch {
    /// `cpu` does something else from now on. Every CPU is idle at the start.
    fn cpu_does(&mut self, at: Instant, cpu: CpuId, doing: Doing);
}

/// Nobody looks on, at no cost.
impl Watch for () {
    fn cpu_does(&mut self, _: Instant, _: CpuId, _: Doing) {}
}
