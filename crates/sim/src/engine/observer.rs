//! Looking on: what each CPU does, as it happens.

use policy::{CpuId, Instant, JobId, ThreadId};

use super::scheduler::ReadyReason;

/// How a thread leaves its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaveReason {
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
pub enum CpuState {
    /// Nothing.
    Idle,
    /// Switching from one thread to another; either may be idleness.
    Switching {
        /// Who leaves, and how.
        from: Option<(ThreadId, LeaveReason)>,
        /// Who comes.
        to: Option<ThreadId>,
    },
    /// Running a thread.
    Running(ThreadId),
}

/// What a thread begins to do with its CPU. Every thread computes first, but for those of a pipeline, which first look for a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadPhase {
    /// The computation before its next barrier, without its lock or with it, of a stage, or its only one.
    Computation,
    /// Spinning: it has arrived, and others are missing, or its lock is held.
    Spin,
    /// A `sched_yield`.
    Yield,
    /// Leaving its CPU until it is woken, or the device or a message is done.
    Block,
    /// Leaving its CPU for good.
    End,
}

/// Somebody who looks on while a simulation runs. It is told of what happens, in the order in which it does, and changes
/// nothing. Threads and jobs are numbered through the run, copies of a job one by one.
///
/// A thread that is released from its barrier begins its next computation wherever it is: a spinner that was preempted does
/// so in the queue, a blocked thread while it still sleeps.
pub trait Observer {
    /// `cpu` does something else from now on. Every CPU is idle at the start.
    fn cpu_changed(&mut self, at: Instant, cpu: CpuId, state: CpuState);

    /// `thread` begins something else.
    fn thread_began(&mut self, _at: Instant, _thread: ThreadId, _what: ThreadPhase) {}

    /// `thread` is ready to run and waits for a CPU.
    fn thread_ready(&mut self, _at: Instant, _thread: ThreadId, _why: ReadyReason) {}

    /// All threads of `job` have met; `last` was the last to arrive. What follows from it is told next.
    fn barrier_completed(&mut self, _at: Instant, _job: JobId, _last: ThreadId) {}

    /// `thread` has its job's lock from now on.
    fn lock_acquired(&mut self, _at: Instant, _thread: ThreadId) {}

    /// `thread` gives its job's lock back. What follows from it is told next.
    fn lock_released(&mut self, _at: Instant, _thread: ThreadId) {}

    /// `waker` wakes `woken`, which is blocked or on its way there; it is ready at once, or when its CPU has switched away.
    fn thread_woken(&mut self, _at: Instant, _waker: ThreadId, _woken: ThreadId) {}
}

/// Nobody looks on, at no cost.
impl Observer for () {
    fn cpu_changed(&mut self, _: Instant, _: CpuId, _: CpuState) {}
}
