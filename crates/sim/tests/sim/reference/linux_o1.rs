//! The O(1) scheduler, by the rules at the head of `sim::linux_o1`.
//!
//! An array is one list in the order in which threads came, and is searched for the wanted thread.
//! Loads are added up whenever they are needed.

use policy::{CpuId, CpuSet, Span};
use rowlock_sim::observer::CpuState;
use rowlock_sim::scheduler::ReadyReason;
use scenario::{Machine, Setting};

use crate::reference::kernel::{Kernel, Picks};
use crate::reference::world::{Cpu, Thread, World};

/// The load of one thread.
const ONE: i128 = 128;

#[derive(Clone, Default)]
struct Task {
    nice: i128,
    cpus: Option<CpuSet>,
    /// The CPU on which it runs, waits, or last was.
    cpu: Cpu,
    /// Its sleep less its running time, in nanoseconds.
    sleep: i128,
    /// When it began to run, stopped, or was woken, in nanoseconds.
    since: i128,
    last_ran: Option<i128>,
    /// Ticks left.
    slice: i128,
    priority: i128,
    /// Whether it has not run since it was woken.
    is_fresh: bool,
    /// Whether its CPU is switching away from it.
    leaves: bool,
}

#[derive(Clone, Default)]
struct Queue {
    active: Vec<Thread>,
    expired: Vec<Thread>,
    current: Option<Thread>,
    /// The tick at which the first slice ended since the arrays were swapped.
    expired_since: Option<i128>,
    best_expired: Option<i128>,
    load: i128,
    looked_at: i128,
    interval: i128,
    failures: u32,
}

impl Queue {
    fn len(&self) -> i128 {
        (self.active.len() + self.expired.len()) as i128
    }
}

pub(crate) struct LinuxO1 {
    step: i128,
    tick: i128,
    timeslice: i128,
    tasks: Vec<Task>,
    queues: Vec<Queue>,
    offered: Cpu,
    marked: Vec<bool>,
    /// The next tick of each CPU that runs a thread, in nanoseconds.
    next_tick: Vec<i128>,
}

#[derive(PartialEq)]
enum When {
    Busy,
    Idle,
    BecomingIdle,
}

impl LinuxO1 {
    pub(crate) fn new(machine: &Machine, setting: &Setting) -> LinuxO1 {
        let cpus = machine.cpus as usize;
        let whole = |span: Span| i128::from(span.floor_to(machine.step).max(machine.step).as_nanos());
        let mut linux = LinuxO1 {
            step: i128::from(machine.step.as_nanos()),
            tick: whole(machine.tick),
            timeslice: i128::from(machine.timeslice),
            tasks: Vec::new(),
            queues: vec![Queue { interval: 1, ..Queue::default() }; cpus],
            offered: cpus - 1,
            marked: vec![false; cpus],
            next_tick: vec![0; cpus],
        };
        for (cpu, queue) in linux.queues.iter_mut().enumerate() {
            queue.looked_at = -(64 * cpu as i128 / cpus as i128);
        }
        for (_, job) in setting.jobs_with_copies() {
            let mut task =
                Task { nice: job.attributes.nice.into(), cpus: job.attributes.cpus.clone(), ..Task::default() };
            task.slice = linux.slice_for(task.nice);
            task.priority = linux.worth(&task);
            let threads = job.kind.threads(machine.cpus) as usize;
            linux.tasks.extend(std::iter::repeat_n(task, threads));
        }
        linux
    }

    fn now(&self, world: &World) -> i128 {
        i128::from(world.now) * self.step
    }

    fn slice_for(&self, nice: i128) -> i128 {
        let ticks = if nice < 0 { 4 * self.timeslice * (20 - nice) / 20 } else { self.timeslice * (20 - nice) / 20 };
        ticks.max(self.timeslice / 20).max(1)
    }

    /// One for each timeslice slept.
    fn bonus(&self, task: &Task) -> i128 {
        task.sleep / (self.tick * self.timeslice)
    }

    /// The priority of a task by its nice value and bonus.
    fn worth(&self, task: &Task) -> i128 {
        (20 + task.nice + 5 - self.bonus(task)).clamp(0, 39)
    }

    fn is_interactive(&self, task: &Task) -> bool {
        task.priority <= 20 + task.nice - (task.nice * 10 / 40 + 2)
    }

    fn most_sleep(&self) -> i128 {
        10 * self.timeslice * self.tick
    }

    fn add_sleep(&mut self, thread: Thread, span: i128) {
        let mut task = self.tasks[thread].clone();
        let span = span.min(self.most_sleep());
        let enough = self.tick * (self.timeslice * (5 + task.nice * 10 / 40 + 2 + 1) - 1);
        if span > enough {
            task.sleep = 9 * self.timeslice * self.tick;
        } else {
            let weight = (10 - self.bonus(&task)).max(1);
            task.sleep = (task.sleep + weight * span).min(self.most_sleep());
        }
        task.priority = self.worth(&task);
        self.tasks[thread] = task;
    }

    fn add_run(&mut self, thread: Thread, now: i128) {
        let span = (now - self.tasks[thread].since).min(self.most_sleep());
        let used = span / self.bonus(&self.tasks[thread]).max(1);
        let task = &mut self.tasks[thread];
        task.sleep = (task.sleep - used).max(0);
        task.since = now;
        task.last_ran = Some(now);
    }

    fn may_run_on(&self, thread: Thread, cpu: Cpu) -> bool {
        let set = self.tasks[thread].cpus.as_ref();
        set.is_none_or(|set| set.contains(CpuId(cpu as u32)))
    }

    fn is_idle(&self, cpu: Cpu) -> bool {
        self.queues[cpu].current.is_none() && self.queues[cpu].len() == 0
    }

    fn all_cpus(&self) -> impl Iterator<Item = Cpu> + use<> {
        0..self.queues.len()
    }

    fn all_from(&self, cpu: Cpu) -> impl Iterator<Item = Cpu> + use<> {
        let count = self.queues.len();
        (1..=count).map(move |offset| (cpu + offset) % count)
    }

    /// Whether a thread of this priority would preempt on `cpu`.
    fn should_preempt(&self, thread: Thread, cpu: Cpu) -> bool {
        self.queues[cpu].current.is_none_or(|current| self.tasks[thread].priority < self.tasks[current].priority)
    }

    fn remove(&mut self, thread: Thread, cpu: Cpu) {
        self.queues[cpu].active.retain(|&other| other != thread);
        self.queues[cpu].expired.retain(|&other| other != thread);
    }

    fn seen_from_afar(&self, cpu: Cpu) -> i128 {
        self.queues[cpu].load.min(ONE * self.queues[cpu].len())
    }

    /// The CPU from which `cpu` should take threads, and how many.
    fn imbalance(&self, cpu: Cpu, when: &When) -> Option<(Cpu, i128)> {
        let own = self.queues[cpu].load.max(ONE * self.queues[cpu].len());
        let mut busiest = None;
        let (mut highest, mut total) = (0, own);
        for other in self.all_from(cpu).filter(|&other| other != cpu) {
            let load = self.seen_from_afar(other);
            total += load;
            if load > highest {
                (highest, busiest) = (load, Some(other));
            }
        }
        let busiest = busiest?;
        let average = total / self.queues.len() as i128;
        let if_balanced = (*when == When::BecomingIdle || *when == When::Idle && highest > ONE).then_some((busiest, 1));
        if own >= highest || own >= average || 100 * highest <= 125 * own {
            return if_balanced;
        }
        let surplus = (highest - average).min(average - own);
        if surplus >= ONE - 1 {
            return Some((busiest, (surplus + 1) / ONE));
        }
        if highest - own >= 2 * ONE {
            return Some((busiest, 1));
        }
        let in_use_now = highest.min(ONE) + own.min(ONE);
        let highest_then = (highest - ONE).max(0);
        let own_then = own + ONE.min(highest);
        let in_use_then = highest_then.min(ONE) + own_then.min(ONE);
        if in_use_then < in_use_now + ONE / 8 { if_balanced } else { Some((busiest, 1)) }
    }

    /// Takes threads from another queue. Returns those that it took.
    fn take(&mut self, cpu: Cpu, from: Cpu, most: i128, now: i128) -> Vec<Thread> {
        let mut taken = Vec::new();
        if self.queues[from].len() <= 1 {
            return taken;
        }
        let even_hot = self.queues[cpu].current.is_none() || self.queues[cpu].failures > 1;
        let last_tick = now / self.tick * self.tick;
        let mut refused = 0;
        for expired in [true, false] {
            let queue = &self.queues[from];
            let array = if expired { &queue.expired } else { &queue.active };
            // By priority, and the last of each list first.
            let mut candidates: Vec<Thread> = array.iter().rev().copied().collect();
            candidates.sort_by_key(|&thread| self.tasks[thread].priority);
            for thread in candidates {
                let task = &self.tasks[thread];
                let runs = task.leaves || self.queues[from].current == Some(thread);
                let is_hot = task.last_ran.is_some_and(|last| last_tick - last < self.tick * 5 / 2);
                if runs || !self.may_run_on(thread, cpu) || is_hot && !even_hot {
                    refused += 1;
                    if refused == 32 {
                        return taken;
                    }
                    continue;
                }
                self.remove(thread, from);
                self.tasks[thread].cpu = cpu;
                let queue = &mut self.queues[cpu];
                if expired {
                    queue.expired.push(thread);
                } else {
                    queue.active.push(thread);
                }
                taken.push(thread);
                if taken.len() as i128 == most {
                    return taken;
                }
            }
        }
        taken
    }

    /// Looks for an imbalance at a tick.
    fn look(&mut self, cpu: Cpu, when: &When, now: i128) -> Vec<Thread> {
        self.queues[cpu].looked_at = now / self.tick;
        let Some((from, most)) = self.imbalance(cpu, when) else {
            let queue = &mut self.queues[cpu];
            queue.interval = if queue.interval < 4 { 2 * queue.interval } else { queue.interval };
            return Vec::new();
        };
        let taken = self.take(cpu, from, most, now);
        let queue = &mut self.queues[cpu];
        if taken.is_empty() {
            queue.failures = if queue.failures == 3 { 1 } else { queue.failures + 1 };
            queue.interval = if queue.interval < 4 { queue.interval + 1 } else { queue.interval };
        } else {
            (queue.failures, queue.interval) = (0, 1);
        }
        taken
    }

    fn busy_tick(&mut self, cpu: Cpu, now: i128) -> bool {
        let queue = &mut self.queues[cpu];
        let instantly = ONE * queue.len();
        queue.load =
            if instantly > queue.load { (queue.load + 1 + instantly) / 2 } else { (queue.load + instantly) / 2 };
        let is_due = now / self.tick - queue.looked_at >= 64 * queue.interval;
        let taken = if is_due { self.look(cpu, &When::Busy, now) } else { Vec::new() };
        taken.iter().any(|&thread| self.should_preempt(thread, cpu))
    }

    /// The slice of the current thread has ended.
    fn end_slice(&mut self, cpu: Cpu, thread: Thread, now: i128) {
        self.remove(thread, cpu);
        self.tasks[thread].priority = self.worth(&self.tasks[thread]);
        self.tasks[thread].slice = self.slice_for(self.tasks[thread].nice);
        let is_interactive = self.is_interactive(&self.tasks[thread]);
        let nice = self.tasks[thread].nice;
        let threads = self.queues[cpu].len() + 1;
        let queue = &mut self.queues[cpu];
        let waited = now / self.tick - *queue.expired_since.get_or_insert(now / self.tick);
        let starving = waited > 10 * self.timeslice * threads || queue.best_expired.is_some_and(|best| nice > best);
        if is_interactive && !starving {
            queue.active.push(thread);
        } else {
            queue.expired.push(thread);
            queue.best_expired = Some(queue.best_expired.map_or(nice, |best| best.min(nice)));
        }
    }

    /// Whether the current thread, which has part of its slice left, has to let its equals run.
    fn is_others_turn(&self, thread: Thread) -> bool {
        let task = &self.tasks[thread];
        let part = (self.timeslice / 10).max(1)
            * 2_i128.pow(((10 - self.bonus(task)).max(1) - 1) as u32)
            * self.queues.len() as i128;
        self.is_interactive(task) && (self.slice_for(task.nice) - task.slice) % part == 0 && task.slice >= part
    }
}

impl Kernel for LinuxO1 {
    fn pass_step(&mut self, world: &World) {
        if self.now(world) % self.tick == 0 {
            for queue in self.queues.iter_mut().filter(|queue| queue.len() == 0) {
                queue.load /= 2;
            }
        }
    }

    fn ready(&mut self, world: &World, threads: &[Thread], why: ReadyReason) {
        let now = self.now(world);
        for &thread in threads {
            let previous = self.tasks[thread].cpu;
            let allowed: Vec<Cpu> = self.all_cpus().filter(|&cpu| self.may_run_on(thread, cpu)).collect();
            let cpu = match why {
                ReadyReason::Preempted => {
                    self.tasks[thread].leaves = false;
                    continue;
                }
                ReadyReason::New => allowed.into_iter().min_by_key(|&cpu| self.queues[cpu].len()).unwrap(),
                _ if self.is_idle(previous) => previous,
                _ => allowed.into_iter().find(|&cpu| self.is_idle(cpu)).unwrap_or(previous),
            };
            if why == ReadyReason::Woken {
                self.add_sleep(thread, now - self.tasks[thread].since);
                self.tasks[thread].is_fresh = true;
            }
            (self.tasks[thread].cpu, self.tasks[thread].since) = (cpu, now);
            self.queues[cpu].active.push(thread);
            self.marked[cpu] |= self.should_preempt(thread, cpu);
        }
    }

    fn schedule(&mut self, world: &World, cpu: Cpu, previous: Option<Thread>) -> Option<Thread> {
        let now = self.now(world);
        self.marked[cpu] = false;
        if let Some(previous) = previous {
            self.add_run(previous, now);
        }
        if self.queues[cpu].len() == 0
            && let Some((from, most)) = self.imbalance(cpu, &When::BecomingIdle)
        {
            self.take(cpu, from, most, now);
        }
        let queue = &mut self.queues[cpu];
        if queue.len() == 0 {
            (queue.current, queue.expired_since) = (None, None);
            return None;
        }
        if queue.active.is_empty() {
            queue.active = std::mem::take(&mut queue.expired);
            (queue.expired_since, queue.best_expired) = (None, None);
        }
        let next = queue.active.iter().copied().min_by_key(|&thread| self.tasks[thread].priority)?;
        if std::mem::take(&mut self.tasks[next].is_fresh) {
            self.add_sleep(next, (now - self.tasks[next].since) * 38 / 128);
            self.remove(next, cpu);
            self.queues[cpu].active.push(next);
        }
        if previous != Some(next) {
            if let Some(previous) = previous {
                self.tasks[previous].leaves = true;
            }
            self.tasks[next].since = now;
            self.queues[cpu].current = Some(next);
        }
        Some(next)
    }

    fn leave(&mut self, world: &World, cpu: Cpu, thread: Thread) {
        self.add_run(thread, self.now(world));
        self.remove(thread, cpu);
    }

    fn end_switch(&mut self, world: &World, cpu: Cpu) {
        self.next_tick[cpu] = (self.now(world) / self.tick + 1) * self.tick;
    }

    fn time_is_up(&self, world: &World, cpu: Cpu) -> bool {
        self.now(world) >= self.next_tick[cpu]
    }

    fn when_time_is_up(&mut self, world: &World, cpu: Cpu) -> Picks {
        let now = self.now(world);
        self.next_tick[cpu] = now + self.tick;
        let thread = self.queues[cpu].current.unwrap();
        self.tasks[thread].slice -= 1;
        let is_over = self.tasks[thread].slice == 0;
        let is_others_turn = !is_over && self.is_others_turn(thread);
        if is_over {
            self.end_slice(cpu, thread, now);
        } else if is_others_turn {
            self.remove(thread, cpu);
            self.queues[cpu].active.push(thread);
        }
        let is_preempted = self.busy_tick(cpu, now);
        // The next idle CPU is offered work.
        let somebody_waits = self.all_cpus().any(|cpu| self.seen_from_afar(cpu) > ONE);
        let mut idle = self.all_from(self.offered).filter(|&cpu| self.is_idle(cpu) && somebody_waits);
        let mut first = None;
        if let Some(next) = idle.next() {
            self.offered = next;
            let rests = world.cpus[next].state == CpuState::Idle && !self.marked[next];
            let is_due = now / self.tick - self.queues[next].looked_at >= self.queues[next].interval;
            first = (rests && is_due && !self.look(next, &When::Idle, now).is_empty()).then_some(next);
        }
        Picks { first, this_cpu: is_over || is_others_turn || is_preempted, push: None }
    }

    fn has_to_schedule(&self, _world: &World, cpu: Cpu) -> bool {
        self.marked[cpu]
    }
}
