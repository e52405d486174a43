//! What the engine asks of a kernel's scheduler.
//!
//! A scheduler keeps its own queues and its own picture of who runs where; the engine tells it of every change, asks it
//! whom to run, and carries the answer out at the machine's cost. It has no clock but the `now` that it is given.

use policy::{CpuId, CpuSet, Instant, ThreadId};

/// How a thread came to be ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadyReason {
    /// The run begins, or its job arrives.
    New,
    /// What it was blocked on has happened.
    Woken,
    /// It was preempted, and the switch away from it is over.
    Preempted,
    /// It has yielded, and the switch away from it is over.
    Yielded,
    /// It has gone over to this CPU, and the switch away from it is over. Only where threads [can](Scheduler::MOVES).
    Moved(CpuId),
}

/// A kernel's scheduler.
///
/// A thread is the scheduler's to hand out from [`ready`](Scheduler::ready) until [`pick`](Scheduler::pick) returns it.
/// From then on it is `current` on that CPU, until the CPU picks another or the thread leaves.
pub trait Scheduler {
    /// Whether a CPU that has gone idle looks for work once more when the switch to idleness is over. Without it, it only
    /// looks when it is marked.
    const LOOKS_WHEN_IDLE: bool = true;

    /// Whether a thread can go on from alarm to alarm for ever beside others that wait for a CPU.
    const CAN_STARVE: bool = false;

    /// Whether a thread can go over to a CPU that it names. Not on a kernel with one queue for all CPUs.
    const MOVES: bool = false;

    /// `thread` may run from now on. Marks the CPU that should pick again, if any: an idle one, or one whose thread should
    /// be preempted. When the run begins all CPUs pick, marked or not.
    fn ready(&mut self, thread: ThreadId, why: ReadyReason, now: Instant, marks: &mut Marks);

    /// These threads, which were blocked, were woken by one event in this order and may run from now on.
    fn woken(&mut self, threads: &[ThreadId], now: Instant, marks: &mut Marks) {
        for &thread in threads {
            self.ready(thread, ReadyReason::Woken, now, marks);
        }
    }

    /// Chooses what `cpu` runs next: the thread that it runs (`current`, if that can go on) or one that is ready; `None`
    /// leaves it idle. A current thread that is not chosen comes back by [`ready`](Scheduler::ready) when the switch is over.
    fn pick(&mut self, cpu: CpuId, current: Option<ThreadId>, now: Instant) -> Option<ThreadId>;

    /// The current `thread` of `cpu` blocks or ends; the next call is a [`pick`](Scheduler::pick) for `cpu` without it.
    fn leave(&mut self, cpu: CpuId, thread: ThreadId, now: Instant);

    /// The current `thread` of `cpu` blocks: as [`leave`](Scheduler::leave), for schedulers to which it makes a difference that the
    /// thread will be back.
    fn block(&mut self, cpu: CpuId, thread: ThreadId, now: Instant) {
        self.leave(cpu, thread, now);
    }

    /// [`block`](Scheduler::block), or [`leave`](Scheduler::leave) for good.
    fn give_up(&mut self, cpu: CpuId, thread: ThreadId, blocks: bool, now: Instant) {
        if blocks { self.block(cpu, thread, now) } else { self.leave(cpu, thread, now) }
    }

    /// The current `thread` of `cpu` calls `sched_yield`; the next call is a [`pick`](Scheduler::pick) for `cpu`.
    fn note_yield(&mut self, cpu: CpuId, thread: ThreadId, now: Instant);

    /// When the scheduler wants to look at `cpu` again, whose thread runs from now on. Asked when a thread gets a CPU,
    /// and again after each alarm.
    fn alarm(&mut self, cpu: CpuId, now: Instant) -> Instant;

    /// The alarm of `cpu` went off. Returns who should pick again.
    fn alarmed(&mut self, cpu: CpuId, now: Instant, marks: &Marks) -> Picks;

    /// Whether a thread waits that `cpu`, idle and not marked, should not leave waiting.
    fn has_work_for(&self, cpu: CpuId, now: Instant) -> bool;

    /// The nice value of `thread`, -20 to 19, is this from now on, wherever it is. Every thread begins with that of its
    /// [attributes](crate::kernels::roster::Roster::attributes). Marks the CPU that should pick again, if any. A scheduler without priorities
    /// ignores it.
    fn set_nice(&mut self, _thread: ThreadId, _nice: i8, _now: Instant, _marks: &mut Marks) {}

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

/// Which CPUs have been told to pick again and have not yet: the kernel's `need_resched`. They do so when the event is over,
/// in the order of their numbers; those that are switching, when their switch is.
#[derive(Clone, Debug)]
pub struct Marks {
    marked: Vec<bool>,
    /// Those that have been marked since the last event.
    told: Vec<CpuId>,
    idle: IdleCpus,
    here: Option<CpuId>,
}

impl Marks {
    /// So many CPUs, all idle and none marked.
    pub(crate) fn new(cpus: usize) -> Marks {
        Marks { marked: vec![false; cpus], told: Vec::new(), idle: IdleCpus::all(cpus), here: None }
    }

    /// Tells a CPU to pick again.
    pub fn mark(&mut self, cpu: CpuId) {
        self.idle.remove(cpu);
        self.told.push(cpu);
        self.marked[cpu.index()] = true;
    }

    /// Whether a CPU has been told to pick again and has not yet.
    pub(crate) fn is_marked(&self, cpu: CpuId) -> bool {
        self.marked[cpu.index()]
    }

    /// The idle CPU with the lowest number among those that are not marked.
    pub fn first_idle(&self) -> Option<CpuId> {
        self.idle.first()
    }

    /// [The same](Marks::first_idle) among some CPUs, or all where nothing is said.
    #[inline]
    pub(crate) fn first_idle_among(&self, cpus: Option<&CpuSet>) -> Option<CpuId> {
        match cpus {
            None => self.idle.first(),
            Some(cpus) => self.idle.first_among(cpus),
        }
    }

    /// The idle CPUs that are not marked, ascending.
    pub(crate) fn idle(&self) -> impl Iterator<Item = CpuId> {
        self.idle.iter()
    }

    /// Whether a CPU is idle and not marked.
    pub(crate) fn is_idle(&self, cpu: CpuId) -> bool {
        self.idle.contains(cpu)
    }

    /// The CPU at which the event at hand happens, whose thread wakes the others; none where a device does so.
    pub fn here(&self) -> Option<CpuId> {
        self.here
    }

    /// The event at hand happens there.
    pub(crate) fn set_here(&mut self, here: Option<CpuId>) {
        self.here = here;
    }

    /// A CPU picks.
    pub(crate) fn clear(&mut self, cpu: CpuId) {
        self.marked[cpu.index()] = false;
    }

    /// A CPU is idle and will not look for work until it is marked.
    pub(crate) fn set_idle(&mut self, cpu: CpuId) {
        self.idle.insert(cpu);
    }

    /// Takes the CPUs that were marked since the last time, in the order of their numbers; some perhaps twice.
    #[inline]
    pub(crate) fn take(&mut self) -> Vec<CpuId> {
        let mut told = std::mem::take(&mut self.told);
        told.sort_unstable();
        told
    }

    /// Gives back what [`take`](Marks::take) has returned, so that its memory is used again.
    #[inline]
    pub(crate) fn put_back(&mut self, mut told: Vec<CpuId>) {
        if self.told.is_empty() {
            told.clear();
            self.told = told;
        }
    }
}

/// The CPUs that are idle and not marked.
#[derive(Clone, Debug)]
struct IdleCpus {
    words: Vec<u64>,
}

impl IdleCpus {
    fn all(cpus: usize) -> IdleCpus {
        let mut idle = IdleCpus { words: vec![0; cpus.div_ceil(64)] };
        crate::cpu_ids(cpus).for_each(|cpu| idle.insert(cpu));
        idle
    }

    fn insert(&mut self, cpu: CpuId) {
        self.words[cpu.index() / 64] |= 1 << (cpu.index() % 64);
    }

    fn remove(&mut self, cpu: CpuId) {
        self.words[cpu.index() / 64] &= !(1 << (cpu.index() % 64));
    }

    fn iter(&self) -> impl Iterator<Item = CpuId> {
        let bits = |word: u64| std::iter::successors(Some(word), |left| Some(left & left.wrapping_sub(1)));
        let cpus = move |(index, word): (usize, u64)| {
            bits(word).take_while(|&left| left != 0).map(move |left| CpuId(index as u32 * 64 + left.trailing_zeros()))
        };
        self.words.iter().copied().enumerate().flat_map(cpus)
    }

    fn contains(&self, cpu: CpuId) -> bool {
        self.words[cpu.index() / 64] >> (cpu.index() % 64) & 1 == 1
    }

    fn first_among(&self, cpus: &CpuSet) -> Option<CpuId> {
        let both = self.words.iter().zip(cpus.words()).map(|(idle, allowed)| idle & allowed);
        let (index, word) = both.enumerate().find(|(_, word)| *word != 0)?;
        Some(CpuId(index as u32 * 64 + word.trailing_zeros()))
    }

    fn first(&self) -> Option<CpuId> {
        let (index, word) = self.words.iter().enumerate().find(|(_, word)| **word != 0)?;
        Some(CpuId(index as u32 * 64 + word.trailing_zeros()))
    }
}
