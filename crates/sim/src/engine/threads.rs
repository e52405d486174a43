//! Threads: where each is, and what it does.

use policy::waiting::Waiter;
use policy::{CellId, CpuId, Instant, Span, ThreadId};
use scenario::draw::Stream;

use super::account::CpuUse;

/// Longer than any run: the remaining work of an endless thread.
pub(crate) const ENDLESS: Span = Span::MAX;

/// The place of a thread: it is in exactly one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a queue of the scheduler.
    #[default]
    Ready,
    /// A CPU is switching to it.
    SwitchingIn(CpuId),
    /// On a CPU.
    Running(CpuId),
    /// A CPU is switching away from it.
    SwitchingOut(CpuId),
    /// Off the CPUs because it is stopped. It could run otherwise.
    Stopped,
    /// Off the CPUs until its barrier completes, its lock is released, a buffer or a message comes,
    /// the device is done, or its sleep is over.
    Blocked,
    /// It has ended, or its job has not arrived.
    Gone,
}

impl Place {
    /// Whether a thread in this place neither has nor wants a CPU.
    pub(super) fn is_away(self) -> bool {
        matches!(self, Place::Stopped | Place::Blocked | Place::Gone)
    }
}

/// The activity of a thread that has a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Activity {
    /// It computes for the time `left`.
    Compute { left: Span },
    /// It writes a counter on its way to the barrier, after the time `left`.
    Fetch { left: Span, counter: u32 },
    /// The library of its job works for the time `left`.
    Manage { left: Span },
    /// It spins for the time `left`; its rule asked for `asked`.
    Spin { left: Span, asked: Span },
    /// It is inside `sched_yield`, called at `since`, for the time `left`.
    Yield { left: Span, since: Instant },
    /// It finds out whether the missing threads run, for the time `left`.
    CheckRunning { left: Span },
    /// It is moving to another CPU.
    Move,
    /// It waits to be woken.
    Block,
    /// It was woken, and checks whether its lock is free, or what its pipeline, its fibers or its
    /// mailbox have for it.
    Look,
    /// Its work is complete.
    #[default]
    Exit,
}

impl Activity {
    pub(crate) fn use_of_cpu(self) -> CpuUse {
        match self {
            Activity::Compute { .. } => CpuUse::Work,
            Activity::Spin { .. } | Activity::CheckRunning { .. } => CpuUse::Spin,
            _ => CpuUse::Switch,
        }
    }
}

/// One simulated thread. Small, because a run may have a hundred thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Thread {
    pub(super) job: u32,
    /// The number of its [cell](Thread::cell), which is below 65 536.
    pub(super) cell: u16,
    pub(crate) place: Place,
    pub(crate) activity: Activity,
    pub(crate) nice: i8,
    /// Whether it may not run, in whatever place it is.
    pub(super) is_stopped: bool,
    /// Whether it has a CPU of another cell than its own, or is switched to or away from there.
    pub(super) is_moving: bool,
    /// Whether it waits at the barrier.
    pub(super) arrived: bool,
    /// Whether it was the last to arrive at a barrier that has not completed.
    pub(super) is_last: bool,
    /// Whether it waits for its job's lock, for a buffer or for messages.
    pub(crate) is_waiting: bool,
    /// Whether its wait is over but it has had no CPU to notice that.
    pub(super) has_waited: bool,
    /// Whether it spun in its last wait.
    pub(crate) has_spun: bool,
    /// Whether the run waits for its job, and its part of that is not done.
    pub(crate) is_awaited: bool,
    /// Whether it has completed its work once.
    pub(crate) has_ended: bool,
}

/// The additional data of a thread whose job draws computations and has its threads wait for each
/// other.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) waiter: Waiter,
    pub(super) stream: Stream,
    /// The draws of its waiting rule, created with the first one. Separate from other draws, so
    /// that a rule changes no computation.
    pub(super) draws: Option<Box<Stream>>,
    /// How often it has had the lock.
    pub(super) turns: u64,
    /// Its activity at the end of its wait, if [`has_waited`](Thread::has_waited).
    pub(super) waited: Activity,
    /// The CPU on which it last arrived or, as a rank, last did something.
    pub(super) last_seen: Option<CpuId>,
    /// Its number in the records of decisions: that within the job or, for a lock, one for each
    /// wait.
    pub(crate) recorded_as: ThreadId,
}

impl Thread {
    /// The cell on which it runs, or to which it moves; zero on a machine without cells.
    #[inline]
    pub(crate) fn cell(&self) -> CellId {
        CellId(self.cell.into())
    }

    pub(super) fn set_cell(&mut self, cell: CellId) {
        self.cell = cell.0 as u16;
    }

    /// Whether it may not have its CPU, or none at all.
    #[inline]
    pub(super) fn may_not_run(&self) -> bool {
        self.is_stopped | self.is_moving
    }

    #[inline]
    pub(crate) fn job(&self) -> usize {
        self.job as usize
    }

    /// Charges running time to its remaining activity.
    #[inline]
    pub(crate) fn ran(&mut self, span: Span) {
        match &mut self.activity {
            Activity::Compute { left }
            | Activity::Fetch { left, .. }
            | Activity::Manage { left }
            | Activity::Spin { left, .. }
            | Activity::Yield { left, .. }
            | Activity::CheckRunning { left } => {
                if *left != ENDLESS {
                    *left -= span;
                }
            }
            Activity::Move | Activity::Block | Activity::Look | Activity::Exit => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_small() {
        assert!(size_of::<Thread>() <= 48, "{}", size_of::<Thread>());
    }
}
