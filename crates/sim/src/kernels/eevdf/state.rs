//! The state of the scheduler: the queues of all CPUs, and their operations.

use std::ops::Range;

use policy::{CpuId, Instant, ThreadId};
use scenario::Machine;

use super::balance::Balancing;
use super::entity::{Entity, Queue, placed_lag};
use crate::engine::scheduler::Marks;
use crate::kernels::affinity::Affinity;
use crate::kernels::domains::Domains;
use crate::kernels::load::Loads;
use crate::kernels::nice::{self, NORMAL};
use crate::kernels::occupancy::Occupancy;
use crate::kernels::roster::{JobThreads, Roster};
use crate::kernels::ticks::Ticks;
use crate::kernels::wakeup::Wakeups;

/// The least weight of a thread in a group (`MIN_SHARES`).
const MIN_SHARE: u64 = 2;

#[derive(Clone, Debug)]
pub(crate) struct Eevdf {
    pub(super) ticks: Ticks,
    pub(super) entities: Vec<Entity>,
    pub(super) queues: Vec<Queue>,
    pub(super) occupancy: Occupancy,
    pub(super) domains: Domains,
    /// When idle CPUs may next be asked to take a running thread (`nohz.next_balance`).
    pub(super) next_kick: Instant,
    pub(super) affinity: Affinity,
    pub(super) wakeups: Wakeups,
    pub(super) loads: Loads,
    /// With groups: that of each job.
    groups: Option<Vec<Group>>,
}

/// A job as a group.
#[derive(Clone, Debug)]
struct Group {
    threads: Range<usize>,
    /// Its weight, which its threads share.
    weight: u64,
    /// The sum of the weights of its threads by their nice values. It includes the threads that are
    /// in a queue or being switched away from.
    sum: u64,
}

impl Eevdf {
    pub(crate) fn new(machine: &Machine, roster: &Roster, seed: u64) -> Eevdf {
        let mut entities = Vec::with_capacity(roster.len());
        for (job, entry) in (0..).zip(roster.jobs()) {
            let slice = entry.attributes.slice.unwrap_or(machine.slice).as_nanos() as i64;
            let weight = nice::weight(entry.attributes.nice) as u32;
            let entity = Entity { slice, weight, own_weight: weight, job, ..Entity::NEW };
            entities.extend(entry.threads.clone().map(|_| entity));
        }
        let domains = Domains::new(machine);
        let queue = Queue::new(Balancing::of_levels(&domains));
        let group = |job: &JobThreads| Group { threads: job.threads.clone(), weight: NORMAL, sum: 0 };
        Eevdf {
            ticks: Ticks::new(machine, seed),
            entities,
            queues: vec![queue; machine.cpus as usize],
            occupancy: Occupancy::new(machine.cpus as usize),
            domains,
            next_kick: Instant::ZERO,
            affinity: Affinity::new(machine, roster),
            wakeups: Wakeups::new(roster.len()),
            loads: Loads::new(machine.cpus, roster.len()),
            groups: machine.groups.then(|| roster.jobs().iter().map(group).collect()),
        }
    }

    pub(super) fn entity(&self, thread: ThreadId) -> &Entity {
        &self.entities[thread.index()]
    }

    /// Updates the current thread's virtual time and deadline (`update_curr`). Returns whether it
    /// has used up a request.
    pub(super) fn update(&mut self, cpu: CpuId, now: Instant) -> bool {
        let queue = &mut self.queues[cpu.index()];
        let ran = now.since(queue.updated).as_nanos() as i64;
        queue.updated = now;
        let Some(current) = queue.current else { return false };
        let entity = &mut self.entities[current as usize];
        let virtually = entity.virtually(ran);
        entity.vruntime += virtually;
        entity.last_ran = now;
        queue.advance(entity, virtually);
        let allowance = if cfg!(rowlock_canary = "a-request-ends-late") { 1 } else { 0 };
        let request_is_over = entity.vruntime >= entity.deadline + allowance;
        if request_is_over {
            entity.deadline = entity.vruntime + entity.virtually(entity.slice);
        }
        request_is_over
    }

    /// Whether the current thread, just updated, should be compared with the waiting ones (the end
    /// of `update_curr`).
    pub(super) fn is_due(&self, cpu: CpuId, request_is_over: bool) -> bool {
        let queue = &self.queues[cpu.index()];
        let current = queue.current.map(|current| &self.entities[current as usize]);
        let unprotected = current.is_some_and(|current| current.vruntime >= current.protected_until);
        !queue.waiting.is_empty() && (request_is_over || unprotected)
    }

    /// Puts a thread with its lag into the queue of `cpu`. `request` is the virtual time to its
    /// deadline.
    pub(super) fn place(&mut self, thread: ThreadId, cpu: CpuId, request: i64) {
        let queue = &self.queues[cpu.index()];
        let entity = &mut self.entities[thread.index()];
        entity.cpu = cpu;
        entity.vruntime = queue.average() - placed_lag(queue, entity);
        entity.deadline = entity.vruntime + request;
        self.enqueue(thread, cpu);
    }

    pub(super) fn enqueue(&mut self, thread: ThreadId, cpu: CpuId) {
        let queue = &mut self.queues[cpu.index()];
        queue.add(&self.entities[thread.index()]);
        queue.waiting.push(&mut self.entities, thread.0);
        self.entities[thread.index()].is_waiting = true;
        self.note_load(cpu);
    }

    /// Removes a thread from the waiting ones. It stays counted until it is [counted
    /// out](Queue::remove).
    pub(super) fn unlink(&mut self, thread: ThreadId, cpu: CpuId) {
        self.queues[cpu.index()].waiting.remove(&mut self.entities, thread.0);
        self.entities[thread.index()].is_waiting = false;
    }

    /// The current thread of a CPU leaves the queue.
    pub(super) fn take_off(&mut self, cpu: CpuId, thread: ThreadId) {
        self.remember_lag(thread, cpu);
        self.queues[cpu.index()].current = None;
        self.leave_group(thread);
        self.note_load(cpu);
    }

    pub(super) fn note_load(&mut self, cpu: CpuId) {
        let queue = &self.queues[cpu.index()];
        let is_overloaded = queue.current.is_some() && queue.ready() > 0;
        self.occupancy.note(cpu, queue.len(), if is_overloaded { queue.weight as usize } else { 0 });
    }

    /// Counts a thread out of a queue and stores its lag (`update_entity_lag`).
    pub(super) fn remember_lag(&mut self, thread: ThreadId, cpu: CpuId) {
        let queue = &mut self.queues[cpu.index()];
        let entity = &mut self.entities[thread.index()];
        let bound = entity.virtually((2 * entity.slice).max(self.ticks.period.as_nanos() as i64));
        entity.lag = (queue.average() - entity.vruntime).clamp(-bound, bound);
        queue.remove(entity);
    }

    /// The waiting thread that `cpu` would run (`pick_eevdf`). `None` if it would continue with the
    /// current one. Protection may be ignored.
    pub(super) fn best(&self, cpu: CpuId, protects: bool) -> Option<ThreadId> {
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

    /// The shortest slice in a queue (`cfs_rq_min_slice`). Unlimited for an empty one.
    pub(super) fn shortest_slice(&self, cpu: CpuId) -> i64 {
        let queue = &self.queues[cpu.index()];
        let of_current = queue.current.map(|current| self.entities[current as usize].slice);
        let of_waiting = queue.waiting.shortest_slice(&self.entities);
        of_current.into_iter().chain(of_waiting).min().unwrap_or(i64::MAX)
    }

    /// A thread blocks that is not eligible: it stays in the queue, but will not run
    /// (`DELAY_DEQUEUE`).
    pub(super) fn delay(&mut self, thread: ThreadId, cpu: CpuId) {
        let queue = &mut self.queues[cpu.index()];
        queue.current = None;
        queue.delayed += 1;
        queue.waiting.push(&mut self.entities, thread.0);
        let entity = &mut self.entities[thread.index()];
        (entity.is_waiting, entity.is_delayed) = (true, true);
        self.note_load(cpu);
    }

    /// A delayed thread would be picked: it leaves the queue without a positive lag (`DELAY_ZERO`).
    pub(super) fn finish_delay(&mut self, thread: ThreadId, cpu: CpuId) {
        self.remember_lag(thread, cpu);
        self.unlink(thread, cpu);
        self.queues[cpu.index()].delayed -= 1;
        let entity = &mut self.entities[thread.index()];
        entity.is_delayed = false;
        entity.lag = entity.lag.min(0);
        self.loads.sleep(thread, self.queues[cpu.index()].updated);
        self.leave_group(thread);
        self.note_load(cpu);
    }

    /// Wakes a blocked thread that is still in its queue. It waits there from now on, with its
    /// place or, if it has become eligible, with no lag (`requeue_delayed_entity`).
    pub(super) fn requeue(&mut self, thread: ThreadId, cpu: CpuId) {
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
        self.note_load(cpu);
    }

    /// The waiting thread that `cpu` should run. `None` if it should continue with the current one.
    /// Delayed threads that would be picked leave the queue (`pick_next_entity`).
    pub(super) fn choose(&mut self, cpu: CpuId) -> Option<ThreadId> {
        loop {
            let best = self.best(cpu, true)?;
            if !self.entity(best).is_delayed {
                return Some(best);
            }
            self.finish_delay(best, cpu);
        }
    }

    /// A CPU switches to a waiting thread (`set_next_entity`), from another thread that can
    /// continue or not.
    pub(super) fn run(&mut self, cpu: CpuId, next: ThreadId, from: Option<ThreadId>) {
        let beside = from.map_or(i64::MAX, |from| self.entity(from).slice);
        self.unlink(next, cpu);
        self.queues[cpu.index()].current = Some(next.0);
        self.follow_group(next, self.queues[cpu.index()].updated);
        let shortest = self.shortest_slice(cpu).min(beside);
        let entity = &mut self.entities[next.index()];
        entity.last_ran = self.queues[cpu.index()].updated;
        entity.protected_until = entity.deadline;
        if shortest < entity.slice {
            entity.protected_until = entity.deadline.min(entity.vruntime + entity.virtually(shortest));
        }
        self.note_load(cpu);
    }

    /// Changes the weight of a thread (`reweight_entity`). Its queue, if any, must be up to date.
    /// Virtual quantities shrink as the weight grows, so that they stay the same in real time.
    pub(super) fn reweight(&mut self, thread: ThreadId, weight: u32, now: Instant) {
        let Entity { cpu, weight: before, is_waiting, .. } = *self.entity(thread);
        if weight == before {
            return;
        }
        self.loads.reweight(thread, weight, now);
        let is_queued = is_waiting || self.queues[cpu.index()].current == Some(thread.0);
        if is_queued {
            self.remember_lag(thread, cpu);
        }
        if is_waiting {
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
        if is_waiting {
            queue.waiting.put_back(&mut self.entities, thread.0);
        }
    }
}

impl Eevdf {
    /// Changes the weight of a thread in any place. Marks its CPU if that picks again.
    pub(super) fn change_weight(&mut self, thread: ThreadId, weight: u32, now: Instant, marks: &mut Marks) {
        let Entity { cpu, weight: before, is_waiting, is_delayed, .. } = *self.entity(thread);
        let is_current = self.queues[cpu.index()].current == Some(thread.0);
        if is_current || is_waiting {
            self.update(cpu, now);
        }
        self.reweight(thread, weight, now);
        self.note_load(cpu);
        let would_be_picked = is_waiting && !is_delayed && self.best(cpu, true) == Some(thread);
        if (is_current && weight < before) || would_be_picked {
            marks.mark(cpu);
        }
    }
}

/// Groups: jobs share the machine equally, however many threads they have.
impl Eevdf {
    /// A thread that was in no queue is about to join one.
    pub(super) fn join_group(&mut self, thread: ThreadId, now: Instant) {
        let (job, own) = (self.entity(thread).job, self.entity(thread).own_weight);
        if let Some(groups) = &mut self.groups {
            groups[job as usize].sum += u64::from(own);
            self.entities[thread.index()].is_counted = true;
            self.follow_group(thread, now);
        }
    }

    /// A thread has left its queue, and not for another one.
    pub(super) fn leave_group(&mut self, thread: ThreadId) {
        let (job, own) = (self.entity(thread).job, self.entity(thread).own_weight);
        if let Some(groups) = &mut self.groups {
            groups[job as usize].sum -= u64::from(own);
            self.entities[thread.index()].is_counted = false;
        }
    }

    /// Updates a thread's weight to its share of its group's weight.
    pub(super) fn follow_group(&mut self, thread: ThreadId, now: Instant) {
        if self.groups.is_some() {
            let weight = self.share(thread);
            self.reweight(thread, weight, now);
        }
    }

    /// Changes the weight of a thread's nice value. Returns its new weight in its queue.
    pub(super) fn set_own_weight(&mut self, thread: ThreadId, own: u32) -> u32 {
        let entity = &mut self.entities[thread.index()];
        let before = std::mem::replace(&mut entity.own_weight, own);
        if let Some(groups) = self.groups.as_mut().filter(|_| entity.is_counted) {
            let sum = &mut groups[entity.job as usize].sum;
            *sum = *sum - u64::from(before) + u64::from(own);
        }
        self.share(thread)
    }

    /// Changes the weight of a group. Returns its threads, which have not followed.
    pub(super) fn set_weight_of_group(&mut self, job: usize, weight: u64) -> Range<usize> {
        let Some(groups) = &mut self.groups else { return 0..0 };
        groups[job].weight = weight;
        groups[job].threads.clone()
    }

    pub(super) fn share(&self, thread: ThreadId) -> u32 {
        let entity = self.entity(thread);
        let own = u64::from(entity.own_weight);
        match &self.groups {
            Some(groups) => {
                let Group { weight, sum, .. } = &groups[entity.job as usize];
                (weight * own / sum.max(&own)).max(MIN_SHARE) as u32
            }
            None => entity.own_weight,
        }
    }
}
