//! The completely fair scheduler by the rules at the head of `sim::cfs` and `sim::cfs::balance`.
//!
//! Virtual times and minima advance step by step, and everything else is looked up in lists when it
//! is needed.

use policy::Span;
use rowlock_sim::observer::CpuState;
use rowlock_sim::scheduler::ReadyReason;
use scenario::{Machine, Setting};

use crate::reference::affinity::Affinity;
use crate::reference::kernel::{Kernel, Picks};
use crate::reference::load::Loads;
use crate::reference::ticks::Ticks;
use crate::reference::topology::{Level, Topology};
use crate::reference::waking::{Scene, Waking};
use crate::reference::world::{Activity, Cpu, Thread, World};

#[derive(Clone)]
struct Entity {
    /// The CPU on which it is queued, runs, or last was.
    cpu: Cpu,
    weight: i128,
    vruntime: i128,
    /// When it last ran on this CPU, in nanoseconds.
    last_ran: Option<i128>,
}

/// The threads of a CPU, and its history. Times are in nanoseconds.
#[derive(Clone, Default)]
struct Queue {
    current: Option<Thread>,
    /// The thread that it is switching away from, if that can continue.
    outgoing: Option<Thread>,
    /// The waiting threads, in the order of arrival.
    waiting: Vec<Thread>,
    /// The same threads in the order in which balancing looks at them.
    candidates: Vec<Thread>,
    /// How long the current thread has run, and its virtual time before.
    ran: i128,
    began_at: i128,
    minimum: i128,
    next: Option<Thread>,
    last: Option<Thread>,
    skip: Option<Thread>,
    marked: bool,
    next_tick: i128,
    idle_since: Option<i128>,
    idle_average: i128,
    /// At each level.
    balancing: [Balancing; 3],
}

#[derive(Clone, Copy, Default)]
struct Balancing {
    last: i128,
    is_calm: bool,
    failures: u32,
}

/// The outcome of balancing.
#[derive(Clone, Copy, Default)]
struct Came {
    threads: usize,
    picks_again: bool,
    /// The CPU whose running thread should be pushed.
    push_from: Option<Cpu>,
}

impl Queue {
    fn members(&self) -> Vec<Thread> {
        self.waiting.iter().copied().chain(self.current).chain(self.outgoing).collect()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Occasion {
    NewlyIdle,
    Idle,
    Busy,
}

pub(crate) struct Cfs {
    step: i128,
    latency: i128,
    granularity: i128,
    wakeup_granularity: i128,
    migration_cost: i128,
    tick: i128,
    ticks: Ticks,
    waking: Waking,
    loads: Loads,
    affinity: Affinity,
    topology: Topology,
    entities: Vec<Entity>,
    queues: Vec<Queue>,
    /// No CPU asks idle CPUs for help before this time.
    next_request: i128,
}

/// The weights of nice values -20 to 19, `sched_prio_to_weight`.
const WEIGHTS: [i128; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
    1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

impl Cfs {
    pub(crate) fn new(machine: &Machine, setting: &Setting, seed: u64) -> Cfs {
        let floored = |span: Span| i128::from(span.floor_to(machine.step).as_nanos());
        let step = floored(machine.step);
        let migration_cost = floored(machine.cfs.migration_cost);
        let mut entities = Vec::new();
        for (_, job) in setting.jobs_with_copies() {
            let weight = WEIGHTS[(job.attributes.nice + 20) as usize];
            let entity = Entity { cpu: 0, weight, vruntime: 0, last_ran: None };
            entities.resize(entities.len() + job.kind.threads(machine.cpus) as usize, entity);
        }
        Cfs {
            step,
            latency: floored(machine.cfs.latency).max(step),
            granularity: floored(machine.cfs.granularity).max(step),
            wakeup_granularity: floored(machine.cfs.wakeup_granularity),
            migration_cost,
            tick: floored(machine.tick).max(step),
            ticks: Ticks::new(machine, floored(machine.tick).max(step) as u64, seed),
            waking: Waking::default(),
            loads: Loads::new(machine.cpus as usize),
            affinity: Affinity::new(machine, setting),
            topology: Topology::new(machine),
            entities,
            queues: vec![Queue { idle_average: 2 * migration_cost, ..Queue::default() }; machine.cpus as usize],
            next_request: 0,
        }
    }

    fn now(&self, world: &World) -> i128 {
        i128::from(world.now) * self.step
    }

    fn all_cpus(&self) -> impl Iterator<Item = Cpu> + use<> {
        0..self.queues.len()
    }

    fn is_free(&self, cpu: Cpu) -> bool {
        self.queues[cpu].members().is_empty()
    }

    fn load(&self, cpu: Cpu) -> i128 {
        self.queues[cpu].members().iter().map(|&thread| self.entities[thread].weight).sum()
    }

    fn may_run(&self, thread: Thread, cpu: Cpu) -> bool {
        self.affinity.is_allowed(thread, cpu)
    }

    fn vruntime(&self, thread: Thread) -> i128 {
        self.entities[thread].vruntime
    }

    fn virtually(&self, thread: Thread, nanos: i128) -> i128 {
        nanos * 1024 / self.entities[thread].weight
    }

    /// How many threads fit into a latency.
    fn room(&self) -> usize {
        ((self.latency + self.granularity - 1) / self.granularity) as usize
    }

    fn minimum_follows(&mut self, cpu: Cpu) {
        let queue = &self.queues[cpu];
        let counted = queue.waiting.iter().copied().chain(queue.current);
        if let Some(least) = counted.map(|thread| self.vruntime(thread)).min() {
            self.queues[cpu].minimum = self.queues[cpu].minimum.max(least);
        }
    }

    /// The minimum rises while a thread runs.
    fn update(&mut self, cpu: Cpu) {
        if self.queues[cpu].current.is_some() {
            self.minimum_follows(cpu);
        }
    }

    /// The slice of a thread of this queue, or of one that may join it.
    fn slice(&self, thread: Thread, cpu: Cpu) -> i128 {
        let mut members = self.queues[cpu].members();
        if !members.contains(&thread) {
            members.push(thread);
        }
        let weight: i128 = members.iter().map(|&thread| self.entities[thread].weight).sum();
        let count = members.len();
        let period = if count > self.room() { count as i128 * self.granularity } else { self.latency };
        (period * self.entities[thread].weight / weight).max(self.granularity)
    }

    fn is_fair(&self, ahead: Thread, behind: Thread) -> bool {
        self.vruntime(ahead) - self.vruntime(behind) <= self.virtually(behind, self.wakeup_granularity)
    }

    fn remove_buddy(&mut self, thread: Thread, cpu: Cpu) {
        let queue = &mut self.queues[cpu];
        for buddy in [&mut queue.next, &mut queue.last, &mut queue.skip] {
            *buddy = buddy.filter(|&buddy| buddy != thread);
        }
    }

    fn waits(&mut self, thread: Thread, cpu: Cpu) {
        self.queues[cpu].waiting.push(thread);
        self.queues[cpu].candidates.push(thread);
    }

    fn stop_waiting(&mut self, thread: Thread, cpu: Cpu) {
        self.queues[cpu].waiting.retain(|&other| other != thread);
        self.queues[cpu].candidates.retain(|&other| other != thread);
    }

    /// Whether a thread that has joined should make its CPU pick again.
    fn should_preempt(&mut self, thread: Thread, cpu: Cpu) -> bool {
        let Some(current) = self.queues[cpu].current else { return true };
        if self.is_fair(current, thread) {
            return false;
        }
        self.queues[cpu].next = Some(thread);
        if self.queues[cpu].members().len() >= self.room() {
            self.queues[cpu].last = Some(current);
        }
        true
    }

    fn best(&self, cpu: Cpu, previous: Option<Thread>) -> Option<Thread> {
        let queue = &self.queues[cpu];
        // By virtual time. Of equal threads, waiting ones come first, in the order of arrival.
        let mut by_time: Vec<Thread> = queue.waiting.iter().copied().chain(previous).collect();
        by_time.sort_by_key(|&thread| self.vruntime(thread));
        let first = *by_time.first()?;
        let mut best = first;
        if queue.skip == Some(first)
            && let Some(&second) = by_time.get(1)
            && self.is_fair(second, first)
        {
            best = second;
        }
        for buddy in [queue.last, queue.next].into_iter().flatten() {
            if self.is_fair(buddy, first) {
                best = buddy;
            }
        }
        Some(best)
    }

    fn cpu_for_new(&self, thread: Thread) -> Cpu {
        let allowed = self.all_cpus().filter(|&cpu| self.may_run(thread, cpu));
        self.topology.emptiest(allowed.collect(), &|cpu| self.load(cpu))
    }

    fn cpu_for_woken(&mut self, thread: Thread, world: &World) -> Cpu {
        let mut waking = std::mem::take(&mut self.waking);
        let scene = Scene {
            now: self.now(world) as u64,
            previous: self.entities[thread].cpu,
            waker: world.here.and_then(|here| Some((here, self.queues[here].current?))),
            loads: &self.loads,
            topology: &self.topology,
            is_free: self.all_cpus().map(|cpu| self.is_free(cpu)).collect(),
            may_run: &|cpu| self.may_run(thread, cpu),
        };
        let cpu = waking.cpu_for(thread, &scene);
        self.waking = waking;
        cpu
    }

    /// A thread moves, as far ahead of the minimum as it was, and cold.
    fn migrate(&mut self, thread: Thread, to: Cpu) {
        let from = self.entities[thread].cpu;
        self.update(from);
        self.update(to);
        let ahead = self.vruntime(thread) - self.queues[from].minimum;
        self.stop_waiting(thread, from);
        self.remove_buddy(thread, from);
        let entity = &mut self.entities[thread];
        entity.vruntime = self.queues[to].minimum + ahead;
        entity.cpu = to;
        entity.last_ran = None;
    }

    fn ticks_next(&mut self, world: &World, cpu: Cpu) {
        self.queues[cpu].next_tick = self.ticks.after(cpu, self.now(world) as u64).into();
    }
}

/// Balancing.
impl Cfs {
    fn is_time(&self, cpu: Cpu, level: usize, occasion: Occasion, now: i128) -> bool {
        let balancing = self.queues[cpu].balancing[level];
        let quarters = self.topology.levels()[level].size as i128 * if balancing.is_calm { 2 } else { 1 };
        let ticks = if occasion == Occasion::Busy { 4 * quarters - 1 } else { (quarters + 3) / 4 };
        now - balancing.last >= ticks * self.tick
    }

    fn balance(&mut self, cpu: Cpu, number: usize, occasion: Occasion, told: bool, now: i128) -> Came {
        let level = self.topology.levels()[number];
        let is_free = self.is_free(cpu);
        let mut others = self.topology.others(level, cpu);
        others.retain(|&other| self.queues[other].members().len() > 1);
        if is_free {
            others.retain(|&other| self.topology.excess(level, other, cpu, &|cpu| self.threads(cpu)) > 0);
        }
        let mut came = Came::default();
        let mut source = None;
        while !others.is_empty() {
            let mut most = others[0];
            for &other in &others {
                if self.load(other) > self.load(most) {
                    most = other;
                }
            }
            let Some((left, in_threads)) = self.imbalance(cpu, most, level) else { break };
            let of_its = self.queues[most].candidates.iter().take(32).chain(self.queues[most].current.iter());
            if of_its.copied().any(|thread| self.may_run(thread, cpu)) {
                let failures = self.queues[cpu].balancing[number].failures;
                came = self.take_from(cpu, most, left, in_threads, (level, failures), occasion, told, now);
                source = Some(most);
                break;
            }
            // No thread there may run here. Those that were looked at are looked at last from now
            // on.
            let looked_at = self.queues[most].candidates.len().min(32);
            self.queues[most].candidates.rotate_left(looked_at);
            others.retain(|&other| other != most);
        }
        if source.is_none() && self.is_free(cpu) {
            source = self.topology.crowded(level, cpu, &|cpu| self.threads(cpu));
        }
        let may_go = source.and_then(|from| self.queues[from].current).is_some_and(|thread| self.may_run(thread, cpu));
        let balancing = &mut self.queues[cpu].balancing[number];
        if occasion == Occasion::NewlyIdle {
            balancing.is_calm &= source.is_none();
        } else {
            balancing.last = now;
            balancing.is_calm = source.is_none();
        }
        if source.is_none() || came.threads > 0 {
            balancing.failures = 0;
        } else if occasion != Occasion::NewlyIdle {
            balancing.failures += 1;
        }
        if occasion == Occasion::Idle && balancing.failures > level.tries + 2 && may_go {
            balancing.failures = 0;
            came.push_from = source;
        }
        came
    }

    fn threads(&self, cpu: Cpu) -> usize {
        self.queues[cpu].members().len()
    }

    /// How much to take, and whether that is a number of threads and not a load.
    fn imbalance(&self, cpu: Cpu, from: Cpu, level: Level) -> Option<(i128, bool)> {
        let threads = self.queues[cpu].members().len();
        if threads == 0 {
            let excess = self.topology.excess(level, from, cpu, &|cpu| self.threads(cpu));
            return Some((excess as i128 / 2, true));
        }
        let average = self.loads.mean(&self.topology.domain(level, cpu));
        let (here, there) = (self.loads.of_cpu(cpu), self.loads.of_cpu(from));
        if here >= there || (threads > 1 && there * 100 <= here * level.percent) {
            return None;
        }
        let load = (there - average).min(average - here);
        (load > 0).then_some((load, false))
    }

    #[expect(clippy::too_many_arguments, reason = "all of it is one decision")]
    fn take_from(
        &mut self,
        cpu: Cpu,
        from: Cpu,
        mut left: i128,
        in_threads: bool,
        (level, failures): (Level, u32),
        occasion: Occasion,
        told: bool,
        now: i128,
    ) -> Came {
        let (mut taken, mut picks_again) = (0, false);
        for _ in 0..self.queues[from].candidates.len().min(32) {
            if occasion != Occasion::Busy && self.queues[from].members().len() < 2 {
                break;
            }
            let thread = self.queues[from].candidates.remove(0);
            self.queues[from].candidates.push(thread);
            let load = self.loads.of_thread(thread).max(1);
            let counts_for = load >> failures.min(63);
            let is_cold = failures > level.tries || level.shares_all_caches() || !self.is_hot(thread, from, cpu, now);
            if !self.may_run(thread, cpu) || !is_cold || (!in_threads && counts_for > left) {
                continue;
            }
            self.migrate(thread, cpu);
            self.minimum_follows(from);
            self.waits(thread, cpu);
            self.loads.join(thread, cpu, self.entities[thread].weight);
            if !told && !picks_again {
                picks_again = self.should_preempt(thread, cpu);
            }
            taken += 1;
            left -= if in_threads { 1 } else { load };
            if left <= 0 {
                break;
            }
        }
        Came { threads: taken, picks_again, push_from: None }
    }

    fn is_hot(&self, thread: Thread, from: Cpu, to: Cpu, now: i128) -> bool {
        let queue = &self.queues[from];
        let is_buddy = queue.next == Some(thread) || queue.last == Some(thread);
        let ran_lately = self.entities[thread].last_ran.is_some_and(|ran| now - ran < self.migration_cost);
        ran_lately || (is_buddy && !self.is_free(to))
    }
}

impl Kernel for Cfs {
    fn pass_step(&mut self, world: &World) {
        self.loads.pass_until(self.now(world));
        for cpu in self.all_cpus() {
            if let Some(thread) = self.queues[cpu].current {
                self.queues[cpu].ran += self.step;
                let vruntime = self.queues[cpu].began_at + self.virtually(thread, self.queues[cpu].ran);
                self.entities[thread].vruntime = vruntime;
                self.entities[thread].last_ran = Some(self.now(world));
                self.minimum_follows(cpu);
            }
        }
    }

    fn ready(&mut self, world: &World, threads: &[Thread], why: ReadyReason) {
        let now = self.now(world);
        for &thread in threads {
            if why == ReadyReason::Preempted {
                let cpu = self.entities[thread].cpu;
                self.update(cpu);
                self.queues[cpu].outgoing = None;
                self.waits(thread, cpu);
                continue;
            }
            let cpu = match why {
                ReadyReason::New => self.cpu_for_new(thread),
                ReadyReason::Moved(to) => to.index(),
                _ => self.cpu_for_woken(thread, world),
            };
            if why == ReadyReason::New {
                self.update(cpu);
                let debit = self.virtually(thread, self.slice(thread, cpu));
                self.waking.begin(thread, cpu);
                self.loads.begin(thread);
                self.entities[thread].cpu = cpu;
                self.entities[thread].vruntime = self.queues[cpu].minimum + debit;
            } else if let ReadyReason::Moved(_) = why {
                self.migrate(thread, cpu);
            } else {
                self.update(cpu);
                if cpu != self.entities[thread].cpu {
                    self.migrate(thread, cpu);
                }
                if let Some(since) = self.queues[cpu].idle_since.take() {
                    let average = self.queues[cpu].idle_average;
                    let moved = average + (now - since - average) / 8;
                    self.queues[cpu].idle_average = moved.min(2 * self.migration_cost);
                }
                let earliest = self.queues[cpu].minimum - self.latency / 2;
                self.entities[thread].vruntime = self.vruntime(thread).max(earliest);
            }
            self.waits(thread, cpu);
            self.loads.join(thread, cpu, self.entities[thread].weight);
            if !self.queues[cpu].marked && self.should_preempt(thread, cpu) {
                self.queues[cpu].marked = true;
            }
        }
    }

    fn schedule(&mut self, world: &World, cpu: Cpu, previous: Option<Thread>) -> Option<Thread> {
        let now = self.now(world);
        self.queues[cpu].marked = false;
        self.update(cpu);
        if self.is_free(cpu) {
            self.queues[cpu].idle_since.get_or_insert(now);
            if self.queues[cpu].idle_average >= self.migration_cost {
                for level in 0..self.topology.levels().len() {
                    if self.balance(cpu, level, Occasion::NewlyIdle, false, now).threads > 0 {
                        break;
                    }
                }
            }
        }
        let best = self.best(cpu, previous)?;
        if previous != Some(best) {
            self.stop_waiting(best, cpu);
            self.remove_buddy(best, cpu);
            self.entities[best].last_ran = Some(now);
            let vruntime = self.vruntime(best);
            let queue = &mut self.queues[cpu];
            (queue.current, queue.outgoing) = (Some(best), previous);
            (queue.ran, queue.began_at, queue.idle_since) = (0, vruntime, None);
        }
        Some(best)
    }

    fn leave(&mut self, world: &World, cpu: Cpu, thread: Thread) {
        self.update(cpu);
        match world.threads[thread].activity {
            Activity::Waiting => self.loads.sleep(thread),
            _ => self.loads.leave(thread),
        }
        self.queues[cpu].current = None;
        self.remove_buddy(thread, cpu);
        self.minimum_follows(cpu);
    }

    fn end_switch(&mut self, world: &World, cpu: Cpu) {
        if world.cpus[cpu].state != CpuState::Idle {
            self.ticks_next(world, cpu);
        }
    }

    fn time_is_up(&self, world: &World, cpu: Cpu) -> bool {
        self.now(world) >= self.queues[cpu].next_tick
    }

    fn when_time_is_up(&mut self, world: &World, cpu: Cpu) -> Picks {
        let now = self.now(world);
        self.ticks_next(world, cpu);
        self.update(cpu);
        let mut this_cpu = false;
        let least = self.queues[cpu].waiting.iter().map(|&thread| self.vruntime(thread)).min();
        if let (Some(current), Some(least)) = (self.queues[cpu].current, least) {
            let (ran, slice) = (self.queues[cpu].ran, self.slice(current, cpu));
            if ran > slice {
                self.remove_buddy(current, cpu);
                this_cpu = true;
            } else if ran >= self.granularity && self.vruntime(current) - least > slice {
                this_cpu = true;
            }
        }
        for level in 0..self.topology.levels().len() {
            if self.is_time(cpu, level, Occasion::Busy, now) {
                this_cpu |= self.balance(cpu, level, Occasion::Busy, this_cpu, now).picks_again;
            }
        }
        let is_idle = |cpu: &Cpu| world.cpus[*cpu].state == CpuState::Idle && !self.queues[*cpu].marked;
        let mut idle: Vec<Cpu> = self.all_cpus().filter(is_idle).collect();
        let mut picks = Picks { first: None, this_cpu, push: None };
        let mut beside = self.topology.node(cpu).into_iter().filter(|&other| other != cpu);
        let is_accompanied = self.topology.has_levels() && beside.any(|other| self.threads(other) > 0);
        if (self.threads(cpu) > 1 || is_accompanied) && now >= self.next_request && !idle.is_empty() {
            idle.rotate_left(1);
            for idle in idle {
                for level in 0..self.topology.levels().len() {
                    if self.is_time(idle, level, Occasion::Idle, now) {
                        let came = self.balance(idle, level, Occasion::Idle, false, now);
                        picks.first = (came.threads > 0).then_some(idle);
                        picks.push = came.push_from.map(|from| (from, idle));
                        if picks.first.is_some() || picks.push.is_some() {
                            return picks;
                        }
                    }
                }
            }
            self.next_request = now + self.tick;
        }
        picks
    }

    fn has_to_schedule(&self, _world: &World, cpu: Cpu) -> bool {
        self.queues[cpu].marked
    }
}
