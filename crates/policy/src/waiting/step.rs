//! The inputs and the outputs of a step of a waiting rule.

use crate::units::{CpuId, Instant, Span, ThreadId};

/// A decision: what the waiting thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Decision {
    /// Watch the barrier without giving up the CPU, for at most this much running time
    /// ([`Span::MAX`]: forever).
    Spin(Span),
    /// Yield the CPU once, by `sched_yield`, and look again.
    Yield,
    /// Block until woken.
    Block,
    /// Move to this CPU, if that is allowed, and ask again. The scheduler remains free to move the
    /// thread on.
    Move(CpuId),
    /// Find out whether the missing threads run, and ask again.
    CheckRunning,
}

/// An observation: what the waiting thread last saw. The wait was not over at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Observation {
    /// It has just arrived, or was asleep until its turn, and others are missing.
    Arrived,
    /// It has spun for this much running time. Time off the CPU does not count.
    Spun(Span),
    /// It has yielded, and ran again after this time.
    Yielded(Span),
    /// It was woken although others are still missing.
    Woken,
    /// It was told to move and has moved, unless its CPU is now a different one.
    Moved,
    /// It has checked whether the missing threads run.
    Checked(Running),
}

/// Whether the missing threads had CPUs when a waiting thread checked.
///
/// A thread without a CPU is ready, asleep or stopped, or the hypervisor has taken its CPU away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Running {
    /// All of those that were checked had one. A world may check only some of many.
    All,
    /// At least one had none.
    NotAll,
    /// Nothing is known about at least one of them, and the others had one: it belongs to another
    /// process, has not arrived before or has ended, or no thread is known to be missing.
    Unknown,
}

/// A team member that has not arrived yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Missing {
    /// Its number in the team.
    pub thread: ThreadId,
    /// The CPU on which it last arrived; `None` before its first arrival.
    pub last_seen: Option<CpuId>,
}

/// The team at one moment, as seen by its waiting member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Team<'a> {
    /// The time on the world's clock.
    pub now: Instant,
    /// How many threads meet; zero if it is unknown which threads will come, as at a lock.
    pub threads: u32,
    /// How many rounds the team has completed. Zero if it is not counted, as at a lock.
    pub round: u64,
    /// How many CPUs they may use.
    pub cpus: u32,
    /// The CPU on which the waiting thread runs.
    pub own_cpu: CpuId,
    /// The missing members, by ascending number. A world may leave it empty if
    /// [`Waiter::inputs`](super::Waiter::inputs) does not ask for it, and does at a lock.
    pub missing: &'a [Missing],
    /// How many threads the machine has to place: all that run or are ready, in any program, and
    /// the blocked ones of this team (or of its process, if a world counts them by process). Zero
    /// if [`Waiter::inputs`](super::Waiter::inputs) does not ask for it.
    pub load: u32,
    /// Whether the world can move threads.
    pub movable: bool,
    /// A random number, new for each step and uniform over its range. Zero if
    /// [`Waiter::inputs`](super::Waiter::inputs) does not ask for it.
    pub draw: u32,
    /// Whose turn it is.
    pub turn: Turn,
}

/// Whose turn it is, where parallel jobs take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Turn {
    /// Jobs take no turns, or nothing is known about them.
    #[default]
    NoTurns,
    /// It is the turn of the waiting thread's job, until this time.
    OursUntil(Instant),
    /// It is the turn of other jobs, at least until this time.
    OthersUntil(Instant),
}

impl Turn {
    /// Whether there are no turns.
    pub const fn is_none(&self) -> bool {
        matches!(self, Turn::NoTurns)
    }

    /// Whether it is the turn of other jobs.
    pub const fn is_others(&self) -> bool {
        matches!(self, Turn::OthersUntil(_))
    }
}

/// The shared memory of a team from wait to wait: one word, so that a world can keep it in one
/// atomic. Zero at the start.
///
/// A world reads it before a step and publishes what the step made of it. If two members do so at
/// the same time, one of the changes may be lost. A lost overload mark returns with a later slow
/// yield.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct TeamState(pub u64);

/// The inputs that a rule uses. A world may skip the work of providing the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// [`Team::missing`].
    pub missing: bool,
    /// Whether the missing threads run, if the rule decides to [check](Decision::CheckRunning). So
    /// every thread that arrives, or acquires a lock, must publish how to find out.
    pub running: bool,
    /// [`Team::load`].
    pub load: bool,
    /// [`Team::draw`].
    pub draw: bool,
}

/// The costs on one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Costs {
    /// CS: the cost of getting a blocked sibling running again.
    pub cs: Span,
    /// The "+" of `cs+` and `2cs+`.
    pub margin: Span,
    /// A `sched_yield` on a CPU that no other thread needs.
    pub lone_yield: Span,
    /// The least time for which another program keeps a CPU that was yielded to it: the scheduler's
    /// tick.
    pub tick: Span,
}

/// The tick if the costs do not state it.
const USUAL_TICK: Span = Span::from_millis(4);
/// A yield that takes at most this many thousandths of a lone yield was a lone one.
const LONE: u64 = 1_800;
/// A yield that takes this many thousandths of a tick has let another program run.
const LOST: u64 = 250;

impl Costs {
    /// These costs with a usual tick, if they state none.
    pub(super) const fn with_tick(mut self) -> Costs {
        if self.tick.is_zero() {
            self.tick = USUAL_TICK;
        }
        self
    }

    /// Whether a yield was as short as on a CPU that no other thread needs.
    pub(super) fn is_lone_yield(&self, took: Span) -> bool {
        took <= self.lone_yield.scaled(LONE)
    }

    /// Whether a yield was so long that another program has used the CPU.
    pub(super) fn is_lost_tick(&self, took: Span) -> bool {
        took >= self.tick.scaled(LOST)
    }
}
