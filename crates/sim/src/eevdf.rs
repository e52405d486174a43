//! Linux since 6.6: earliest eligible virtual deadline first, the twin of the kernel that the host runs.
//!
//! Source: `kernel/sched/fair.c` of Linux 6.18 (functions named below). Every CPU has a queue of its own. A thread's virtual
//! time advances while it runs, the slower the larger its weight; its *lag* is how far it is behind the average of
//! its queue by weight, and who is not ahead of the average is *eligible*. The CPU runs the eligible thread with the earliest
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
//! * **Delayed dequeue** (`DELAY_DEQUEUE`, `DELAY_ZERO`): a thread that blocks while it is ahead of the average stays in its queue, until it
//!   would be picked; then it leaves, with nothing owed to it. If it is awakened before, it waits on where it is (`requeue_delayed_entity`),
//!   and whatever other CPUs do; if it has fallen behind the average meanwhile, it is placed at the average with a new request.
//! * **Wakeup** (`select_task_rq_fair`): on the CPU where it was if that is idle, else on the next idle CPU, else where it
//!   was. There it preempts if the pick would be it (`check_preempt_wakeup_fair`).
//! * **Idle balancing** (`sched_balance_newidle`, and the kick of an idle CPU from the tick of a busy one): a CPU without
//!   work takes the thread that waits longest on the CPU with the largest load among those where one waits, unless it ran within the last
//!   0.5 ms (`task_hot`). Of a queue the first 32 are looked at.
//! * **Balancing between busy CPUs** (`sched_balance_rq`): at a tick, each 16 ms for each CPU less one tick, and twice as seldom after
//!   it has found nothing to do, a CPU takes load from the one with most, as much as brings neither beyond the average of all, if the other
//!   has 17 % more or nobody waits on this one. Threads that are too heavy for that, ahead of their
//!   queue, or hot are left; after one failure they count half and may be ahead, after two a quarter and may be hot.
//! * **Moving** (`sched_setaffinity` to one CPU and back): the thread goes to the queue of that CPU with its lag.
//! * **Affinity**: a thread that may not run everywhere starts, wakes and is taken only where it may; where all that wait on the longest
//!   queue are bound elsewhere, the next one is looked at (`LBF_ALL_PINNED`).
//! * **Slices of one's own** (`sched_setattr` with a runtime): requests are as long as that. A thread is protected for no longer than the
//!   shortest slice beside it (`set_protect_slice`). Who joins a queue with a shorter slice than the running thread's is weighed against
//!   it without that one's protection (`PREEMPT_SHORT`): if it would be picked, the protection is over, else it is cut to the
//!   shortest slice (`update_protect_slice`).
//! * **Groups** (`groups`; `calc_group_shares`): every job is a group, as it is one with autogroups if each has a session of its own, and weighs
//!   as much as one thread. A thread has its part, by weight, of that among all threads of its job in any queue.
//! * **Nice** (`reweight_entity`, `prio_changed_fair`): a nice value is a weight. Whose weight changes keeps the lag and what is left of its
//!   request as they are in real time; its CPU picks again if it runs and weighs less, or waits and would now be picked.
//! * **Yield** (`yield_task_fair`): an eligible thread forfeits the rest of its request; its virtual time jumps to its
//!   deadline. One yield beside a CPU-bound thread so costs the yielder about a slice, and the other runs until a tick.
//!
//! How the rules were checked: against the text of the patches that brought slices, protection, delayed dequeue and eligibility in
//! balancing to 6.12 to 6.18, and descriptions of the tree after it that quote these functions; the tag 6.18 itself was not at hand, and what none of
//! them shows (intervals of balancing, `calculate_imbalance`, `sd_init`) is from memory. A second scheduler, written for tests from this
//! text, does the same event by event.
//!
//! Deviations: groups are flat, where the kernel has a queue of queues: a group's weight is divided among its threads on all CPUs, as the kernel
//! divides it among CPUs by load and then among the threads there, but eligibility and deadlines are those of threads and not of groups, and a
//! thread learns of its part when it joins a queue, is picked or ticks. No wake affinity and no buddies; one scheduling domain without SMT. Loads are the weights of those who are in
//! the queues now, and not decaying averages (PELT): a thread that sleeps half the time counts half in the kernel, all or nothing here. Idle
//! balancing is tried however short the CPU's idle times are, takes one thread, and never a hot one. No running thread is pushed away
//! (active balancing), and no delayed one moved. A thread that is being switched out is not counted in its queue until its
//! switch is over; virtual times are brought up to date at every look, and rounded down to whole nanoseconds; the switch to a thread, the
//! waking of its CPU included, counts as its running; a tick that falls into a switch is skipped.
//!
//! **How it is fast.** Who waits is in a tree by deadline that knows the least virtual time in each part of it; CPUs are found by bits and
//! tournaments. An event costs the logarithm of the threads in a queue and of the CPUs, but where threads are bound to CPUs, which may
//! have to be looked at one by one.

use policy::{CpuId, CpuSet, Instant, Span, ThreadId};
use scenario::Machine;

use self::balance::Balancing;
use self::entity::{Entity, Queue, placed_lag};
use self::groups::Groups;
use crate::nice;
use crate::occupancy::Occupancy;
use crate::roster::Roster;
use crate::scheduler::{Marks, Picks, Scheduler, Why};

mod balance;
mod entity;
mod groups;
mod timeline;

/// The scheduler; see the module.
#[derive(Clone, Debug)]
pub struct Eevdf {
    tick: Span,
    entities: Vec<Entity>,
    queues: Vec<Queue>,
    occupancy: Occupancy,
    /// Where the threads of each job may run, where not everywhere.
    allowed: Vec<Option<CpuSet>>,
    /// Whether there is a thread that may not run everywhere.
    binds: bool,
    waiting: usize,
    balancing: Balancing,
    groups: Option<Groups>,
}

impl Eevdf {
    /// The scheduler of a machine for these threads.
    pub fn new(machine: &Machine, roster: &Roster) -> Eevdf {
        let mut entities = Vec::with_capacity(roster.len());
        for (job, entry) in (0..).zip(roster.jobs()) {
            let slice = entry.attributes.slice.unwrap_or(machine.slice).as_nanos() as i64;
            let weight = nice::weight(entry.attributes.nice) as u32;
            entities.extend(entry.threads.clone().map(|_| Entity {
                slice,
                weight,
                own_weight: weight,
                job,
                ..Entity::NEW
            }));
        }
        let is_there = |cpus: &CpuSet| cpus.iter().any(|cpu| cpu.0 < machine.cpus);
        let allowed: Vec<Option<CpuSet>> =
            roster.jobs().iter().map(|entry| entry.attributes.cpus.clone().filter(is_there)).collect();
        Eevdf {
            tick: machine.tick,
            entities,
            queues: vec![Queue::EMPTY; machine.cpus as usize],
            occupancy: Occupancy::new(machine.cpus as usize),
            binds: allowed.iter().any(Option::is_some),
            allowed,
            waiting: 0,
            balancing: Balancing::new(machine),
            groups: machine.groups.then(|| Groups::new(roster.jobs().len())),
        }
    }

    fn entity(&self, thread: ThreadId) -> &Entity {
        &self.entities[thread.index()]
    }

    /// Where a thread may run, where not everywhere.
    fn allowed(&self, thread: ThreadId) -> Option<&CpuSet> {
        if self.binds { self.allowed[self.entity(thread).job as usize].as_ref() } else { None }
    }

    fn may_run(&self, thread: ThreadId, cpu: CpuId) -> bool {
        self.allowed(thread).is_none_or(|set| set.contains(cpu))
    }

    /// Brings the current thread's virtual time and deadline up to date (`update_curr`); returns whether it has used up
    /// a request.
    fn update(&mut self, cpu: CpuId, now: Instant) -> bool {
        let queue = &mut self.queues[cpu.index()];
        let ran = now.since(queue.updated).as_nanos() as i64;
        queue.updated = now;
        let Some(current) = queue.current else { return false };
        let entity = &mut self.entities[current as usize];
        let virtually = entity.virtually(ran);
        entity.vruntime += virtually;
        entity.last_ran = now;
        queue.advances(entity, virtually);
        let request_is_over = match cfg!(rowlock_canary = "a-request-ends-late") {
            true => entity.vruntime > entity.deadline,
            false => entity.vruntime >= entity.deadline,
        };
        if request_is_over {
            entity.deadline = entity.vruntime + entity.virtually(entity.slice);
        }
        request_is_over
    }

    /// Whether the current thread, just updated, should be weighed against those that wait (the end of `update_curr`).
    fn is_due(&self, cpu: CpuId, request_is_over: bool) -> bool {
        let queue = &self.queues[cpu.index()];
        let current = queue.current.map(|current| &self.entities[current as usize]);
        let unprotected = current.is_some_and(|current| current.vruntime >= current.protected_until);
        !queue.waiting.is_empty() && (request_is_over || unprotected)
    }

    /// Puts a thread that has left a queue with some lag into the queue of `cpu`, with so much virtual time to its deadline.
    fn place(&mut self, thread: ThreadId, cpu: CpuId, request: i64) {
        let queue = &self.queues[cpu.index()];
        let entity = &mut self.entities[thread.index()];
        entity.cpu = cpu;
        entity.vruntime = queue.average() - placed_lag(queue, entity);
        entity.deadline = entity.vruntime + request;
        self.enqueue(thread, cpu);
    }

    fn enqueue(&mut self, thread: ThreadId, cpu: CpuId) {
        let queue = &mut self.queues[cpu.index()];
        queue.add(&self.entities[thread.index()]);
        queue.waiting.push(&mut self.entities, thread.0);
        self.entities[thread.index()].waits = true;
        self.waiting += 1;
        self.weigh(cpu);
    }

    /// A thread waits no longer; it is counted as long as it is not [counted out](Queue::remove).
    fn unlink(&mut self, thread: ThreadId, cpu: CpuId) {
        self.queues[cpu.index()].waiting.remove(&mut self.entities, thread.0);
        self.entities[thread.index()].waits = false;
        self.waiting -= 1;
    }

    /// Keeps account of how busy a CPU is.
    fn weigh(&mut self, cpu: CpuId) {
        let queue = &self.queues[cpu.index()];
        let is_overloaded = queue.current.is_some() && queue.ready() > 0;
        let load = queue.weight as usize;
        self.occupancy.note(cpu, queue.len(), if is_overloaded { load } else { 0 });
        self.balancing.weigh(cpu, load as u64);
    }

    /// Takes a thread off a queue's count and notes its lag (`update_entity_lag`).
    fn remember_lag(&mut self, thread: ThreadId, cpu: CpuId) {
        let queue = &mut self.queues[cpu.index()];
        let entity = &mut self.entities[thread.index()];
        let bound = entity.virtually((2 * entity.slice).max(self.tick.as_nanos() as i64));
        entity.lag = (queue.average() - entity.vruntime).clamp(-bound, bound);
        queue.remove(entity);
    }

    /// The waiting thread that `cpu` would run (`pick_eevdf`); none, if it would go on with the current one. Protection may be left
    /// out of account.
    fn best(&self, cpu: CpuId, protects: bool) -> Option<ThreadId> {
        let queue = &self.queues[cpu.index()];
        let current = queue.current.map(|current| &self.entities[current as usize]);
        let current = current.filter(|current| queue.is_eligible(current));
        if protects && current.is_some_and(|current| current.vruntime < current.protected_until) {
            return None;
        }
        let first = queue.waiting.first_until(&self.entities, queue.average())?;
        let current_first = current.is_some_and(|current| current.deadline < self.entities[first as usize].deadline);
        (!current_first).then_some(ThreadId(first))
    }

    /// Whether a thread that has joined the queue of `cpu` should have the CPU at once (`check_preempt_wakeup_fair`).
    fn preempts(&mut self, thread: ThreadId, cpu: CpuId) -> bool {
        let Some(current) = self.queues[cpu.index()].current else { return true };
        let is_shorter = self.entity(thread).slice < self.entities[current as usize].slice;
        let preempts = self.best(cpu, !is_shorter) == Some(thread);
        if is_shorter {
            let shortest = self.shortest_slice(cpu);
            let current = &mut self.entities[current as usize];
            let end = current.vruntime + if preempts { 0 } else { current.virtually(shortest) };
            current.protected_until = current.protected_until.min(end);
        }
        preempts
    }

    /// The shortest slice in a queue (`cfs_rq_min_slice`); without limit in an empty one.
    fn shortest_slice(&self, cpu: CpuId) -> i64 {
        let queue = &self.queues[cpu.index()];
        let of_current = queue.current.map(|current| self.entities[current as usize].slice);
        let of_waiting = queue.waiting.shortest_slice(&self.entities);
        of_current.into_iter().chain(of_waiting).min().unwrap_or(i64::MAX)
    }

    /// A thread that is not eligible blocks: it stays in the queue, as one that will not run (`DELAY_DEQUEUE`).
    fn delay(&mut self, thread: ThreadId, cpu: CpuId) {
        let queue = &mut self.queues[cpu.index()];
        queue.current = None;
        queue.delayed += 1;
        queue.waiting.push(&mut self.entities, thread.0);
        let entity = &mut self.entities[thread.index()];
        (entity.waits, entity.is_delayed) = (true, true);
        self.weigh(cpu);
    }

    /// It would be a blocked thread's turn: it leaves the queue at last, with nothing owed to it (`DELAY_ZERO`).
    fn finish_delay(&mut self, thread: ThreadId, cpu: CpuId) {
        self.remember_lag(thread, cpu);
        self.queues[cpu.index()].waiting.remove(&mut self.entities, thread.0);
        self.queues[cpu.index()].delayed -= 1;
        let entity = &mut self.entities[thread.index()];
        (entity.waits, entity.is_delayed) = (false, false);
        entity.lag = entity.lag.min(0);
        self.goes(thread);
        self.weigh(cpu);
    }

    /// A blocked thread that is still in its queue is awakened: it waits there from now on, as it is or, if it has become eligible,
    /// as one that was neither ahead nor behind (`requeue_delayed_entity`).
    fn requeue(&mut self, thread: ThreadId, cpu: CpuId) {
        let queue = &mut self.queues[cpu.index()];
        queue.delayed -= 1;
        if queue.average() > self.entities[thread.index()].vruntime {
            queue.waiting.take_out(&mut self.entities, thread.0);
            let entity = &mut self.entities[thread.index()];
            queue.remove(entity);
            entity.vruntime = queue.average();
            entity.deadline = entity.vruntime + entity.virtually(entity.slice);
            queue.add(entity);
            queue.waiting.put_back(&mut self.entities, thread.0);
        }
        self.entities[thread.index()].is_delayed = false;
        self.waiting += 1;
        self.weigh(cpu);
    }

    /// The waiting thread that `cpu` should run, if that is not to go on with the current one. Blocked threads whose turn it would be
    /// leave the queue (`pick_next_entity`).
    fn choose(&mut self, cpu: CpuId) -> Option<ThreadId> {
        loop {
            let best = self.best(cpu, true)?;
            if !self.entity(best).is_delayed {
                return Some(best);
            }
            self.finish_delay(best, cpu);
        }
    }

    /// A CPU goes over to a thread that waits on it (`set_next_entity`), from another that can go on or not.
    fn run(&mut self, cpu: CpuId, next: ThreadId, from: Option<ThreadId>) {
        let beside = from.map_or(i64::MAX, |from| self.entity(from).slice);
        self.unlink(next, cpu);
        self.queues[cpu.index()].current = Some(next.0);
        self.follow_group(next);
        let shortest = self.shortest_slice(cpu).min(beside);
        let entity = &mut self.entities[next.index()];
        entity.last_ran = self.queues[cpu.index()].updated;
        entity.protected_until = entity.deadline;
        if shortest < entity.slice {
            entity.protected_until = entity.deadline.min(entity.vruntime + entity.virtually(shortest));
        }
        self.weigh(cpu);
    }

    /// A thread weighs so much from now on (`reweight_entity`); if it is in a queue, that is up to date. What is virtual shrinks as the
    /// weight grows, so that it is the same in real time.
    fn reweight(&mut self, thread: ThreadId, weight: u32) {
        let Entity { cpu, weight: before, waits, .. } = *self.entity(thread);
        if weight == before {
            return;
        }
        let is_queued = waits || self.queues[cpu.index()].current == Some(thread.0);
        if is_queued {
            self.remember_lag(thread, cpu);
        }
        if waits {
            self.queues[cpu.index()].waiting.take_out(&mut self.entities, thread.0);
        }
        let (queue, entity) = (&mut self.queues[cpu.index()], &mut self.entities[thread.index()]);
        let scaled = |virtually: i64| (i128::from(virtually) * i128::from(before) / i128::from(weight)) as i64;
        let (request, protected) = (entity.deadline - entity.vruntime, entity.protected_until - entity.vruntime);
        entity.lag = scaled(entity.lag);
        entity.weight = weight;
        if is_queued {
            entity.vruntime = queue.average() - placed_lag(queue, entity);
        }
        entity.deadline = entity.vruntime + scaled(request);
        entity.protected_until = entity.vruntime + scaled(protected);
        if is_queued {
            queue.add(entity);
        }
        if waits {
            queue.waiting.put_back(&mut self.entities, thread.0);
        }
    }

    /// Where an awakened thread goes: where it was if that is free, else to the next free CPU, else where it was; and never where it
    /// may not.
    fn cpu_to_wake_on(&self, thread: ThreadId) -> CpuId {
        let (previous, allowed) = (self.entity(thread).cpu, self.allowed(thread));
        self.occupancy
            .first_free(previous, allowed)
            .unwrap_or_else(|| if self.may_run(thread, previous) { previous } else { self.occupancy.emptiest(allowed) })
    }
}

impl Scheduler for Eevdf {
    const MOVES: bool = true;

    fn ready(&mut self, thread: ThreadId, why: Why, now: Instant, marks: &mut Marks) {
        let was_delayed = self.entity(thread).is_delayed;
        let cpu = match why {
            _ if was_delayed => self.entity(thread).cpu,
            Why::New => self.occupancy.emptiest(self.allowed(thread)),
            Why::Moved(to) if self.may_run(thread, to) => to,
            Why::Woken | Why::Moved(_) => self.cpu_to_wake_on(thread),
            // Back in the queue that it was only off for the length of the switch.
            Why::Preempted | Why::Yielded => {
                self.enqueue(thread, self.entity(thread).cpu);
                return;
            }
        };
        let request_is_over = self.update(cpu, now);
        let is_due = self.is_due(cpu, request_is_over);
        if was_delayed {
            self.requeue(thread, cpu);
        } else {
            self.comes(thread);
            let entity = self.entity(thread);
            let request = entity.virtually(entity.slice);
            self.place(thread, cpu, if why == Why::New { request / 2 } else { request });
        }
        if is_due || marks.is_marked(cpu) || self.preempts(thread, cpu) {
            marks.mark(cpu);
        }
    }

    fn pick(&mut self, cpu: CpuId, current: Option<ThreadId>, now: Instant) -> Option<ThreadId> {
        self.update(cpu, now);
        let mut next = self.choose(cpu);
        if self.occupancy.is_free(cpu) {
            self.steal(cpu, now);
            next = self.choose(cpu);
        }
        let Some(next) = next else { return current };
        if let Some(current) = current {
            self.queues[cpu.index()].remove(&self.entities[current.index()]);
        }
        self.run(cpu, next, current);
        Some(next)
    }

    fn leave(&mut self, cpu: CpuId, thread: ThreadId, now: Instant) {
        self.update(cpu, now);
        self.remember_lag(thread, cpu);
        self.queues[cpu.index()].current = None;
        self.goes(thread);
        self.weigh(cpu);
    }

    fn blocks(&mut self, cpu: CpuId, thread: ThreadId, now: Instant) {
        self.update(cpu, now);
        if self.queues[cpu.index()].is_eligible(self.entity(thread)) {
            self.leave(cpu, thread, now);
        } else {
            self.delay(thread, cpu);
        }
    }

    fn yields(&mut self, cpu: CpuId, thread: ThreadId, now: Instant) {
        self.update(cpu, now);
        let queue = &mut self.queues[cpu.index()];
        let entity = &mut self.entities[thread.index()];
        if !queue.waiting.is_empty() && queue.is_eligible(entity) {
            queue.advances(entity, entity.deadline - entity.vruntime);
            entity.vruntime = entity.deadline;
            entity.deadline += entity.virtually(entity.slice);
        }
    }

    fn alarm(&mut self, _: CpuId, now: Instant) -> Instant {
        let tick = self.tick.as_nanos();
        Instant::from_nanos((now.as_nanos() / tick + 1).saturating_mul(tick))
    }

    fn alarmed(&mut self, cpu: CpuId, now: Instant, marks: &Marks) -> Picks {
        let request_is_over = self.update(cpu, now);
        let this_cpu = self.is_due(cpu, request_is_over);
        if let Some(current) = self.queues[cpu.index()].current {
            self.follow_group(ThreadId(current));
            self.weigh(cpu);
        }
        let preempted = self.balance(cpu, now);
        let another = if self.queues[cpu.index()].ready() > 0 { self.helper(now, marks) } else { None };
        Picks { this_cpu: this_cpu || preempted, another }
    }

    fn has_work_for(&self, cpu: CpuId, _: Instant) -> bool {
        self.queues[cpu.index()].ready() > 0
    }

    fn set_nice(&mut self, thread: ThreadId, nice: i8, now: Instant, marks: &mut Marks) {
        let Entity { cpu, weight: before, waits, is_delayed, .. } = *self.entity(thread);
        let is_current = self.queues[cpu.index()].current == Some(thread.0);
        if is_current || waits {
            self.update(cpu, now);
        }
        let weight = self.weight_as(thread, nice::weight(nice) as u32);
        self.reweight(thread, weight);
        self.weigh(cpu);
        let would_be_picked = waits && !is_delayed && self.best(cpu, true) == Some(thread);
        if (is_current && weight < before) || would_be_picked {
            marks.mark(cpu);
        }
    }

    fn waiting(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::Attributes;

    const CPU: CpuId = CpuId(0);
    const SLICE: Span = Span::from_millis(3);
    const TICK: Span = Span::from_millis(4);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    /// So many new threads on so many CPUs, each of which runs its first.
    fn started(cpus: u32, threads: u32) -> Eevdf {
        let machine = Machine { slice: SLICE, tick: TICK, ..Machine::with_cpus(cpus) };
        let mut eevdf = Eevdf::new(&machine, &Roster::of_strangers(threads));
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

    #[test]
    fn who_comes_with_a_shorter_slice_is_weighed_without_protection() {
        for (slice, preempts) in [(1, true), (2, false), (3, false)] {
            let slice = Some(Span::from_millis(slice));
            let mut roster = Roster::default();
            roster.enter(1, Attributes::default(), false);
            roster.enter(1, Attributes { slice, ..Attributes::default() }, false);
            let machine = Machine { slice: SLICE, tick: TICK, ..Machine::with_cpus(1) };
            let (mut eevdf, mut marks) = (Eevdf::new(&machine, &roster), Marks::new(1));
            eevdf.ready(ThreadId(0), Why::New, at(0), &mut marks);
            eevdf.pick(CPU, None, at(0));
            marks.clear(CPU);
            // At virtual 1 of a first request to 1.5, and the other's begins there: to 1.5, 2 or 2.5.
            eevdf.ready(ThreadId(1), Why::New, at(1), &mut marks);
            assert_eq!(marks.is_marked(CPU), preempts, "{slice:?}");
            assert_eq!(eevdf.entities[0].protected_until, if preempts { 1_000_000 } else { 1_500_000 });
        }
    }
}
