//! Linux 2.4: epochs, counters, goodness. Everything is found by looking at all threads or all
//! CPUs, and every counter falls step by step.

use policy::wakeup::{AddressSpace, Awakened, CpuState, Scheme, Weights};
use policy::{CpuId, CpuSet, Instant, Span};
use rowlock_sim::scheduler::ReadyReason;
use scenario::{Accounting, Machine, Setting};

use crate::reference::affinity::Affinity;
use crate::reference::kernel::Kernel;
use crate::reference::machine::in_steps;
use crate::reference::wakeup;
use crate::reference::world::{Cpu, JobKind, Place, Thread, World};

pub(crate) struct Linux24 {
    tick: u64,
    /// The allocation of each thread in an epoch, in steps like the next three.
    allocations: Vec<u64>,
    penalty: u64,
    bonus: u64,
    pub(crate) threshold: u64,
    accounting: Accounting,
    charge_switch: bool,
    tail: bool,
    scheme: Scheme,
    pub(crate) affinity: Affinity,
    /// The rest of each thread's allocation, in steps.
    counters: Vec<u64>,
    /// The CPU on which each thread last ran. It runs from the moment at which it is chosen.
    last_cpus: Vec<Option<Cpu>>,
    /// The last thread that was chosen on each CPU.
    last_threads: Vec<Option<Thread>>,
    /// The run queue: ready and running threads. A thread that has blocked or ended is not in it.
    list: Vec<Thread>,
    /// `need_resched`.
    pub(crate) marked: Vec<bool>,
    /// CPUs whose thread has used up its allocation since it was chosen.
    time_is_up: Vec<bool>,
}

impl Linux24 {
    pub(crate) fn new(machine: &Machine, setting: &Setting) -> Linux24 {
        let options = &machine.linux_2_4;
        let (cpus, tick) = (machine.cpus as usize, in_steps(machine.tick, machine.step).max(1));
        let [allocation, penalty, bonus, threshold] =
            [options.allocation, options.penalty, options.bonus, options.threshold]
                .map(|ticks| u64::from(ticks) * tick);
        let unit = if options.accounting == Accounting::Tick { tick } else { 1 };
        let mut allocations = Vec::new();
        for (_, job) in setting.jobs_with_copies() {
            let twentieths = (20 - i64::from(job.attributes.nice)) as u64;
            let share = allocation * machine.step.as_nanos() * twentieths / 20 / machine.step.as_nanos();
            let whole = (share / unit * unit).max(tick);
            allocations.extend((0..job.kind.threads(machine.cpus)).map(|_| whole));
        }
        Linux24 {
            tick,
            affinity: Affinity::new(machine, setting),
            counters: allocations.clone(),
            last_cpus: vec![None; allocations.len()],
            allocations,
            penalty,
            bonus,
            threshold,
            accounting: options.accounting,
            charge_switch: options.charge_switch,
            tail: options.tail,
            scheme: options.wakeup,
            last_threads: vec![None; cpus],
            list: Vec::new(),
            marked: vec![false; cpus],
            time_is_up: vec![false; cpus],
        }
    }

    pub(crate) fn goodness(&self, world: &World, thread: Thread, cpu: Cpu) -> u64 {
        let counter = self.counters[thread];
        if counter == 0 {
            return 0;
        }
        let stays = self.last_cpus[thread] == Some(cpu);
        let follows = self.last_threads[cpu].is_some_and(|last| memory_of(world, last) == memory_of(world, thread));
        counter + if stays { self.penalty } else { 0 } + if follows { self.bonus } else { 0 }
    }

    pub(crate) fn last_cpu(&self, thread: Thread) -> Option<Cpu> {
        self.last_cpus[thread]
    }

    /// The same as values of the policy, a step for a nanosecond.
    pub(crate) fn weights(&self) -> Weights {
        let [penalty, bonus, threshold] = [self.penalty, self.bonus, self.threshold].map(Span::from_nanos);
        Weights { penalty, bonus, threshold }
    }

    /// A thread as a value of the policy.
    pub(crate) fn awakened<'a>(&self, world: &World, thread: Thread, cpus: Option<&'a CpuSet>) -> Awakened<'a> {
        let last_cpu = self.last_cpus[thread].map(|cpu| CpuId(cpu as u32));
        Awakened { counter: Span::from_nanos(self.counters[thread]), last_cpu, space: memory_of(world, thread), cpus }
    }

    /// A CPU as a value of the policy.
    pub(crate) fn as_policy_sees(&self, world: &World, cpu: Cpu) -> policy::wakeup::Cpu {
        let now = Instant::from_nanos(world.now);
        let state = match world.thread_on(cpu) {
            None => CpuState::Idle { since: Instant::from_nanos(world.cpus[cpu].idle_since) },
            Some(thread) => {
                CpuState::Thread { charged_from: now, spent: now + Span::from_nanos(self.counters[thread]) }
            }
        };
        let last_space = self.last_threads[cpu].map(|thread| memory_of(world, thread));
        policy::wakeup::Cpu { state, last_space, marked: self.marked[cpu] }
    }

    /// The thread that is charged for the passing step.
    fn charged_thread(&self, world: &World, cpu: Cpu) -> Option<Thread> {
        let fills_cache = world.cpus[cpu].switch_left < world.cpus[cpu].refill;
        if self.charge_switch || fills_cache { world.thread_on(cpu) } else { world.running_on(cpu) }
    }

    /// The best of the previous thread and the ready ones. Of equal ones the previous one, else the
    /// first in the list.
    fn best(&self, world: &World, cpu: Cpu, previous: Option<Thread>) -> Option<Thread> {
        let mut best = previous;
        for &thread in &self.list {
            if world.threads[thread].place != Place::Ready || !self.affinity.is_allowed(thread, cpu) {
                continue;
            }
            if best.is_none_or(|best| self.goodness(world, thread, cpu) > self.goodness(world, best, cpu)) {
                best = Some(thread);
            }
        }
        best
    }

    /// A CPU whose thread has run out still schedules, unless the switch to that thread is not over
    /// yet.
    fn begin_an_epoch(&mut self, world: &World) {
        for cpu in 0..world.cpus.len() {
            self.time_is_up[cpu] &= !world.is_switching(cpu);
        }
        for (counter, allocation) in self.counters.iter_mut().zip(&self.allocations) {
            *counter = match self.accounting {
                Accounting::Exact => *counter / 2,
                Accounting::Tick => *counter / self.tick / 2 * self.tick,
            } + allocation;
        }
    }
}

impl Kernel for Linux24 {
    fn pass_step(&mut self, world: &World) {
        let loss = match self.accounting {
            Accounting::Exact => 1,
            Accounting::Tick if world.now.is_multiple_of(self.tick) => self.tick,
            Accounting::Tick => return,
        };
        for cpu in 0..world.cpus.len() {
            if let Some(thread) = self.charged_thread(world, cpu)
                && self.counters[thread] > 0
            {
                self.counters[thread] = self.counters[thread].saturating_sub(loss);
                self.time_is_up[cpu] |= self.counters[thread] == 0;
            }
        }
    }

    fn ready(&mut self, world: &World, threads: &[Thread], why: ReadyReason) {
        match why {
            ReadyReason::New => self.list.extend(threads),
            ReadyReason::Woken => {
                for &thread in threads {
                    self.list.insert(0, thread);
                }
                wakeup::mark(self, world, self.scheme, threads);
            }
            // It has kept its place in the list.
            ReadyReason::Preempted if self.tail => wakeup::mark(self, world, self.scheme, threads),
            ReadyReason::Preempted => {}
            ReadyReason::Yielded | ReadyReason::Moved(_) => panic!("no thread yields or moves here"),
        }
    }

    fn schedule(&mut self, world: &World, cpu: Cpu, previous: Option<Thread>) -> Option<Thread> {
        self.marked[cpu] = false;
        self.time_is_up[cpu] = false;
        let mut best = self.best(world, cpu, previous)?;
        if self.goodness(world, best, cpu) == 0 {
            self.begin_an_epoch(world);
            best = self.best(world, cpu, previous)?;
        }
        self.last_cpus[best] = Some(cpu);
        self.last_threads[cpu] = Some(best);
        Some(best)
    }

    fn leave(&mut self, _world: &World, _cpu: Cpu, thread: Thread) {
        self.list.retain(|&other| other != thread);
    }

    fn end_switch(&mut self, _world: &World, _cpu: Cpu) {}

    fn time_is_up(&self, _world: &World, cpu: Cpu) -> bool {
        self.time_is_up[cpu]
    }

    fn has_to_schedule(&self, _world: &World, cpu: Cpu) -> bool {
        self.marked[cpu]
    }
}

/// Threads of one barrier job share their memory. Those of other jobs each have their own.
fn memory_of(world: &World, thread: Thread) -> AddressSpace {
    let job = world.threads[thread].job;
    let first_of_its_job = world.threads.iter().position(|other| other.job == job).unwrap_or(thread);
    match world.jobs[job].kind {
        JobKind::Barrier { .. } => AddressSpace(first_of_its_job as u32),
        JobKind::Cpu { .. } => AddressSpace(thread as u32),
    }
}
