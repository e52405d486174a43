//! Balancing: when one CPU takes threads from the queue of another, and which.
//!
//! All CPUs share a cache and are one domain, in which each is a group. The load of a CPU is the
//! weight of its queue.

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
    /// An idle CPU that should take a waiting thread.
    pub(super) fn helper(&self, now: Instant, marks: &Marks) -> Option<CpuId> {
        // Without affinities, all idle CPUs have the same choice.
        let candidates = if self.affinity.is_unrestricted() { 1 } else { usize::MAX };
        marks.idle.iter().take(candidates).find(|&cpu| self.to_steal(cpu, now).is_some())
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

    /// The most loaded other CPU with a waiting thread that may run on `cpu`.
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
        if !self.balancing.is_time(cpu, now) {
            return false;
        }
        let shortest = shortest_interval(self.queues.len());
        self.balancing.cpus[cpu.index()].last = now;
        let Some((from, imbalance)) = self.imbalance(cpu) else {
            let domain = &mut self.balancing.cpus[cpu.index()];
            domain.interval = domain.interval.scaled(2_000).min(shortest.scaled(2_000));
            domain.failures = 0;
            return false;
        };
        self.update(from, now);
        let taken = self.to_take(from, cpu, imbalance, now);
        let domain = &mut self.balancing.cpus[cpu.index()];
        domain.interval = shortest;
        domain.failures = if taken.is_empty() { domain.failures.saturating_add(1) } else { 0 };
        let mut preempts = false;
        for thread in taken {
            self.migrate(thread, from, cpu);
            preempts |= self.should_preempt(thread, cpu);
        }
        preempts
    }

    /// The CPU from which a busy CPU should take load, and how much
    /// (`sched_balance_find_src_group`, `calculate_imbalance`): as much as brings neither beyond
    /// the average.
    fn imbalance(&self, cpu: CpuId) -> Option<(CpuId, u64)> {
        let from = self.busiest(cpu)?;
        let (own, others, average) =
            (self.balancing.load[cpu.index()], self.balancing.load[from.index()], self.balancing.average());
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
        let failures = self.balancing.cpus[to.index()].failures;
        let mut left = imbalance as i64;
        let mut taken = Vec::new();
        for thread in self.oldest(from) {
            let load = i64::from(self.entity(thread).weight);
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

/// The state of all CPUs, which are one domain in which each is a group.
#[derive(Clone, Debug)]
pub(super) struct Balancing {
    tick: Span,
    load: Vec<u64>,
    /// The load of all CPUs together.
    total: u64,
    cpus: Vec<Domain>,
}

/// The state of one CPU: the kernel's `sched_domain`.
#[derive(Clone, Copy, Debug)]
struct Domain {
    last: Instant,
    interval: Span,
    failures: u32,
}

impl Balancing {
    pub(super) fn new(machine: &Machine) -> Balancing {
        let cpus = machine.cpus as usize;
        let domain = Domain { last: Instant::ZERO, interval: shortest_interval(cpus), failures: 0 };
        Balancing { tick: machine.tick, load: vec![0; cpus], total: 0, cpus: vec![domain; cpus] }
    }

    pub(super) fn note_load(&mut self, cpu: CpuId, load: u64) {
        self.total = self.total - self.load[cpu.index()] + load;
        self.load[cpu.index()] = load;
    }

    fn average(&self) -> u64 {
        self.total / self.cpus.len() as u64
    }

    /// Whether a busy CPU should balance at this tick (`get_sd_balance_interval`). The interval is
    /// whole ticks, less one, so that busy CPUs do not balance at the same time.
    fn is_time(&self, cpu: CpuId, now: Instant) -> bool {
        let Domain { last, interval, .. } = self.cpus[cpu.index()];
        let tick = self.tick.as_nanos();
        let ticks = interval.scaled(1000 * BUSY).as_nanos().div_ceil(tick).saturating_sub(1).max(1);
        now.since(last).as_nanos() >= ticks.saturating_mul(tick)
    }
}

/// A millisecond for each CPU (`sd_weight`).
fn shortest_interval(cpus: usize) -> Span {
    Span::from_millis(cpus as u64)
}
