//! Balancing: when one CPU takes threads from the queue of another, and which.
//!
//! All CPUs share a cache and are one domain, in which each is a group. A CPU compares itself with
//! the one whose queue weighs most. Loads are averages of the recent past (`kernels/load.rs`).

use policy::{CpuId, Instant, Span, ThreadId};
use scenario::Machine;

use super::entity::NEVER;
use super::state::Eevdf;
use super::timeline::{NO_THREAD, Timeline};
use crate::engine::scheduler::Marks;

/// A thread that ran within this time has a hot cache (`sysctl_sched_migration_cost`).
const MIGRATION_COST: Span = Span::from_micros(500);
/// The number of threads of a queue that are looked at (`sysctl_sched_nr_migrate`).
const MOST_LOOKS: usize = 32;
/// An overloaded CPU only takes load from one with more than this percentage of its own
/// (`imbalance_pct` of CPUs that share a cache).
const IMBALANCE: u64 = 117;
/// Hot threads are taken after more failures than this (`cache_nice_tries` of CPUs that share a
/// cache).
const NICE_TRIES: u32 = 1;
/// A busy CPU balances less often than an idle one by this factor (`busy_factor`).
const BUSY: u64 = 16;

impl Eevdf {
    /// An idle CPU that should take a waiting thread. Idle CPUs differ in what they may take: each
    /// goes to the next of equally loaded CPUs, and threads may be bound.
    pub(super) fn helper(&self, now: Instant, marks: &Marks) -> Option<CpuId> {
        marks.idle().find(|&cpu| self.to_steal(cpu, now).is_some())
    }

    /// Moves a waiting thread from another queue to the empty queue of `cpu`.
    pub(super) fn steal(&mut self, cpu: CpuId, now: Instant) {
        if let Some((from, thread)) = self.to_steal(cpu, now) {
            self.update(from, now);
            self.migrate(thread, from, cpu);
        }
    }

    /// Moves a waiting thread to another queue with its lag and the rest of its request.
    fn migrate(&mut self, thread: ThreadId, from: CpuId, to: CpuId) {
        self.remember_lag(thread, from);
        self.unlink(thread, from);
        self.note_load(from);
        self.loads.migrate(thread, to, self.queues[from.index()].updated);
        let left_of_request = self.entity(thread).deadline - self.entity(thread).vruntime;
        self.place(thread, to, left_of_request);
    }

    /// The thread that a CPU without work may take, and its CPU.
    fn to_steal(&self, cpu: CpuId, now: Instant) -> Option<(CpuId, ThreadId)> {
        let from = self.busiest(cpu)?;
        let thread =
            self.oldest_that(from, |thread| self.affinity.is_allowed(thread, cpu) && self.is_cold(thread, now))?;
        Some((from, thread))
    }

    /// The most loaded other CPU with a waiting thread that may run on `cpu`; of equal ones, the
    /// next after `cpu`, cyclically.
    fn busiest(&self, cpu: CpuId) -> Option<CpuId> {
        if self.affinity.is_unrestricted() {
            return self.occupancy.longest_after(cpu);
        }
        let has_one = |from: &CpuId| self.oldest_that(*from, |thread| self.affinity.is_allowed(thread, cpu)).is_some();
        self.occupancy.all_longest_after(cpu).find(has_one)
    }

    fn is_cold(&self, thread: ThreadId, now: Instant) -> bool {
        let ran = self.entity(thread).last_ran;
        ran == NEVER || now.since(ran) >= MIGRATION_COST
    }

    /// Of the waiting threads of a CPU that may be taken, the one that has waited longest.
    fn oldest_that(&self, cpu: CpuId, may: impl Fn(ThreadId) -> bool) -> Option<ThreadId> {
        self.oldest(cpu).into_iter().find(|&thread| may(thread))
    }

    /// The threads that have waited longest on a CPU, as many as are looked at.
    fn oldest(&self, cpu: CpuId) -> impl Iterator<Item = ThreadId> {
        let exists = |thread: &u32| *thread != NO_THREAD;
        let first = Some(self.queues[cpu.index()].waiting.oldest).filter(exists);
        let all =
            std::iter::successors(first, move |&thread| Some(Timeline::newer(&self.entities, thread)).filter(exists));
        all.take(MOST_LOOKS).map(ThreadId).filter(|&thread| !self.entity(thread).is_delayed)
    }

    /// At a tick, a busy CPU takes threads from a busier one, if it is time (`sched_balance_rq`).
    /// Returns whether one of them should preempt.
    pub(super) fn balance(&mut self, cpu: CpuId, now: Instant) -> bool {
        if !self.queues[cpu.index()].balancing.is_time(self.ticks.period, now) {
            return false;
        }
        let shortest = shortest_interval(self.queues.len());
        let found = self.imbalance(cpu, now);
        let balancing = &mut self.queues[cpu.index()].balancing;
        balancing.last = now;
        let Some((from, imbalance)) = found else {
            balancing.interval = balancing.interval.scaled(2_000).min(shortest.scaled(2_000));
            balancing.failures = 0;
            return false;
        };
        self.update(from, now);
        let taken = self.to_take(from, cpu, imbalance, now);
        let balancing = &mut self.queues[cpu.index()].balancing;
        balancing.interval = shortest;
        balancing.failures = if taken.is_empty() { balancing.failures.saturating_add(1) } else { 0 };
        let mut preempts = false;
        for thread in taken {
            self.migrate(thread, from, cpu);
            preempts |= self.check_preemption(thread, cpu);
        }
        preempts
    }

    /// The CPU from which a busy CPU should take load, and how much
    /// (`sched_balance_find_src_group`, `calculate_imbalance`): as much as brings neither beyond
    /// the average.
    fn imbalance(&self, cpu: CpuId, now: Instant) -> Option<(CpuId, u64)> {
        let from = self.busiest(cpu)?;
        let (own, others) = (self.loads.of_cpu(cpu, now), self.loads.of_cpu(from, now));
        let average = self.loads.mean(now);
        let is_overloaded = self.queues[cpu.index()].ready() > 0;
        if own >= others || own >= average || (is_overloaded && 100 * others <= IMBALANCE * own) {
            return None;
        }
        let imbalance = others.saturating_sub(average).min(average - own);
        (imbalance > 0).then_some((from, imbalance))
    }

    /// The threads that make up a load (`detach_tasks`, `can_migrate_task`). After failures they
    /// may be ahead of their queue, hot, and heavier than that.
    fn to_take(&self, from: CpuId, to: CpuId, imbalance: u64, now: Instant) -> Vec<ThreadId> {
        let failures = self.queues[to.index()].balancing.failures;
        let mut left = imbalance as i64;
        let mut taken = Vec::new();
        for thread in self.oldest(from) {
            let load = self.loads.of_thread(thread, now).max(1) as i64;
            let is_eligible = self.queues[from.index()].is_eligible(self.entity(thread));
            let may_go = self.affinity.is_allowed(thread, to)
                && (failures > 0 || is_eligible)
                && (failures > NICE_TRIES || self.is_cold(thread, now));
            if may_go && load >> failures.min(63) <= left {
                taken.push(thread);
                left -= load;
            }
            if left <= 0 {
                break;
            }
        }
        taken
    }
}

/// When a CPU balances: the kernel's `sched_domain`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Balancing {
    last: Instant,
    interval: Span,
    failures: u32,
}

impl Balancing {
    pub(super) fn new(machine: &Machine) -> Balancing {
        Balancing { last: Instant::ZERO, interval: shortest_interval(machine.cpus as usize), failures: 0 }
    }

    /// Whether a busy CPU should balance at this tick (`get_sd_balance_interval`). The interval is
    /// whole ticks, less one, so that busy CPUs do not balance at the same time.
    fn is_time(&self, tick: Span, now: Instant) -> bool {
        let tick = tick.as_nanos();
        let ticks = self.interval.scaled(1000 * BUSY).as_nanos().div_ceil(tick).saturating_sub(1).max(1);
        now.since(self.last).as_nanos() >= ticks.saturating_mul(tick)
    }
}

/// A millisecond for each CPU (`sd_weight`).
fn shortest_interval(cpus: usize) -> Span {
    Span::from_millis(cpus as u64)
}
