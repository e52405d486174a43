//! Linux since 6.6: earliest eligible virtual deadline first, the twin of the kernel that the host runs.
//!
//! Source: `kernel/sched/fair.c` of Linux 6.18 (functions named below), for threads of equal weight. Every CPU has a
//! queue of its own. A thread's virtual time advances while it runs; its *lag* is how far it is behind the average of
//! its queue, and who is not ahead of the average is *eligible*. The CPU runs the eligible thread with the earliest
//! virtual deadline, which lies one slice after the virtual time at which the request was made.
//!
//! * **Protection** (`RUN_TO_PARITY`, `protect_slice`): a running thread that is eligible keeps its CPU until it has
//!   reached the deadline that it had when it was picked.
//! * **Tick** (`update_curr`, `update_deadline`): at a tick a thread that has reached its deadline gets the next one, and
//!   with others waiting the CPU picks again; so it does when a further thread joins its queue. All CPUs tick at multiples
//!   of the period.
//! * **Placement** (`place_entity`, `update_entity_lag`): a thread leaves with its lag, which is bounded by two slices or
//!   one tick, whichever is longer, and is placed so that it has that lag again after being counted. New threads have no
//!   lag and half a slice to their first deadline.
//! * **Wakeup** (`select_task_rq_fair`): on the CPU where it was if that is idle, else on the next idle CPU, else where it
//!   was. There it preempts if the pick would be it (`wakeup_preempt_fair`).
//! * **Idle balancing** (`sched_balance_newidle`, and the kick of an idle CPU from the tick of a busy one): a CPU without
//!   work takes the thread that waits longest on the longest queue, unless that ran within the last 0.5 ms (`task_hot`).
//! * **Moving** (`sched_setaffinity` to one CPU and back): the thread goes to the queue of that CPU with its lag.
//! * **Yield** (`yield_task_fair`): an eligible thread forfeits the rest of its request; its virtual time jumps to its
//!   deadline. One yield beside a CPU-bound thread so costs the yielder about a slice, and the other runs until a tick.
//!
//! Deviations: no delayed dequeue (a sleeper leaves the queue at once and keeps its lag, as in 6.6 to 6.11), no groups
//! and no weights, no balancing between busy CPUs, no wake affinity; idle balancing is tried however short the CPU's idle
//! times are, and never moves a hot thread; a thread that is being switched out is not counted in its queue until its
//! switch is over; the switch to a thread, the waking of its CPU included, counts as its running; a tick that falls into
//! a switch is skipped.

use std::cmp::Reverse;

use policy::{CpuId, Instant, Span, ThreadId};

use crate::scheduler::{Marks, Picks, Scheduler, Why};

/// A thread that ran so recently is left where its cache is (`sysctl_sched_migration_cost`).
const MIGRATION_COST: Span = Span::from_micros(500);

/// What the scheduler knows of a thread: the kernel's `sched_entity`. Virtual times are nanoseconds, comparable within
/// one queue only; at equal weights a virtual nanosecond is a real one.
#[derive(Clone, Copy, Debug, Default)]
struct Entity {
    cpu: CpuId,
    vruntime: i64,
    deadline: i64,
    /// While it runs: where its protection ends.
    protected_until: i64,
    /// While it is in no queue: its lag.
    lag: i64,
    /// When it last ran.
    last_ran: Option<Instant>,
}

/// The queue of one CPU: the kernel's `cfs_rq`.
#[derive(Clone, Debug, Default)]
struct Queue {
    current: Option<ThreadId>,
    /// The moment up to which the current thread's virtual time is right.
    updated: Instant,
    /// Who waits, by the order in which they came.
    waiting: Vec<ThreadId>,
    /// The sum of the virtual times of the waiting and the current thread.
    sum: i128,
}

impl Queue {
    fn len(&self) -> i128 {
        self.waiting.len() as i128 + i128::from(self.current.is_some())
    }

    /// The average virtual time; zero in an empty queue.
    fn average(&self) -> i64 {
        if self.len() == 0 { 0 } else { self.sum.div_euclid(self.len()) as i64 }
    }

    /// Whether a thread of this queue is not ahead of the average.
    fn is_eligible(&self, entity: &Entity) -> bool {
        i128::from(entity.vruntime) * self.len() <= self.sum
    }
}

/// The scheduler; see the module.
#[derive(Clone, Debug)]
pub struct Eevdf {
    slice: i64,
    tick: Span,
    entities: Vec<Entity>,
    queues: Vec<Queue>,
}

impl Eevdf {
    /// EEVDF for so many CPUs and threads, with this base slice and period of the tick.
    pub fn new(cpus: u32, threads: u32, slice: Span, tick: Span) -> Eevdf {
        Eevdf {
            slice: slice.as_nanos() as i64,
            tick,
            entities: vec![Entity::default(); threads as usize],
            queues: vec![Queue::default(); cpus as usize],
        }
    }

    /// Brings the current thread's virtual time and deadline up to date (`update_curr`); returns whether it has used up
    /// a request.
    fn update(&mut self, cpu: CpuId, now: Instant) -> bool {
        let queue = &mut self.queues[cpu.index()];
        let ran = now.since(queue.updated).as_nanos() as i64;
        queue.updated = now;
        let Some(current) = queue.current else { return false };
        let entity = &mut self.entities[current.index()];
        entity.vruntime += ran;
        entity.last_ran = Some(now);
        queue.sum += i128::from(ran);
        let request_is_over = entity.vruntime >= entity.deadline;
        if request_is_over {
            entity.deadline = entity.vruntime + self.slice;
        }
        request_is_over
    }

    /// Whether the current thread, just updated, should be weighed against those that wait (the end of `update_curr`).
    fn is_due(&self, cpu: CpuId, request_is_over: bool) -> bool {
        let queue = &self.queues[cpu.index()];
        let current = queue.current.map(|current| &self.entities[current.index()]);
        let unprotected = current.is_some_and(|current| current.vruntime >= current.protected_until);
        !queue.waiting.is_empty() && (request_is_over || unprotected)
    }

    /// Puts a thread that has left a queue with some lag into the queue of `cpu` (`place_entity`).
    fn place(&mut self, thread: ThreadId, cpu: CpuId, request: i64) {
        let queue = &self.queues[cpu.index()];
        let entity = &mut self.entities[thread.index()];
        let others = queue.len();
        // Counting the newcomer in moves the average towards it; so much more lag leaves it with what it had.
        let lag = if others == 0 { 0 } else { i128::from(entity.lag) * (others + 1) / others };
        entity.cpu = cpu;
        entity.vruntime = queue.average() - lag as i64;
        entity.deadline = entity.vruntime + request;
        self.enqueue(thread, cpu);
    }

    fn enqueue(&mut self, thread: ThreadId, cpu: CpuId) {
        let queue = &mut self.queues[cpu.index()];
        queue.waiting.push(thread);
        queue.sum += i128::from(self.entities[thread.index()].vruntime);
    }

    /// Takes a thread off a queue's count and notes its lag (`update_entity_lag`).
    fn remember_lag(&mut self, thread: ThreadId, cpu: CpuId) {
        let queue = &mut self.queues[cpu.index()];
        let entity = &mut self.entities[thread.index()];
        let bound = (2 * self.slice).max(self.tick.as_nanos() as i64);
        entity.lag = (queue.average() - entity.vruntime).clamp(-bound, bound);
        queue.sum -= i128::from(entity.vruntime);
    }

    /// The thread that `cpu` would run (`pick_eevdf`): the index among those waiting, or none for the current one.
    fn best(&self, cpu: CpuId) -> Option<usize> {
        let queue = &self.queues[cpu.index()];
        let entity = |thread: ThreadId| &self.entities[thread.index()];
        let current = queue.current.map(entity).filter(|current| queue.is_eligible(current));
        if current.is_some_and(|current| current.vruntime < current.protected_until) {
            return None;
        }
        let eligible = queue.waiting.iter().enumerate().filter(|(_, thread)| queue.is_eligible(entity(**thread)));
        let (index, first) = eligible.min_by_key(|(_, thread)| entity(**thread).deadline)?;
        let current_first = current.is_some_and(|current| current.deadline < entity(*first).deadline);
        (!current_first).then_some(index)
    }

    /// Whether nobody runs or waits on `cpu`.
    fn is_free(&self, cpu: CpuId) -> bool {
        self.queues[cpu.index()].len() == 0
    }

    /// Where an awakened thread goes: where it was if that is free, else to the next free CPU, else where it was.
    fn cpu_to_wake_on(&self, previous: CpuId) -> CpuId {
        let count = self.queues.len() as u32;
        let from_previous = (0..count).map(|offset| CpuId((previous.0 + offset) % count));
        from_previous.into_iter().find(|cpu| self.is_free(*cpu)).unwrap_or(previous)
    }

    /// Where a new thread goes: to the CPU with the fewest threads, the lowest among equals.
    fn cpu_to_start_on(&self) -> CpuId {
        let loads = crate::cpu_ids(self.queues.len()).zip(&self.queues);
        loads.min_by_key(|(_, queue)| queue.len()).map_or(CpuId(0), |(cpu, _)| cpu)
    }

    /// Whom a CPU without work may take: the thread that waits longest on the longest queue, unless its cache is hot.
    fn to_steal(&self, now: Instant) -> Option<(CpuId, usize)> {
        let queues = crate::cpu_ids(self.queues.len()).zip(&self.queues);
        let running = queues.filter(|(_, queue)| queue.current.is_some());
        let (cpu, busiest) = running.min_by_key(|(_, queue)| Reverse(queue.waiting.len()))?;
        let is_cold = |thread: &ThreadId| {
            self.entities[thread.index()].last_ran.is_none_or(|ran| now.since(ran) >= MIGRATION_COST)
        };
        let index = busiest.waiting.iter().position(is_cold)?;
        Some((cpu, index))
    }

    /// Moves a thread that waits on another queue to that of `cpu`, with its lag.
    fn steal(&mut self, cpu: CpuId, now: Instant) {
        let Some((from, index)) = self.to_steal(now) else { return };
        self.update(from, now);
        let thread = self.queues[from.index()].waiting[index];
        self.remember_lag(thread, from);
        self.queues[from.index()].waiting.remove(index);
        let left_of_request = self.entities[thread.index()].deadline - self.entities[thread.index()].vruntime;
        self.place(thread, cpu, left_of_request);
    }
}

impl Scheduler for Eevdf {
    const MOVES: bool = true;

    fn ready(&mut self, thread: ThreadId, why: Why, now: Instant, marks: &mut Marks) {
        let previous = self.entities[thread.index()].cpu;
        let cpu = match why {
            Why::New => self.cpu_to_start_on(),
            Why::Woken => self.cpu_to_wake_on(previous),
            Why::Moved(to) => to,
            // Back in the queue that it was only off for the length of the switch.
            Why::Preempted | Why::Yielded => {
                self.enqueue(thread, previous);
                return;
            }
        };
        let request_is_over = self.update(cpu, now);
        let is_due = self.is_due(cpu, request_is_over);
        self.place(thread, cpu, if why == Why::New { self.slice / 2 } else { self.slice });
        let newcomer = self.queues[cpu.index()].waiting.len() - 1;
        let preempts = self.queues[cpu.index()].current.is_none() || self.best(cpu) == Some(newcomer);
        if preempts || is_due {
            marks.mark(cpu);
        }
    }

    fn pick(&mut self, cpu: CpuId, current: Option<ThreadId>, now: Instant) -> Option<ThreadId> {
        self.update(cpu, now);
        if self.is_free(cpu) {
            self.steal(cpu, now);
        }
        let Some(index) = self.best(cpu) else { return current };
        let queue = &mut self.queues[cpu.index()];
        if let Some(current) = current {
            queue.sum -= i128::from(self.entities[current.index()].vruntime);
        }
        let next = queue.waiting.remove(index);
        queue.current = Some(next);
        let entity = &mut self.entities[next.index()];
        entity.protected_until = entity.deadline;
        Some(next)
    }

    fn leave(&mut self, cpu: CpuId, thread: ThreadId, now: Instant) {
        self.update(cpu, now);
        self.remember_lag(thread, cpu);
        self.queues[cpu.index()].current = None;
    }

    fn yields(&mut self, cpu: CpuId, thread: ThreadId, now: Instant) {
        self.update(cpu, now);
        let queue = &mut self.queues[cpu.index()];
        let entity = &mut self.entities[thread.index()];
        if !queue.waiting.is_empty() && queue.is_eligible(entity) {
            queue.sum += i128::from(entity.deadline - entity.vruntime);
            entity.vruntime = entity.deadline;
            entity.deadline += self.slice;
        }
    }

    fn alarm(&mut self, _: CpuId, now: Instant) -> Instant {
        let tick = self.tick.as_nanos();
        Instant::from_nanos((now.as_nanos() / tick + 1).saturating_mul(tick))
    }

    fn alarmed(&mut self, cpu: CpuId, now: Instant, marks: &Marks) -> Picks {
        let request_is_over = self.update(cpu, now);
        if self.queues[cpu.index()].waiting.is_empty() {
            return Picks::default();
        }
        let helper = marks.first_idle().filter(|_| self.to_steal(now).is_some());
        Picks { this_cpu: self.is_due(cpu, request_is_over), another: helper }
    }

    fn has_work_for(&self, cpu: CpuId, _: Instant) -> bool {
        !self.queues[cpu.index()].waiting.is_empty()
    }

    fn waiting(&self) -> usize {
        self.queues.iter().map(|queue| queue.waiting.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: CpuId = CpuId(0);
    const SLICE: Span = Span::from_millis(3);
    const TICK: Span = Span::from_millis(4);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    /// So many new threads on so many CPUs, each of which runs its first.
    fn started(cpus: u32, threads: u32) -> Eevdf {
        let mut eevdf = Eevdf::new(cpus, threads, SLICE, TICK);
        let mut marks = Marks::new(cpus as usize);
        for thread in 0..threads {
            eevdf.ready(ThreadId(thread), Why::New, at(0), &mut marks);
        }
        crate::cpu_ids(cpus as usize).for_each(|cpu| assert!(eevdf.pick(cpu, None, at(0)).is_some()));
        eevdf
    }

    #[test]
    fn a_lag_is_bounded_by_two_slices() {
        let mut eevdf = started(1, 2);
        eevdf.leave(CPU, ThreadId(0), at(5));
        assert_eq!(eevdf.entities[0].lag, -2_500_000, "5 ms ahead of one that has not run");
        let mut eevdf = started(1, 2);
        eevdf.leave(CPU, ThreadId(0), at(50));
        assert_eq!(eevdf.entities[0].lag, -6_000_000);
    }

    #[test]
    fn a_thread_that_was_placed_has_the_lag_that_it_left_with() {
        let mut eevdf = started(1, 3);
        eevdf.leave(CPU, ThreadId(0), at(3));
        let lag = eevdf.entities[0].lag;
        eevdf.pick(CPU, None, at(3));
        eevdf.ready(ThreadId(0), Why::Woken, at(3), &mut Marks::new(1));
        let queue = &eevdf.queues[0];
        assert_eq!(queue.average() - eevdf.entities[0].vruntime, lag);
    }

    #[test]
    fn a_stolen_thread_keeps_what_is_left_of_its_request() {
        // CPU 0 has threads 0 and 2, CPU 1 has 1 and 3: a new request is half a slice.
        let mut eevdf = started(2, 4);
        eevdf.leave(CPU, ThreadId(0), at(1));
        assert_eq!(eevdf.pick(CPU, None, at(1)), Some(ThreadId(2)));
        eevdf.leave(CPU, ThreadId(2), at(2));
        assert_eq!(eevdf.pick(CPU, None, at(2)), Some(ThreadId(3)), "from CPU 1");
        let stolen = &eevdf.entities[3];
        assert_eq!((stolen.cpu, stolen.deadline - stolen.vruntime), (CPU, 1_500_000));
    }
}
