//! The interface for observers of a simulation.

use policy::{CpuId, Instant, JobId, ThreadId};

use super::scheduler::ReadyReason;

/// The reason why a thread leaves its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaveReason {
    /// The scheduler prefers another thread.
    Preempted,
    /// It has yielded to another thread.
    Yielding,
    /// It waits to be woken.
    Blocking,
    /// It has ended.
    Ending,
    /// It is stopped, or moves to another cell.
    Stopped,
}

/// The state of a CPU. Threads are numbered through the run, job by job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuState {
    /// It runs no thread.
    Idle,
    /// It switches from one thread to another. Either may be absent.
    Switching {
        /// The outgoing thread, and why it leaves.
        from: Option<(ThreadId, LeaveReason)>,
        /// The incoming thread.
        to: Option<ThreadId>,
    },
    /// It runs a thread.
    Running(ThreadId),
}

/// A phase that a thread begins. Every thread computes first, except those of a pipeline, which
/// first look for a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadPhase {
    /// A computation: before its next barrier, with or without its lock, of a stage, or its only
    /// one.
    Computation,
    /// Spinning: others have not arrived, or its lock is held.
    Spin,
    /// A `sched_yield`.
    Yield,
    /// Leaving its CPU until it is woken, or until the device, a message or its sleep is done.
    Block,
    /// Leaving its CPU for good.
    End,
}

/// An observer of a simulation. The engine reports events in the order in which they happen. An
/// observer changes nothing. Threads and jobs are numbered through the run, copies of a job one by
/// one.
///
/// A thread that its barrier releases begins its next computation in its present place: a preempted
/// spinner in the run queue, a blocked thread while it still sleeps.
pub trait Observer {
    /// `cpu` changes its state. Every CPU is idle at the start.
    fn cpu_changed(&mut self, at: Instant, cpu: CpuId, state: CpuState);

    /// `thread` begins another phase.
    fn thread_began(&mut self, _at: Instant, _thread: ThreadId, _what: ThreadPhase) {}

    /// `thread` is ready to run and waits for a CPU.
    fn thread_ready(&mut self, _at: Instant, _thread: ThreadId, _why: ReadyReason) {}

    /// All threads of `job` have met. `last` was the last to arrive. The consequences are reported
    /// next.
    fn barrier_completed(&mut self, _at: Instant, _job: JobId, _last: ThreadId) {}

    /// `thread` acquires its job's lock.
    fn lock_acquired(&mut self, _at: Instant, _thread: ThreadId) {}

    /// `thread` releases its job's lock. The consequences are reported next.
    fn lock_released(&mut self, _at: Instant, _thread: ThreadId) {}

    /// `from` sends a message to `to`.
    fn message_sent(&mut self, _at: Instant, _from: ThreadId, _to: ThreadId) {}

    /// `to` takes a message of `from` from its mailbox.
    fn message_received(&mut self, _at: Instant, _from: ThreadId, _to: ThreadId) {}

    /// `thread`, which was ready, is stopped and leaves its queue.
    fn thread_stopped(&mut self, _at: Instant, _thread: ThreadId) {}

    /// `waker` wakes `woken`, which is blocked or about to block. It becomes ready immediately, or
    /// when its CPU has switched away. A stopped thread becomes ready when it is resumed.
    fn thread_woken(&mut self, _at: Instant, _waker: ThreadId, _woken: ThreadId) {}
}

/// The observer that ignores everything, at no cost.
impl Observer for () {
    fn cpu_changed(&mut self, _: Instant, _: CpuId, _: CpuState) {}
}
