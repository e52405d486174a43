//! Balancing: when one CPU takes threads from the queue of another, and which (`load_balance`).
//!
//! A CPU balances within each of its [domains](crate::kernels::domains), from the smallest to the
//! largest. There it compares itself with the CPU whose threads weigh most among those with more
//! than one thread; of equal ones, with the next after itself, cyclically. Loads are averages of
//! the recent past (`kernels/load.rs`).
//!
//! * **How much** (`find_busiest_group`, `calculate_imbalance`): a CPU without threads takes half
//!   of the other's threads or, if groups have several CPUs, half of the difference between the
//!   threads of the other's group and its own. A CPU with threads takes load: the excess of the
//!   other over the average of the domain, or its own deficit, whichever is less. A CPU with more
//!   than one thread only does so if the other has 17 % more load, within a core 10 %.
//! * **Which** (`detach_tasks`, `can_migrate_task`): of the 32 threads that have waited longest,
//!   those that may run here, are cold, and whose load is not more than what is left to take. A
//!   thread is hot if it ran there within the migration cost, or if it is a buddy and there are
//!   threads here, unless both CPUs are of one core. Each failed balancing halves the loads for
//!   this comparison, and after two of them hot threads are taken too, across nodes after three. If
//!   no thread of the other queue may run here, the next heaviest CPU is tried.
//! * **When, without work** (`newidle_balance`): whenever the CPU runs out of threads, unless it is
//!   idle for less than the migration cost on average, until it has found one.
//! * **When, with work** (`rebalance_domains`): at a tick, every 4 ticks times the number of CPUs
//!   of the domain, less one; after balance was found, twice as many, less one. This is the
//!   kernel's 16 ms for each CPU at 250 ticks a second.
//! * **When idle** (`nohz_balancer_kick`): a CPU with more than one thread, or with a busy CPU
//!   beside it in its node if the domains are not flat, at its tick, asks the idle CPUs to balance,
//!   the second one first and the first one last, if they have not done so for a quarter of a tick
//!   times the number of CPUs of the domain, or twice that.
//! * **A running thread** (`need_active_balance`, `active_load_balance_cpu_stop`) is pushed to an
//!   idle CPU that may run it, if that has failed in a domain more than three times (within a core
//!   two, across nodes four): the threads that wait beside it may not run there, or its group is
//!   crowded.
//!
//! Deviations: at most one idle CPU gets threads at a time, and each tick of a busy CPU looks for
//! the first one; the kernel serves all of them. Groups of several CPUs are compared by their
//! numbers of threads only, and not by the CPU time that they use (`group_is_overloaded`). Any CPU
//! of a group balances, and not only the first (`should_we_balance`). Nodes are compared like
//! cores, without an imbalance that is allowed (`adjust_numa_imbalance`). Only an idle CPU that is
//! asked at a tick gets a running thread, and not one that runs out of threads.

use policy::{CpuId, Instant, Span, ThreadId};

use super::Cfs;
use crate::engine::scheduler::{Marks, Picks, Push};
use crate::kernels::Occasion;
use crate::kernels::domains::{Level, crowded, excess, gives, others};

/// The number of threads of a queue that are looked at (`sysctl_sched_nr_migrate`).
const MOST_LOOKED_AT: usize = 32;

/// How much a CPU should take from another.
#[derive(Clone, Copy, Debug)]
enum Imbalance {
    Threads(u64),
    Load(u64),
}

#[derive(Clone, Copy, Debug, Default)]
struct BalanceResult {
    threads: usize,
    /// Whether one of them preempts.
    preempts: bool,
    /// Whether no thread of the other queue may run here.
    all_are_bound: bool,
    /// The CPU whose running thread should be pushed to this one.
    push_from: Option<CpuId>,
}

/// How often a CPU has failed at a level.
#[derive(Clone, Copy, Debug)]
struct Tries {
    of: Level,
    failures: u32,
}

impl Cfs {
    pub(super) fn balance_newly_idle(&mut self, cpu: CpuId, now: Instant) {
        if self.queues[cpu.index()].idle.average >= self.migration_cost.as_nanos() as i64 {
            let mut levels = 0..self.domains.levels().len();
            levels.any(|level| self.balance(cpu, level, Occasion::NewlyIdle, false, now).threads > 0);
        }
    }

    /// A CPU with threads balances at a tick, if it is time. Returns whether it should pick again
    /// because of that. `is_marked` means that it is already marked.
    pub(super) fn balance_busy(&mut self, cpu: CpuId, is_marked: bool, now: Instant) -> bool {
        let mut preempts = false;
        for level in 0..self.domains.levels().len() {
            if self.is_time(cpu, level, Occasion::Busy, now) {
                preempts |= self.balance(cpu, level, Occasion::Busy, is_marked || preempts, now).preempts;
            }
        }
        preempts
    }

    /// An idle CPU that takes threads because this one, at its tick, has more than it can run, or
    /// is not alone in its node.
    pub(super) fn ask_for_help(&mut self, cpu: CpuId, now: Instant, marks: &Marks) -> Picks {
        let none = Picks::default();
        if now < self.next_kick || (self.queues[cpu.index()].threads < 2 && !self.is_accompanied(cpu)) {
            return none;
        }
        let Some(first) = marks.first_idle(None) else { return none };
        for idle in marks.idle().skip(1).chain([first]) {
            for level in 0..self.domains.levels().len() {
                if !self.is_time(idle, level, Occasion::Idle, now) {
                    continue;
                }
                let taken = self.balance(idle, level, Occasion::Idle, false, now);
                if taken.threads > 0 {
                    return Picks { another: Some(idle), ..none };
                }
                if let Some(from) = taken.push_from {
                    return Picks { push: Some(Push { from, to: idle }), ..none };
                }
            }
        }
        self.next_kick = now + self.ticks.period;
        none
    }

    /// Whether domains are not flat, and another CPU of its node has threads (`nr_busy_cpus`).
    fn is_accompanied(&self, cpu: CpuId) -> bool {
        let has_threads = |other: CpuId| self.queues[other.index()].threads > 0;
        !self.domains.is_flat() && others(self.domains.node(cpu), cpu).any(has_threads)
    }

    /// Whether it is time for a CPU to balance (`get_sd_balance_interval`).
    fn is_time(&self, cpu: CpuId, level: usize, occasion: Occasion, now: Instant) -> bool {
        let balancing = self.queues[cpu.index()].balancing[level];
        let quarters = u64::from(self.domains.levels()[level].size) * if balancing.is_calm { 2 } else { 1 };
        let ticks = if occasion == Occasion::Busy { 4 * quarters - 1 } else { quarters.div_ceil(4) };
        now.since(balancing.last) >= Span::from_nanos(ticks.saturating_mul(self.ticks.period.as_nanos()))
    }

    fn balance(
        &mut self,
        cpu: CpuId,
        level: usize,
        occasion: Occasion,
        is_marked: bool,
        now: Instant,
    ) -> BalanceResult {
        let of = self.domains.levels()[level];
        let mut passed_over = Vec::new();
        let (mut taken, mut found) = loop {
            let Some((from, imbalance)) = self.imbalance(cpu, of, now) else { break (BalanceResult::default(), None) };
            let tries = Tries { of, failures: self.queues[cpu.index()].balancing[level].failures };
            let taken = self.take(cpu, from, imbalance, tries, (occasion, is_marked), now);
            if !taken.all_are_bound {
                break (taken, Some(from));
            }
            self.occupancy.pass_over(from);
            passed_over.push(from);
        };
        passed_over.into_iter().for_each(|cpu| self.note(cpu));
        if self.queues[cpu.index()].threads == 0 {
            found = found.or_else(|| crowded(of, cpu, |cpu| self.queues[cpu.index()].threads));
        }
        let in_balance = found.is_none();
        let balancing = &mut self.queues[cpu.index()].balancing[level];
        let is_regular = occasion != Occasion::NewlyIdle;
        if is_regular {
            balancing.last = now;
        }
        balancing.is_calm = in_balance && (is_regular || balancing.is_calm);
        if in_balance || taken.threads > 0 {
            balancing.failures = 0;
        } else if is_regular {
            balancing.failures += 1;
        }
        if occasion == Occasion::Idle && of.is_patience_over(balancing.failures) {
            taken.push_from = found.filter(|from| {
                let running = self.queues[from.index()].current;
                running.is_some_and(|running| self.affinity.is_allowed(running, cpu))
            });
            if taken.push_from.is_some() {
                self.queues[cpu.index()].balancing[level].failures = 0;
            }
        }
        taken
    }

    /// The CPU of the domain from which this one should take, and how much.
    fn imbalance(&self, cpu: CpuId, level: Level, now: Instant) -> Option<(CpuId, Imbalance)> {
        let threads = |cpu: CpuId| self.queues[cpu.index()].threads;
        let has_none = threads(cpu) == 0;
        let from = if self.domains.is_flat() {
            self.occupancy.longest_after(cpu)?
        } else {
            let mut gives = has_none.then(|| gives(level, cpu, threads));
            let may_give = |from: &CpuId| gives.as_mut().is_none_or(|gives| gives(from));
            self.occupancy.longest_among(others(level.domain(cpu), cpu).filter(may_give))?
        };
        if has_none {
            return Some((from, Imbalance::Threads(excess(level, from, cpu, threads)? as u64 / 2)));
        }
        let average = self.loads.mean(level.domain(cpu), now);
        let (here, there) = (self.loads.of_cpu(cpu, now), self.loads.of_cpu(from, now));
        if here >= there || (threads(cpu) > 1 && 100 * there <= level.imbalance_percent * here) {
            return None;
        }
        let load = there.saturating_sub(average).min(average.saturating_sub(here));
        (load > 0).then_some((from, Imbalance::Load(load)))
    }

    /// Takes threads from another queue (`detach_tasks`, `attach_tasks`).
    fn take(
        &mut self,
        cpu: CpuId,
        from: CpuId,
        imbalance: Imbalance,
        tries: Tries,
        (occasion, is_marked): (Occasion, bool),
        now: Instant,
    ) -> BalanceResult {
        let there = &self.queues[from.index()];
        let (looks, current) = (there.timeline.len().min(MOST_LOOKED_AT), there.current);
        let Tries { of, failures } = tries;
        let mut taken = BalanceResult {
            all_are_bound: current.is_none_or(|current| !self.affinity.is_allowed(current, cpu)),
            ..BalanceResult::default()
        };
        let mut left = imbalance;
        for _ in 0..looks {
            let there = &mut self.queues[from.index()];
            let Some(thread) = there.timeline.oldest() else { break };
            if occasion != Occasion::Busy && there.threads < 2 {
                break;
            }
            let load = self.loads.of_thread(thread, now).max(1);
            let may_run = self.affinity.is_allowed(thread, cpu);
            taken.all_are_bound &= !may_run;
            let fits = match left {
                Imbalance::Threads(_) => true,
                Imbalance::Load(left) => load >> failures.min(63) <= left,
            };
            let is_hot = failures <= of.nice_tries && !of.is_core && self.is_hot(thread, cpu, now);
            if !may_run || !fits || is_hot {
                self.queues[from.index()].timeline.move_to_back(thread, &mut self.entities);
                continue;
            }
            taken.preempts |= self.fetch(thread, cpu, is_marked || taken.preempts, now);
            taken.threads += 1;
            let (Imbalance::Threads(rest) | Imbalance::Load(rest)) = &mut left;
            *rest = rest.saturating_sub(if let Imbalance::Threads(_) = imbalance { 1 } else { load });
            if *rest == 0 {
                break;
            }
        }
        taken
    }

    /// Whether a waiting thread should stay because its cache is hot (`task_hot`).
    fn is_hot(&self, thread: ThreadId, cpu: CpuId, now: Instant) -> bool {
        let entity = self.entity(thread);
        let is_buddy = self.queues[entity.cpu.index()].buddies.is_hot(thread);
        let has_threads = self.queues[cpu.index()].threads > 0;
        (is_buddy && has_threads) || entity.last_ran.is_some_and(|ran| now.since(ran) < self.migration_cost)
    }

    /// Moves a waiting thread to the queue of `cpu`. Returns whether it preempts there. `is_marked`
    /// means that the CPU is already marked.
    fn fetch(&mut self, thread: ThreadId, cpu: CpuId, is_marked: bool, now: Instant) -> bool {
        let from = self.entity(thread).cpu;
        let later = self.later(cpu, from, now);
        self.stop_waiting(thread);
        self.remove(thread);
        self.migrate(thread, cpu, later);
        self.queues[from.index()].advance(&self.entities);
        self.enqueue(thread);
        self.loads.migrate(thread, cpu, now);
        !is_marked && self.check_preemption(thread)
    }
}
