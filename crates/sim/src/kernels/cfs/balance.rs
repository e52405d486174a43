//! Balancing: when one CPU takes threads from the queue of another, and which (`load_balance`).
//!
//! A CPU compares itself with the CPU whose threads weigh most among those with more than one
//! thread; of equal ones, with the next after itself, cyclically. Loads are averages of the recent
//! past (`kernels/load.rs`).
//!
//! * **How much** (`find_busiest_group`, `calculate_imbalance`): a CPU without threads takes half
//!   of the other's threads. A CPU with threads takes load: the excess of the other over the
//!   average of all CPUs, or its own deficit, whichever is less. A CPU with more than one thread
//!   only does so if the other has 17 % more load.
//! * **Which** (`detach_tasks`, `can_migrate_task`): of the 32 threads that have waited longest,
//!   those that may run here, are cold, and whose load is not more than what is left to take. A
//!   thread is hot if it ran there within the migration cost, or if it is a buddy and there are
//!   threads here. Each failed balancing halves the loads for this comparison, and after two of
//!   them hot threads are taken too. If no thread of the other queue may run here, the next
//!   heaviest CPU is tried.
//! * **When, without work** (`newidle_balance`): whenever the CPU runs out of threads, unless it is
//!   idle for less than the migration cost on average.
//! * **When, with work** (`rebalance_domains`): at a tick, every 4 ticks times the number of CPUs,
//!   less one; after balance was found, twice as many, less one. This is the kernel's 16 ms for
//!   each CPU at 250 ticks a second.
//! * **When idle** (`nohz_balancer_kick`): a CPU with more than one thread, at its tick, asks the
//!   idle CPUs to balance, the second one first and the first one last, if they have not done so
//!   for a quarter of a tick times the number of CPUs, or twice that.
//!
//! Deviations: at most one idle CPU gets threads at a time, and each tick of a busy CPU looks for
//! the first one; the kernel serves all of them. No running thread is migrated
//! (`active_load_balance`), as the kernel does after more failures.

use policy::{CpuId, Instant, Span, ThreadId};

use super::Cfs;
use crate::engine::scheduler::Marks;
use crate::kernels::Occasion;

/// The number of threads of a queue that are looked at (`sysctl_sched_nr_migrate`).
const MOST_LOOKED_AT: usize = 32;
/// A load is larger than another if it is at least this percentage of it (`imbalance_pct`).
const IMBALANCE_PERCENT: u64 = 117;
/// Hot threads are taken after more failures than this (`cache_nice_tries`).
const NICE_TRIES: u32 = 1;

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
}

impl Cfs {
    pub(super) fn balance_newly_idle(&mut self, cpu: CpuId, now: Instant) {
        if self.queues[cpu.index()].idle.average >= self.migration_cost.as_nanos() as i64 {
            self.balance(cpu, Occasion::NewlyIdle, false, now);
        }
    }

    /// A CPU with threads balances at a tick, if it is time. Returns whether it should pick again
    /// because of that. `is_marked` means that it is already marked.
    pub(super) fn balance_busy(&mut self, cpu: CpuId, is_marked: bool, now: Instant) -> bool {
        self.is_time(cpu, Occasion::Busy, now) && self.balance(cpu, Occasion::Busy, is_marked, now).preempts
    }

    /// An idle CPU that takes threads because this one, at its tick, has more than it can run.
    pub(super) fn ask_for_help(&mut self, cpu: CpuId, now: Instant, marks: &Marks) -> Option<CpuId> {
        if self.queues[cpu.index()].threads < 2 || now < self.next_kick {
            return None;
        }
        let first = marks.first_idle(None)?;
        for idle in marks.idle().skip(1).chain([first]) {
            if self.is_time(idle, Occasion::Idle, now) && self.balance(idle, Occasion::Idle, false, now).threads > 0 {
                return Some(idle);
            }
        }
        self.next_kick = now + self.ticks.period;
        None
    }

    /// Whether it is time for a CPU to balance (`get_sd_balance_interval`).
    fn is_time(&self, cpu: CpuId, occasion: Occasion, now: Instant) -> bool {
        let balancing = self.queues[cpu.index()].balancing;
        let quarters = self.queues.len() as u64 * if balancing.is_calm { 2 } else { 1 };
        let ticks = if occasion == Occasion::Busy { 4 * quarters - 1 } else { quarters.div_ceil(4) };
        now.since(balancing.last) >= Span::from_nanos(ticks.saturating_mul(self.ticks.period.as_nanos()))
    }

    fn balance(&mut self, cpu: CpuId, occasion: Occasion, is_marked: bool, now: Instant) -> BalanceResult {
        let mut passed_over = Vec::new();
        let (taken, in_balance) = loop {
            let Some(from) = self.occupancy.longest_after(cpu) else { break (BalanceResult::default(), true) };
            let Some(imbalance) = self.imbalance(cpu, from, now) else { break (BalanceResult::default(), true) };
            let taken = self.take(cpu, from, imbalance, occasion, is_marked, now);
            if !taken.all_are_bound {
                break (taken, false);
            }
            self.occupancy.pass_over(from);
            passed_over.push(from);
        };
        passed_over.into_iter().for_each(|cpu| self.note(cpu));
        let balancing = &mut self.queue(cpu).balancing;
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
        taken
    }

    /// How much this CPU should take from `from`, if anything.
    fn imbalance(&self, cpu: CpuId, from: CpuId, now: Instant) -> Option<Imbalance> {
        let (here, there) = (&self.queues[cpu.index()], &self.queues[from.index()]);
        if here.threads == 0 {
            return Some(Imbalance::Threads(there.threads as u64 / 2));
        }
        let is_overloaded = here.threads > 1;
        let (here, there, average) = (self.loads.of_cpu(cpu, now), self.loads.of_cpu(from, now), self.loads.mean(now));
        if here >= there || (is_overloaded && 100 * there <= IMBALANCE_PERCENT * here) {
            return None;
        }
        let load = there.saturating_sub(average).min(average.saturating_sub(here));
        (load > 0).then_some(Imbalance::Load(load))
    }

    /// Takes threads from another queue (`detach_tasks`, `attach_tasks`).
    fn take(
        &mut self,
        cpu: CpuId,
        from: CpuId,
        imbalance: Imbalance,
        occasion: Occasion,
        is_marked: bool,
        now: Instant,
    ) -> BalanceResult {
        let there = &self.queues[from.index()];
        let (looks, current) = (there.timeline.len().min(MOST_LOOKED_AT), there.current);
        let failures = self.queues[cpu.index()].balancing.failures;
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
            if !may_run || !fits || (failures <= NICE_TRIES && self.is_hot(thread, cpu, now)) {
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
