//! The interface between the engine and a kernel's scheduler.
//!
//! A scheduler keeps its own queues and its own record of which CPU runs which thread. The engine
//! reports every change, asks which thread to run, and carries out the answer at the machine's
//! cost. The scheduler has no clock but the `now` that it is given.

use std::ops::Range;

use policy::{CellId, CpuId, CpuSet, Instant, JobId, ThreadId};

/// The reason why a thread became ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadyReason {
    /// The run begins, or its job arrives.
    New,
    /// The event that it waited for has happened, or it was stopped and is resumed.
    Woken,
    /// It was preempted, and the switch away from it is over.
    Preempted,
    /// It has yielded, and the switch away from it is over.
    Yielded,
    /// It has moved to this CPU, and the switch away from it is over.
    Moved(CpuId),
}

/// A kernel's scheduler.
///
/// It owns a thread from [`ready`](Scheduler::ready) until [`pick`](Scheduler::pick)
/// returns it. From then on it is `current` on that CPU, until the CPU picks another or the thread
/// leaves.
pub(crate) trait Scheduler {
    /// Whether a CPU that has become idle looks for work again when the switch to idleness is over.
    /// Otherwise it only looks when it is marked.
    fn looks_when_idle(&self) -> bool {
        true
    }

    /// Whether a thread can continue from alarm to alarm forever while others wait for a CPU.
    fn can_starve(&self) -> bool {
        false
    }

    /// Whether a thread can move to a CPU that it names. False for kernels with one queue for all
    /// CPUs.
    fn moves(&self) -> bool {
        false
    }

    /// `thread` becomes ready. Marks the CPU that should pick again, if any: an idle one, or one
    /// whose thread should be preempted. When the run begins, all CPUs pick, marked or not.
    fn ready(&mut self, thread: ThreadId, why: ReadyReason, now: Instant, marks: &mut Marks);

    /// One event woke these blocked threads, in this order.
    fn woken(&mut self, threads: &[ThreadId], now: Instant, marks: &mut Marks) {
        for &thread in threads {
            self.ready(thread, ReadyReason::Woken, now, marks);
        }
    }

    /// Chooses the thread that `cpu` runs next: `current`, which it runs and which can continue, or
    /// one that is ready. `None` leaves the CPU idle. A current thread that is not chosen returns
    /// by [`ready`](Scheduler::ready) when the switch is over.
    fn pick(&mut self, cpu: CpuId, current: Option<ThreadId>, now: Instant) -> Option<ThreadId>;

    /// The current `thread` of `cpu` blocks, ends or is stopped. The next call is a
    /// [`pick`](Scheduler::pick) for `cpu` without it.
    fn leave(&mut self, cpu: CpuId, thread: ThreadId, now: Instant);

    /// The current `thread` of `cpu` blocks. Override it if a thread that will return is treated
    /// differently from one that ends.
    fn block(&mut self, cpu: CpuId, thread: ThreadId, now: Instant) {
        self.leave(cpu, thread, now);
    }

    /// `thread` has no CPU, and is stopped or moves to another cell. If it is in a queue, because
    /// it is ready or because the scheduler has kept it there after it blocked, it leaves it. It
    /// returns by [`ready`](Scheduler::ready), as a woken thread.
    fn dequeue(&mut self, thread: ThreadId, now: Instant);

    /// The current `thread` of `cpu` calls `sched_yield`. The next call is a
    /// [`pick`](Scheduler::pick) for `cpu`.
    fn note_yield(&mut self, cpu: CpuId, thread: ThreadId, now: Instant);

    /// When the scheduler wants to look at `cpu` again, whose thread now runs. The engine asks when
    /// a thread gets a CPU, and after each alarm.
    fn alarm(&mut self, cpu: CpuId, now: Instant) -> Instant;

    /// The alarm of `cpu` went off. Returns which CPUs should pick again.
    fn alarmed(&mut self, cpu: CpuId, now: Instant, marks: &mut Marks) -> Picks;

    /// For checks: whether there is a waiting thread that `cpu`, idle and not marked, should run.
    fn has_work_for(&self, _cpu: CpuId) -> bool {
        false
    }

    /// Changes the nice value of `thread`, -20 to 19, in any place. Every thread begins with that
    /// of its [attributes](crate::kernels::roster::Roster::attributes). Marks the CPU that should
    /// pick again, if any. A scheduler without priorities ignores the call.
    fn set_nice(&mut self, _thread: ThreadId, _nice: i8, _now: Instant, _marks: &mut Marks) {}

    /// `thread`, which is in no queue, becomes ready as a new one: the scheduler forgets how it ran
    /// before.
    fn forget(&mut self, _thread: ThreadId) {}

    /// `thread`, which is in no queue, belongs to this cell from now on, and returns by
    /// [`ready`](Scheduler::ready) as a new thread. Does nothing on a machine without cells.
    fn place(&mut self, _thread: ThreadId, _cell: CellId, _now: Instant) {}

    /// Changes the weight of the group of `job` in a cell, 2 to 1024. Every group begins with 1024.
    /// Marks the CPUs that should pick again. A scheduler without groups ignores the call.
    fn set_group_weight(&mut self, _cell: CellId, _job: JobId, _weight: u32, _now: Instant, _marks: &mut Marks) {}

    /// For checks: the number of threads that are ready and not running.
    fn waiting(&self) -> usize;
}

/// The CPUs that should pick again after an alarm.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Picks {
    /// The CPU of the alarm.
    pub(crate) this_cpu: bool,
    /// An idle CPU that should look for work; it picks first.
    pub(crate) another: Option<CpuId>,
    /// A running thread that should move.
    pub(crate) push: Option<Push>,
}

/// The thread that the CPU `from` runs should move to `to`. Ignored if `from` does not run a
/// thread, but switches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Push {
    pub(crate) from: CpuId,
    pub(crate) to: CpuId,
}

/// The CPUs that are marked: they have been told to pick again and have not done so, as with the
/// kernel's `need_resched`. They pick when the event is over, in the order of their numbers. CPUs
/// that are switching pick when their switch is over. A pick removes the mark.
///
/// The kernel of a cell sees only the CPUs of [its cell](Marks::within), by their numbers there.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    marked: Vec<bool>,
    /// The CPUs that were marked since the last event, possibly with duplicates.
    pub(crate) pending: Vec<CpuId>,
    /// The CPUs that are idle and not marked: they look for no work until they are marked.
    idle: CpuSet,
    /// The CPU of the current event.
    here: Option<CpuId>,
    /// The CPUs that the kernel which is asked sees: all, or those of its cell.
    seen: Range<u32>,
}

/// The CPUs of every machine.
const ALL: Range<u32> = 0..u32::MAX;

impl Marks {
    pub(crate) fn new(cpus: usize) -> Marks {
        let idle = crate::cpu_ids(cpus).collect();
        Marks { marked: vec![false; cpus], pending: Vec::new(), idle, here: None, seen: ALL }
    }

    /// Lets the kernel of a cell, which has these CPUs, see the marks.
    pub(crate) fn within<T>(&mut self, cell: Range<u32>, ask: impl FnOnce(&mut Marks) -> T) -> T {
        self.seen = cell;
        let answer = ask(self);
        self.seen = ALL;
        answer
    }

    /// The number of a CPU on the machine.
    #[inline]
    fn on_machine(&self, cpu: CpuId) -> CpuId {
        CpuId(self.seen.start + cpu.0)
    }

    pub(crate) fn mark(&mut self, cpu: CpuId) {
        let cpu = self.on_machine(cpu);
        self.idle.remove(cpu);
        self.pending.push(cpu);
        self.marked[cpu.index()] = true;
    }

    pub(crate) fn is_marked(&self, cpu: CpuId) -> bool {
        self.marked[self.on_machine(cpu).index()]
    }

    pub(crate) fn clear(&mut self, cpu: CpuId) {
        self.marked[cpu.index()] = false;
    }

    /// A CPU is idle, and looks for no work until it is marked.
    pub(crate) fn insert_idle(&mut self, cpu: CpuId) {
        self.idle.insert(cpu);
    }

    /// Whether a CPU is idle and not marked.
    pub(crate) fn is_idle(&self, cpu: CpuId) -> bool {
        self.idle.contains(self.on_machine(cpu))
    }

    /// The CPUs that are idle and not marked, in ascending order.
    pub(crate) fn idle(&self) -> impl Iterator<Item = CpuId> {
        let Range { start, end } = self.seen.clone();
        let next = move |from: u32| self.idle.first_at_or_after(CpuId(from), None).filter(|cpu| cpu.0 < end);
        std::iter::successors(next(start), move |cpu| next(cpu.0 + 1)).map(move |cpu| CpuId(cpu.0 - start))
    }

    /// The first of them that is also in `allowed`; `None` allows all CPUs.
    #[inline]
    pub(crate) fn first_idle(&self, allowed: Option<&CpuSet>) -> Option<CpuId> {
        if self.seen == ALL {
            return self.idle.first_among(allowed);
        }
        self.idle().find(|cpu| allowed.is_none_or(|set| set.contains(*cpu)))
    }

    /// The CPU of the current event, whose thread wakes the others. `None` if the event belongs to
    /// no CPU, or to one of another cell.
    pub(crate) fn here(&self) -> Option<CpuId> {
        self.here.filter(|here| self.seen.contains(&here.0)).map(|here| CpuId(here.0 - self.seen.start))
    }

    /// An event of this CPU begins, or one that belongs to no CPU.
    pub(crate) fn begin_event(&mut self, here: Option<CpuId>) {
        self.here = here;
    }
}
