//! Threads: where each is, and what it does.

use policy::waiting::Waiter;
use policy::{CpuId, Instant, Span, ThreadId};
use scenario::draw::Stream;

use super::account::Use;

/// Longer than any run: what an endless thread has left to do.
pub(crate) const ENDLESS: Span = Span::MAX;

/// Where a thread is: in exactly one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the scheduler's hands.
    Ready,
    /// A CPU is switching to it.
    Coming(CpuId),
    /// On a CPU.
    Running(CpuId),
    /// A CPU is switching away from it.
    Leaving(CpuId),
    /// Off the CPUs until its barrier completes, its lock is given back, a buffer comes, or the device is done.
    Blocked,
    /// It has ended, or its job has not arrived.
    Gone,
}

impl Place {
    /// Whether a thread there neither has a CPU nor wants one.
    pub(super) fn is_away(self) -> bool {
        matches!(self, Place::Blocked | Place::Gone)
    }
}

/// What a thread does with a CPU when it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// It computes for so much longer.
    Compute { left: Span },
    /// The library of its job is at work for so much longer.
    Manage { left: Span },
    /// It spins for so much longer; it was told to for `asked`.
    Spin { left: Span, asked: Span },
    /// It is inside `sched_yield`, called at `since`, for so much longer.
    Yield { left: Span, since: Instant },
    /// It is on its way to another CPU.
    Move,
    /// It waits to be woken.
    Block,
    /// It was woken, and looks whether its lock is free, or what its pipeline has for it.
    Look,
    /// Its job is done with it.
    Exit,
}

impl Activity {
    /// What a CPU that it runs on is used for.
    pub(crate) fn use_of_cpu(self) -> Use {
        match self {
            Activity::Compute { .. } => Use::Work,
            Activity::Spin { .. } => Use::Spin,
            Activity::Manage { .. }
            | Activity::Yield { .. }
            | Activity::Move
            | Activity::Block
            | Activity::Look
            | Activity::Exit => Use::Switch,
        }
    }
}

/// How a thread waited for what has meanwhile come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// It spun, for so long.
    Spinning(Span),
    /// It was inside `sched_yield`, called then.
    Yielding(Instant),
    /// It was on its way to another CPU.
    Moving,
    /// It slept, or was about to look.
    Sleeping,
}

/// One simulated thread: what each has, be there a hundred thousand of them.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(super) job: u32,
    pub(crate) place: Place,
    pub(crate) activity: Activity,
    pub(crate) nice: i8,
    /// Whether it waits at the barrier.
    pub(super) arrived: bool,
    /// Whether it waits for its job's lock, or for a buffer.
    pub(crate) is_waiting: bool,
    /// Whether it has waited for something that has meanwhile come, and has had no CPU yet to find that out.
    pub(super) has_waited: bool,
    /// Whether it has spun in its last wait.
    pub(crate) has_spun: bool,
    /// Whether the run waits for its job, and it has not done its part of that yet.
    pub(crate) is_awaited: bool,
    /// Whether it has done once what it is there for.
    pub(crate) has_ended: bool,
}

/// What a thread has besides where threads draw what they compute, and wait for each other.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) waiter: Waiter,
    pub(super) stream: Stream,
    /// The draws of its waiting rule, from the first on: apart from the others, so that a rule changes nobody's work.
    pub(super) draws: Option<Box<Stream>>,
    /// How often it has had the lock.
    pub(super) turns: u64,
    /// How it has waited, where it [has](Thread::has_waited).
    pub(super) waited: Waited,
    /// Where it was when it last arrived.
    pub(super) last_seen: Option<CpuId>,
    /// Its number in the records of decisions: that within the job, but for a lock, where each wait has its own.
    pub(crate) recorded_as: ThreadId,
}

impl Thread {
    /// The number of its job.
    #[inline]
    pub(crate) fn job(&self) -> usize {
        self.job as usize
    }

    /// Whether it has to be told that what it waited for has come.
    #[inline]
    pub(crate) fn has_waited(&self) -> bool {
        self.has_waited
    }

    /// Charges running time against what it has left to do.
    #[inline]
    pub(crate) fn ran(&mut self, span: Span) {
        match &mut self.activity {
            Activity::Compute { left }
            | Activity::Manage { left }
            | Activity::Spin { left, .. }
            | Activity::Yield { left, .. } => {
                if *left != ENDLESS {
                    *left -= span;
                }
            }
            Activity::Move | Activity::Block | Activity::Look | Activity::Exit => {}
        }
    }
}
