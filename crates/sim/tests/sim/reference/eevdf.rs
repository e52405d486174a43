//! Earliest eligible virtual deadline first, by the rules at the head of `sim::eevdf`.
//!
//! Averages, loads and the best thread are computed from all threads whenever they are needed.

mod balance;

use policy::{CpuId, Span, ThreadId};
use rowlock_sim::observer::CpuState;
use rowlock_sim::roster::Roster;
use rowlock_sim::scheduler::ReadyReason;
use scenario::Machine;

use self::balance::Domain;
use crate::reference::kernel::{Kernel, Picks};
use crate::reference::load::Loads;
use crate::reference::ticks::Ticks;
use crate::reference::topology::{Level, Topology};
use crate::reference::waking::{Scene, Waking};
use crate::reference::world::{Activity, Cpu, Thread, World};

/// The weight of a nice value: `sched_prio_to_weight`.
const WEIGHTS: [i128; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
    1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

#[derive(Clone, Default)]
struct Entity {
    weight: i128,
    /// The weight of its nice value, and whether that counts in its group.
    own_weight: i128,
    is_counted: bool,
    job: usize,
    slice: i128,
    /// The CPUs on which it may run.
    cpus: Vec<Cpu>,
    /// The CPU on which it is queued, runs, or last was.
    cpu: Cpu,
    /// Virtual times are in nanoseconds.
    vruntime: i128,
    deadline: i128,
    /// While it runs: the end of its protection.
    protected_until: i128,
    /// Its lag when it left its queue.
    lag: i128,
    /// When it last ran, in nanoseconds.
    last_ran: Option<u64>,
    /// Whether it is blocked but still in its queue.
    is_delayed: bool,
}

impl Entity {
    fn virtually(&self, nanos: i128) -> i128 {
        nanos * 1024 / self.weight
    }
}

pub(crate) struct Eevdf {
    step: u64,
    has_groups: bool,
    tick: u64,
    ticks: Ticks,
    waking: Waking,
    loads: Loads,
    entities: Vec<Entity>,
    /// The thread of each CPU, from its pick on, and for how long its virtual time has not been
    /// updated.
    current: Vec<Option<Thread>>,
    ran: Vec<u64>,
    /// The waiting threads of each CPU, in the order of arrival, and those that are delayed.
    waiting: Vec<Vec<Thread>>,
    marked: Vec<bool>,
    /// The next tick of each CPU that runs a thread, in nanoseconds.
    next_tick: Vec<u64>,
    topology: Topology,
    /// At each level of each CPU: with threads, and without.
    domains: Vec<Vec<Domain>>,
    idle_domains: Vec<Vec<Domain>>,
    /// No CPU asks idle CPUs to take a running thread before this time.
    next_request: u64,
}

impl Eevdf {
    pub(crate) fn new(machine: &Machine, roster: &Roster, seed: u64) -> Eevdf {
        let cpus = machine.cpus as usize;
        let whole = |span: Span| span.floor_to(machine.step).max(machine.step).as_nanos();
        let entity = |thread: usize| {
            let attributes = roster.attributes(ThreadId(thread as u32));
            let all: Vec<Cpu> = (0..cpus).collect();
            let may = |cpu: &Cpu| attributes.cpus.as_ref().is_none_or(|set| set.contains(CpuId(*cpu as u32)));
            let some: Vec<Cpu> = all.iter().copied().filter(may).collect();
            Entity {
                weight: WEIGHTS[(attributes.nice + 20) as usize],
                own_weight: WEIGHTS[(attributes.nice + 20) as usize],
                job: roster.job_of(ThreadId(thread as u32)),
                slice: attributes.slice.map_or(whole(machine.slice), Span::as_nanos).into(),
                cpus: if some.is_empty() { all } else { some },
                ..Entity::default()
            }
        };
        let topology = Topology::new(machine);
        let domain = |level: &Level| Domain { last: 0, interval: level.size as u64, failures: 0 };
        let domains: Vec<Domain> = topology.levels().iter().map(domain).collect();
        Eevdf {
            step: machine.step.as_nanos(),
            has_groups: machine.groups,
            tick: whole(machine.tick),
            ticks: Ticks::new(machine, whole(machine.tick), seed),
            waking: Waking::default(),
            loads: Loads::new(cpus),
            entities: (0..roster.len()).map(entity).collect(),
            current: vec![None; cpus],
            ran: vec![0; cpus],
            waiting: vec![Vec::new(); cpus],
            marked: vec![false; cpus],
            next_tick: vec![0; cpus],
            topology,
            idle_domains: vec![domains.clone(); cpus],
            domains: vec![domains; cpus],
            next_request: 0,
        }
    }

    fn members(&self, cpu: Cpu) -> Vec<Thread> {
        self.waiting[cpu].iter().copied().chain(self.current[cpu]).collect()
    }

    fn weight(&self, cpu: Cpu) -> i128 {
        self.members(cpu).iter().map(|&thread| self.entities[thread].weight).sum()
    }

    fn sum(&self, cpu: Cpu) -> i128 {
        self.members(cpu).iter().map(|&thread| self.entities[thread].vruntime * self.entities[thread].weight).sum()
    }

    fn average(&self, cpu: Cpu) -> i128 {
        if self.members(cpu).is_empty() { 0 } else { self.sum(cpu).div_euclid(self.weight(cpu)) }
    }

    fn is_eligible(&self, thread: Thread, cpu: Cpu) -> bool {
        self.entities[thread].vruntime * self.weight(cpu) <= self.sum(cpu)
    }

    fn shortest_slice(&self, cpu: Cpu) -> i128 {
        self.members(cpu).iter().map(|&thread| self.entities[thread].slice).min().unwrap_or(i128::MAX)
    }

    /// How many threads run or could run.
    fn runnable(&self, cpu: Cpu) -> usize {
        self.members(cpu).into_iter().filter(|&thread| !self.entities[thread].is_delayed).count()
    }

    fn excess(&self, level: Level, from: Cpu, to: Cpu) -> usize {
        self.topology.excess(level, from, to, &|cpu| self.runnable(cpu))
    }

    /// Whether a thread waits that is not blocked.
    fn has_ready(&self, cpu: Cpu) -> bool {
        self.waiting[cpu].iter().any(|&thread| !self.entities[thread].is_delayed)
    }

    fn all_cpus(&self) -> impl Iterator<Item = Cpu> + use<> {
        0..self.current.len()
    }

    /// Updates the current thread's virtual time. If it has reached its deadline, it gets the next
    /// one. Returns whether the CPU should pick again because of that, or because the thread is not
    /// protected any more.
    fn update(&mut self, cpu: Cpu) -> bool {
        let ran = std::mem::take(&mut self.ran[cpu]);
        let Some(current) = self.current[cpu] else { return false };
        let entity = &mut self.entities[current];
        entity.vruntime += entity.virtually(ran.into());
        let has_reached_it = entity.vruntime >= entity.deadline;
        if has_reached_it {
            entity.deadline = entity.vruntime + entity.virtually(entity.slice);
        }
        !self.waiting[cpu].is_empty() && (has_reached_it || entity.vruntime >= entity.protected_until)
    }

    fn best(&self, cpu: Cpu, protects: bool) -> Option<Thread> {
        let current = self.current[cpu].filter(|&current| self.is_eligible(current, cpu));
        let deadline = |thread: Thread| self.entities[thread].deadline;
        if let Some(current) = current
            && protects
            && self.entities[current].vruntime < self.entities[current].protected_until
        {
            return Some(current);
        }
        let mut best: Option<Thread> = None;
        for &thread in &self.waiting[cpu] {
            if self.is_eligible(thread, cpu) && best.is_none_or(|best| deadline(thread) < deadline(best)) {
                best = Some(thread);
            }
        }
        match (current, best) {
            (Some(current), Some(best)) if deadline(current) < deadline(best) => Some(current),
            (_, Some(best)) => Some(best),
            (_, None) => self.current[cpu],
        }
    }

    /// The best thread that is not blocked. Blocked threads that would be picked leave the queue
    /// without a positive lag.
    fn best_awake(&mut self, cpu: Cpu) -> Option<Thread> {
        loop {
            let best = self.best(cpu, true)?;
            if !self.entities[best].is_delayed {
                return Some(best);
            }
            self.remember_lag(best, cpu);
            self.waiting[cpu].retain(|&other| other != best);
            self.entities[best].is_delayed = false;
            self.entities[best].is_counted = false;
            self.loads.sleep(best);
            self.entities[best].lag = self.entities[best].lag.min(0);
        }
    }

    /// A thread gets its share of its group's weight.
    fn follow_group(&mut self, thread: Thread) {
        if !self.has_groups {
            return;
        }
        let Entity { job, own_weight, weight: before, cpu, .. } = self.entities[thread];
        let counted = self.entities.iter().filter(|entity| entity.job == job && entity.is_counted);
        let group: i128 = counted.map(|entity| entity.own_weight).sum();
        let weight = (1024 * own_weight / group).max(2);
        if weight == before {
            return;
        }
        self.loads.reweight(thread, weight);
        let place = self.waiting[cpu].iter().position(|&other| other == thread);
        let is_current = self.current[cpu] == Some(thread);
        if place.is_some() || is_current {
            self.remember_lag(thread, cpu);
        }
        // Averages are those of the other threads.
        if let Some(place) = place {
            self.waiting[cpu].remove(place);
        }
        if is_current {
            self.current[cpu] = None;
        }
        let (others, average) = (self.weight(cpu), self.average(cpu));
        let entity = &mut self.entities[thread];
        let (request, protected) = (entity.deadline - entity.vruntime, entity.protected_until - entity.vruntime);
        entity.lag = entity.lag * before / weight;
        entity.weight = weight;
        if place.is_some() || is_current {
            entity.vruntime = average - if others == 0 { 0 } else { entity.lag * (others + weight) / others };
        }
        entity.deadline = entity.vruntime + request * before / weight;
        entity.protected_until = entity.vruntime + protected * before / weight;
        if let Some(place) = place {
            self.waiting[cpu].insert(place, thread);
        }
        if is_current {
            self.current[cpu] = Some(thread);
        }
    }

    /// Whether a thread that has joined a queue should preempt.
    fn should_preempt(&mut self, thread: Thread, cpu: Cpu) -> bool {
        let Some(current) = self.current[cpu] else { return true };
        let is_shorter = self.entities[thread].slice < self.entities[current].slice;
        let preempts = self.best(cpu, !is_shorter) == Some(thread);
        if is_shorter {
            let shortest = self.shortest_slice(cpu);
            let current = &mut self.entities[current];
            let end = if preempts { current.vruntime } else { current.vruntime + current.virtually(shortest) };
            current.protected_until = current.protected_until.min(end);
        }
        preempts
    }

    /// Puts a thread into a queue so that it has its lag again when it is counted.
    fn place(&mut self, thread: Thread, cpu: Cpu, request: i128) {
        let (others, own) = (self.weight(cpu), self.entities[thread].weight);
        let lag = if others == 0 { 0 } else { self.entities[thread].lag * (others + own) / others };
        let vruntime = self.average(cpu) - lag;
        let entity = &mut self.entities[thread];
        (entity.cpu, entity.vruntime, entity.deadline) = (cpu, vruntime, vruntime + request);
        self.waiting[cpu].push(thread);
    }

    fn remember_lag(&mut self, thread: Thread, cpu: Cpu) {
        let average = self.average(cpu);
        let entity = &mut self.entities[thread];
        let bound = entity.virtually((2 * entity.slice).max(self.tick.into()));
        entity.lag = (average - entity.vruntime).clamp(-bound, bound);
    }

    /// Wakes a blocked thread that is still in its queue.
    fn requeue(&mut self, thread: Thread, cpu: Cpu) {
        self.entities[thread].is_delayed = false;
        if self.average(cpu) > self.entities[thread].vruntime {
            let place = self.waiting[cpu].iter().position(|&other| other == thread).unwrap();
            self.waiting[cpu].remove(place);
            self.entities[thread].lag = 0;
            self.place(thread, cpu, self.entities[thread].virtually(self.entities[thread].slice));
            let back = self.waiting[cpu].pop().unwrap();
            self.waiting[cpu].insert(place, back);
        }
    }

    fn migrate(&mut self, thread: Thread, from: Cpu, to: Cpu) {
        self.remember_lag(thread, from);
        self.waiting[from].retain(|&other| other != thread);
        self.loads.join(thread, to, self.entities[thread].weight);
        let left_of_its_request = self.entities[thread].deadline - self.entities[thread].vruntime;
        self.place(thread, to, left_of_its_request);
    }

    fn cpu_for(&mut self, thread: Thread, why: ReadyReason, world: &World) -> Cpu {
        let Entity { cpu: previous, cpus, .. } = &self.entities[thread];
        if let ReadyReason::Moved(to) = why {
            return to.index();
        }
        if why == ReadyReason::New {
            let cpu = self.topology.emptiest(cpus.clone(), &|cpu| self.members(cpu).len() as i128);
            self.waking.begin(thread, cpu);
            self.loads.begin(thread);
            return cpu;
        }
        let scene = Scene {
            now: world.now * self.step,
            previous: *previous,
            waker: world.here.and_then(|here| Some((here, self.current[here]?))),
            loads: &self.loads,
            topology: &self.topology,
            is_free: self.all_cpus().map(|cpu| self.members(cpu).is_empty()).collect(),
            may_run: &|cpu| cpus.contains(&cpu),
        };
        self.waking.cpu_for(thread, &scene)
    }

    fn ticks_next(&mut self, world: &World, cpu: Cpu) {
        self.next_tick[cpu] = self.ticks.after(cpu, world.now * self.step);
    }
}

impl Kernel for Eevdf {
    fn pass_step(&mut self, world: &World) {
        self.loads.pass_until((world.now * self.step).into());
        for cpu in self.all_cpus() {
            if let Some(thread) = self.current[cpu] {
                self.ran[cpu] += self.step;
                self.entities[thread].last_ran = Some(world.now * self.step);
            }
        }
    }

    fn ready(&mut self, world: &World, threads: &[Thread], why: ReadyReason) {
        for &thread in threads {
            if why == ReadyReason::Preempted {
                self.waiting[self.entities[thread].cpu].push(thread);
                continue;
            }
            let was_delayed = self.entities[thread].is_delayed;
            let cpu = if was_delayed { self.entities[thread].cpu } else { self.cpu_for(thread, why, world) };
            let should_pick_again = self.update(cpu) || self.marked[cpu];
            if was_delayed {
                self.requeue(thread, cpu);
            } else {
                self.entities[thread].is_counted = true;
                self.follow_group(thread);
                self.loads.join(thread, cpu, self.entities[thread].weight);
                let request = self.entities[thread].virtually(self.entities[thread].slice);
                self.place(thread, cpu, if why == ReadyReason::New { request / 2 } else { request });
            }
            if should_pick_again || self.should_preempt(thread, cpu) {
                self.marked[cpu] = true;
            }
        }
    }

    fn schedule(&mut self, world: &World, cpu: Cpu, previous: Option<Thread>) -> Option<Thread> {
        self.marked[cpu] = false;
        self.update(cpu);
        let mut best = self.best_awake(cpu);
        if best.is_none()
            && let Some((thread, from)) = self.to_steal(cpu, world.now * self.step)
        {
            self.update(from);
            self.migrate(thread, from, cpu);
            best = self.best_awake(cpu);
        }
        let best = best?;
        if previous != Some(best) {
            // The thread that it replaces is in no queue until the switch is over.
            self.waiting[cpu].retain(|&other| other != best);
            self.current[cpu] = Some(best);
            self.follow_group(best);
            let replaced = previous.map_or(i128::MAX, |previous| self.entities[previous].slice);
            let shortest = self.shortest_slice(cpu).min(replaced);
            let entity = &mut self.entities[best];
            (entity.cpu, entity.last_ran) = (cpu, Some(world.now * self.step));
            entity.protected_until = entity.deadline;
            if shortest < entity.slice {
                entity.protected_until = entity.deadline.min(entity.vruntime + entity.virtually(shortest));
            }
        }
        Some(best)
    }

    fn leave(&mut self, world: &World, cpu: Cpu, thread: Thread) {
        self.update(cpu);
        let blocks = world.threads[thread].activity == Activity::Waiting;
        if blocks && !self.is_eligible(thread, cpu) {
            self.waiting[cpu].push(thread);
            self.entities[thread].is_delayed = true;
        } else {
            self.remember_lag(thread, cpu);
            self.entities[thread].is_counted = false;
            if blocks {
                self.loads.sleep(thread);
            } else {
                self.loads.leave(thread);
            }
        }
        self.current[cpu] = None;
    }

    fn end_switch(&mut self, world: &World, cpu: Cpu) {
        match world.cpus[cpu].state {
            // It looks for work again.
            CpuState::Idle => self.marked[cpu] = true,
            _ => self.ticks_next(world, cpu),
        }
    }

    fn time_is_up(&self, world: &World, cpu: Cpu) -> bool {
        world.now * self.step >= self.next_tick[cpu]
    }

    fn when_time_is_up(&mut self, world: &World, cpu: Cpu) -> Picks {
        let now = world.now * self.step;
        self.ticks_next(world, cpu);
        let is_due = self.update(cpu);
        if let Some(current) = self.current[cpu] {
            self.follow_group(current);
        }
        let mut this_cpu = is_due;
        for level in 0..self.topology.levels().len() {
            this_cpu |= self.balance(cpu, level, now);
        }
        let is_idle = |cpu: &Cpu| world.cpus[*cpu].state == CpuState::Idle && !self.marked[*cpu];
        let mut idle: Vec<Cpu> = self.all_cpus().filter(is_idle).collect();
        if self.topology.has_siblings() {
            // Those of idle cores come first.
            let is_free = |cpu: Cpu| self.members(cpu).is_empty();
            idle.sort_by_key(|&cpu| !self.topology.core(cpu).into_iter().all(is_free));
        }
        let comes = |cpu: &Cpu| self.to_steal(*cpu, now).is_some();
        let first = idle.iter().copied().find(comes).filter(|_| self.has_ready(cpu));
        let push = if first.is_none() { self.push(cpu, idle, now) } else { None };
        Picks { first, this_cpu, push }
    }

    fn has_to_schedule(&self, _world: &World, cpu: Cpu) -> bool {
        self.marked[cpu]
    }
}
