//! What the engine asks of a kernel's scheduler.
//!
//! A scheduler keeps its own queues and its own picture of who runs where; the engine tells it of every change, asks it
//! whom to run, and carries the answer out at the machine's cost. It has no clock but the `now` that it is given.

use policy::{CpuId, Instant, ThreadId};

/// How a thread came to be ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The run begins.
    New,
    /// What it was blocked on has happened.
    Woken,
    /// It was preempted, and the switch away from it is over.
    Preempted,
    /// It has yielded, and the switch away from it is over.
    Yielded,
}

/// A kernel's scheduler.
///
/// A thread is the scheduler's to hand out from [`ready`](Scheduler::ready) until [`pick`](Scheduler::pick) returns it.
/// From then on it is `current` on that CPU, until the CPU picks another or the thread leaves.
pub trait Scheduler {
    /// `thread` may run from now on. Returns the CPU that should pick again, if any: an idle one, or one whose thread
    /// should be preempted.
    fn ready(&mut self, thread: ThreadId, why: Why, now: Instant, idle: &IdleCpus) -> Option<CpuId>;

    /// Chooses what `cpu` runs next: the thread that it runs (`current`, if that can go on) or one that is ready; `None`
    /// leaves it idle. A current thread that is not chosen comes back by [`ready`](Scheduler::ready) when the switch is over.
    fn pick(&mut self, cpu: CpuId, current: Option<ThreadId>, now: Instant) -> Option<ThreadId>;

    /// The current `thread` of `cpu` blocks or ends; the next call is a [`pick`](Scheduler::pick) for `cpu` without it.
    fn leave(&mut self, cpu: CpuId, thread: ThreadId, now: Instant);

    /// The current `thread` of `cpu` calls `sched_yield`; the next call is a [`pick`](Scheduler::pick) for `cpu`.
    fn yields(&mut self, cpu: CpuId, thread: ThreadId, now: Instant);

    /// When the scheduler wants to look at `cpu` again, whose thread runs from now on. Asked when a thread gets a CPU,
    /// and again after each alarm.
    fn alarm(&self, cpu: CpuId, now: Instant) -> Instant;

    /// The alarm of `cpu` went off. Returns who should pick again.
    fn alarmed(&mut self, cpu: CpuId, now: Instant, idle: &IdleCpus) -> Picks;

    /// Whether a thread waits that `cpu` would run if it picked now: then it must not stay idle.
    fn has_work_for(&self, cpu: CpuId, now: Instant) -> bool;

    /// How many threads are ready and not running.
    fn waiting(&self) -> usize;
}

/// Who should pick again after an alarm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Picks {
    /// The CPU whose alarm it was.
    pub this_cpu: bool,
    /// An idle CPU that should look for work; it picks first.
    pub another: Option<CpuId>,
}

/// The CPUs that are idle and have not been told to pick yet.
#[derive(Clone, Debug)]
pub struct IdleCpus {
    words: Vec<u64>,
}

impl IdleCpus {
    /// `cpus` CPUs, all idle.
    pub(crate) fn all(cpus: usize) -> IdleCpus {
        let mut idle = IdleCpus { words: vec![0; cpus.div_ceil(64)] };
        crate::cpu_ids(cpus).for_each(|cpu| idle.insert(cpu));
        idle
    }

    pub(crate) fn insert(&mut self, cpu: CpuId) {
        self.words[cpu.index() / 64] |= 1 << (cpu.index() % 64);
    }

    pub(crate) fn remove(&mut self, cpu: CpuId) {
        self.words[cpu.index() / 64] &= !(1 << (cpu.index() % 64));
    }

    /// The idle CPU with the lowest number.
    pub fn first(&self) -> Option<CpuId> {
        let (index, word) = self.words.iter().enumerate().find(|(_, word)| **word != 0)?;
        Some(CpuId(index as u32 * 64 + word.trailing_zeros()))
    }
}
