//! Earliest eligible virtual deadline first, for threads of equal weight, by the rules at the head of `sim::eevdf`. Virtual times
//! advance step by step, and averages are computed anew whenever one is asked for.

use policy::Span;
use rowlock_sim::scheduler::Why;
use rowlock_sim::watch::Doing;
use scenario::Machine;

use crate::kernel::{Kernel, Picks};
use crate::world::{Cpu, Thread, World};

/// A thread that ran so recently, in nanoseconds, is left where its cache is.
const HOT: u64 = 500_000;

#[derive(Clone, Copy, Default)]
struct Entity {
    /// Where it is queued, runs, or last was.
    cpu: Cpu,
    /// Virtual times are in nanoseconds.
    vruntime: i128,
    deadline: i128,
    /// While it runs: the deadline that it had when it was picked.
    protected_until: i128,
    /// What it left its queue with.
    lag: i128,
    /// When it last ran, in nanoseconds.
    last_ran: Option<u64>,
}

pub(crate) struct Eevdf {
    step: u64,
    slice: i128,
    tick: u64,
    entities: Vec<Entity>,
    /// Who runs on each CPU, from the moment that it is picked.
    current: Vec<Option<Thread>>,
    /// Who waits on each CPU, by the order in which they came.
    waiting: Vec<Vec<Thread>>,
    marked: Vec<bool>,
    /// When each CPU, running a thread, ticks next, in nanoseconds.
    next_tick: Vec<u64>,
}

impl Eevdf {
    pub(crate) fn new(machine: &Machine, threads: usize) -> Eevdf {
        let cpus = machine.cpus as usize;
        let whole = |span: Span| span.floor_to(machine.step).max(machine.step).as_nanos();
        Eevdf {
            step: machine.step.as_nanos(),
            slice: i128::from(whole(machine.slice)),
            tick: whole(machine.tick),
            entities: vec![Entity::default(); threads],
            current: vec![None; cpus],
            waiting: vec![Vec::new(); cpus],
            marked: vec![false; cpus],
            next_tick: vec![0; cpus],
        }
    }

    fn members(&self, cpu: Cpu) -> Vec<Thread> {
        self.waiting[cpu].iter().copied().chain(self.current[cpu]).collect()
    }

    fn sum(&self, cpu: Cpu) -> i128 {
        self.members(cpu).iter().map(|&thread| self.entities[thread].vruntime).sum()
    }

    fn average(&self, cpu: Cpu) -> i128 {
        let count = self.members(cpu).len() as i128;
        if count == 0 { 0 } else { self.sum(cpu).div_euclid(count) }
    }

    fn is_eligible(&self, thread: Thread, cpu: Cpu) -> bool {
        self.entities[thread].vruntime * self.members(cpu).len() as i128 <= self.sum(cpu)
    }

    fn is_free(&self, cpu: Cpu) -> bool {
        self.members(cpu).is_empty()
    }

    fn all_cpus(&self) -> impl Iterator<Item = Cpu> + use<> {
        0..self.current.len()
    }

    /// A thread that has reached its deadline gets the next one. Whether the CPU should pick again because of that, or because
    /// its thread is protected no longer.
    fn updates(&mut self, cpu: Cpu) -> bool {
        let Some(current) = self.current[cpu] else { return false };
        let entity = &mut self.entities[current];
        let has_reached_it = entity.vruntime >= entity.deadline;
        if has_reached_it {
            entity.deadline = entity.vruntime + self.slice;
        }
        !self.waiting[cpu].is_empty() && (has_reached_it || entity.vruntime >= entity.protected_until)
    }

    fn best(&self, cpu: Cpu) -> Option<Thread> {
        let current = self.current[cpu].filter(|&current| self.is_eligible(current, cpu));
        let deadline = |thread: Thread| self.entities[thread].deadline;
        if let Some(current) = current
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

    /// Puts a thread into a queue such that it has its lag again when it is counted.
    fn place(&mut self, thread: Thread, cpu: Cpu, request: i128) {
        let others = self.members(cpu).len() as i128;
        let lag = if others == 0 { 0 } else { self.entities[thread].lag * (others + 1) / others };
        let vruntime = self.average(cpu) - lag;
        let entity = &mut self.entities[thread];
        (entity.cpu, entity.vruntime, entity.deadline) = (cpu, vruntime, vruntime + request);
        self.waiting[cpu].push(thread);
    }

    fn remember_lag(&mut self, thread: Thread, cpu: Cpu) {
        let bound = (2 * self.slice).max(i128::from(self.tick));
        self.entities[thread].lag = (self.average(cpu) - self.entities[thread].vruntime).clamp(-bound, bound);
    }

    /// The thread that waits longest on the longest queue, unless its cache is hot, and the CPU of that queue.
    fn to_steal(&self, now: u64) -> Option<(Thread, Cpu)> {
        let mut longest: Option<Cpu> = None;
        for cpu in self.all_cpus().filter(|&cpu| self.current[cpu].is_some()) {
            if longest.is_none_or(|longest| self.waiting[cpu].len() > self.waiting[longest].len()) {
                longest = Some(cpu);
            }
        }
        let is_cold = |thread: Thread| self.entities[thread].last_ran.is_none_or(|last| now - last >= HOT);
        let longest = longest?;
        let thread = self.waiting[longest].iter().copied().find(|&thread| is_cold(thread))?;
        Some((thread, longest))
    }

    fn steals(&mut self, cpu: Cpu, now: u64) {
        let Some((thread, from)) = self.to_steal(now) else { return };
        self.updates(from);
        self.remember_lag(thread, from);
        self.waiting[from].retain(|&other| other != thread);
        let left_of_its_request = self.entities[thread].deadline - self.entities[thread].vruntime;
        self.place(thread, cpu, left_of_its_request);
    }

    fn cpu_for(&self, thread: Thread, why: Why) -> Cpu {
        let previous = self.entities[thread].cpu;
        if why == Why::New {
            return self.all_cpus().min_by_key(|&cpu| self.members(cpu).len()).unwrap_or(previous);
        }
        let count = self.current.len();
        let mut from_previous = (0..count).map(|offset| (previous + offset) % count);
        from_previous.find(|&cpu| self.is_free(cpu)).unwrap_or(previous)
    }

    fn ticks_next(&mut self, world: &World, cpu: Cpu) {
        self.next_tick[cpu] = (world.now * self.step / self.tick + 1) * self.tick;
    }
}

impl Kernel for Eevdf {
    fn step_passes(&mut self, world: &World) {
        for cpu in self.all_cpus() {
            if let Some(thread) = self.current[cpu] {
                self.entities[thread].vruntime += i128::from(self.step);
                self.entities[thread].last_ran = Some(world.now * self.step);
            }
        }
    }

    fn ready(&mut self, _world: &World, threads: &[Thread], why: Why) {
        for &thread in threads {
            if why == Why::Preempted {
                self.waiting[self.entities[thread].cpu].push(thread);
                continue;
            }
            let cpu = self.cpu_for(thread, why);
            let should_pick_again = self.updates(cpu);
            self.place(thread, cpu, if why == Why::New { self.slice / 2 } else { self.slice });
            if should_pick_again || self.current[cpu].is_none() || self.best(cpu) == Some(thread) {
                self.marked[cpu] = true;
            }
        }
    }

    fn schedule(&mut self, world: &World, cpu: Cpu, previous: Option<Thread>) -> Option<Thread> {
        self.marked[cpu] = false;
        self.updates(cpu);
        if self.is_free(cpu) {
            self.steals(cpu, world.now * self.step);
        }
        let best = self.best(cpu)?;
        if previous != Some(best) {
            // Whom it replaces is in no queue until the switch is over.
            self.waiting[cpu].retain(|&other| other != best);
            self.current[cpu] = Some(best);
            self.entities[best].protected_until = self.entities[best].deadline;
            self.entities[best].cpu = cpu;
        }
        Some(best)
    }

    fn leaves(&mut self, _world: &World, cpu: Cpu, thread: Thread) {
        self.updates(cpu);
        self.remember_lag(thread, cpu);
        self.current[cpu] = None;
    }

    fn switch_ends(&mut self, world: &World, cpu: Cpu) {
        match world.cpus[cpu].doing {
            // It looks whether there is work after all.
            Doing::Idle => self.marked[cpu] = true,
            _ => self.ticks_next(world, cpu),
        }
    }

    fn time_is_up(&self, world: &World, cpu: Cpu) -> bool {
        world.now * self.step >= self.next_tick[cpu]
    }

    fn when_time_is_up(&mut self, world: &World, cpu: Cpu) -> Picks {
        self.ticks_next(world, cpu);
        let this_cpu = self.updates(cpu);
        let is_idle = |cpu: &Cpu| world.cpus[*cpu].doing == Doing::Idle && !self.marked[*cpu];
        let has_work = !self.waiting[cpu].is_empty() && self.to_steal(world.now * self.step).is_some();
        Picks { first: self.all_cpus().find(is_idle).filter(|_| has_work), this_cpu }
    }

    fn has_to_schedule(&self, _world: &World, cpu: Cpu) -> bool {
        self.marked[cpu]
    }
}
