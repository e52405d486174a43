//! Balancing: when one CPU takes threads from the queue of another, and which.
//!
//! A CPU balances within each of its [domains](crate::kernels::domains), from the smallest to the
//! largest. There it compares itself with the CPU whose queue weighs most. Loads are averages of
//! the recent past (`kernels/load.rs`).

use policy::{CpuId, Instant, Span, ThreadId};

use super::entity::NEVER;
use super::state::Eevdf;
use super::timeline::{NO_THREAD, Timeline};
use crate::engine::scheduler::{Marks, Push};
use crate::kernels::domains::{Domains, Level, MOST_LEVELS, crowded, gives, others};

/// A thread that ran within this time has a hot cache (`sysctl_sched_migration_cost`).
const MIGRATION_COST: Span = Span::from_micros(500);
/// The number of threads of a queue that are looked at (`sysctl_sched_nr_migrate`).
const MOST_LOOKS: usize = 32;
/// A busy CPU balances less often than an idle one by this factor (`busy_factor`).
const BUSY: u64 = 16;

impl Eevdf {
    /// An idle CPU that should take a waiting thread. Idle CPUs differ in what they may take: each
    /// goes to the next of equally loaded CPUs, and threads may be bound.
    pub(super) fn helper(&self, now: Instant, marks: &Marks) -> Option<CpuId> {
        self.idle(marks).find(|&cpu| self.to_steal(cpu, now).is_some())
    }

    /// The idle CPUs: those of idle cores before others (`should_we_balance`).
    fn idle(&self, marks: &Marks) -> impl Iterator<Item = CpuId> {
        let has_idle_core = |cpu: &CpuId| self.domains.core(*cpu).all(|cpu| self.occupancy.free.contains(CpuId(cpu)));
        let siblings = self.domains.has_siblings();
        let first = marks.idle().filter(move |cpu| !siblings || has_idle_core(cpu));
        first.chain(marks.idle().filter(move |cpu| siblings && !has_idle_core(cpu)))
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
        self.domains.levels().iter().find_map(|&level| {
            let from = self.busiest(cpu, level)?;
            let is_cold = |thread| level.is_core || self.is_cold(thread, now);
            let thread = self.oldest_that(from, |thread| self.affinity.is_allowed(thread, cpu) && is_cold(thread))?;
            Some((from, thread))
        })
    }

    /// The most loaded other CPU of a domain with a waiting thread that may run on `cpu`; of equal
    /// ones, the next after `cpu`, cyclically. If `cpu` has no thread, the group of the other one
    /// must have [two more](gives).
    fn busiest(&self, cpu: CpuId, level: Level) -> Option<CpuId> {
        let is_flat = self.domains.is_flat();
        if is_flat && self.affinity.is_unrestricted() {
            return self.occupancy.longest_after(cpu);
        }
        let has_one = |from: &CpuId| self.oldest_that(*from, |thread| self.affinity.is_allowed(thread, cpu)).is_some();
        if is_flat {
            return self.occupancy.all_longest_after(cpu).find(has_one);
        }
        let has_none = self.runnable(cpu) == 0;
        let mut gives = has_none.then(|| gives(level, cpu, |cpu| self.runnable(cpu)));
        let may_give = |from: &CpuId| gives.as_mut().is_none_or(|gives| gives(from));
        let candidates = others(level.domain(cpu), cpu).filter(may_give);
        if self.affinity.is_unrestricted() {
            return self.occupancy.longest_among(candidates);
        }
        self.occupancy.longest_among(candidates.filter(has_one))
    }

    /// The number of threads of a CPU that run or could run (`h_nr_runnable`).
    fn runnable(&self, cpu: CpuId) -> usize {
        let queue = &self.queues[cpu.index()];
        queue.ready() + usize::from(queue.current.is_some())
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
        let mut preempts = false;
        for number in 0..self.domains.levels().len() {
            preempts |= self.balance_at(number, cpu, now);
        }
        preempts
    }

    fn balance_at(&mut self, number: usize, cpu: CpuId, now: Instant) -> bool {
        if !self.queues[cpu.index()].balancing[number].is_time(BUSY, self.ticks.period, now) {
            return false;
        }
        let level = self.domains.levels()[number];
        let found = self.imbalance(cpu, level, now);
        let balancing = &mut self.queues[cpu.index()].balancing[number];
        balancing.last = now;
        let Some((from, imbalance)) = found else {
            balancing.find_balance(level);
            return false;
        };
        self.update(from, now);
        let taken =
            self.to_take(from, cpu, imbalance, (level, self.queues[cpu.index()].balancing[number].failures), now);
        let balancing = &mut self.queues[cpu.index()].balancing[number];
        balancing.interval = shortest_interval(level);
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
    fn imbalance(&self, cpu: CpuId, level: Level, now: Instant) -> Option<(CpuId, u64)> {
        let from = self.busiest(cpu, level)?;
        let (own, others) = (self.loads.of_cpu(cpu, now), self.loads.of_cpu(from, now));
        let average = self.loads.mean(level.domain(cpu), now);
        let is_overloaded = self.queues[cpu.index()].ready() > 0;
        if own >= others || own >= average || (is_overloaded && 100 * others <= level.imbalance_percent * own) {
            return None;
        }
        let imbalance = others.saturating_sub(average).min(average - own);
        (imbalance > 0).then_some((from, imbalance))
    }

    /// The threads that make up a load (`detach_tasks`, `can_migrate_task`). After failures they
    /// may be ahead of their queue, hot, and heavier than that.
    fn to_take(
        &self,
        from: CpuId,
        to: CpuId,
        imbalance: u64,
        (level, failures): (Level, u32),
        now: Instant,
    ) -> Vec<ThreadId> {
        let mut left = imbalance as i64;
        let mut taken = Vec::new();
        for thread in self.oldest(from) {
            let load = self.loads.of_thread(thread, now).max(1) as i64;
            let is_eligible = self.queues[from.index()].is_eligible(self.entity(thread));
            let may_go = self.affinity.is_allowed(thread, to)
                && (failures > 0 || is_eligible)
                && (failures > level.nice_tries || level.is_core || self.is_cold(thread, now));
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

    /// A running thread that should be pushed to an idle CPU, because this one has a waiting thread
    /// or a busy CPU beside it in its node (`need_active_balance`). Only called if no idle CPU
    /// takes a waiting thread.
    pub(super) fn push_running(&mut self, cpu: CpuId, now: Instant, marks: &Marks) -> Option<Push> {
        let is_flat = self.domains.is_flat();
        if now < self.next_kick || (is_flat && self.affinity.is_unrestricted()) {
            return None;
        }
        let has_threads = |other: CpuId| self.runnable(other) > 0;
        let is_accompanied = !is_flat && others(self.domains.node(cpu), cpu).any(has_threads);
        if self.queues[cpu.index()].ready() == 0 && !is_accompanied {
            return None;
        }
        self.next_kick = now + self.ticks.period;
        let idle: Vec<CpuId> = self.idle(marks).collect();
        let levels = self.domains.levels().len();
        let attempts = idle.into_iter().flat_map(|idle| (0..levels).map(move |number| (idle, number)));
        attempts.into_iter().find_map(|(idle, number)| self.push_to(idle, number, now))
    }

    /// The running thread that should be pushed to an idle CPU, if that has failed to take one of a
    /// domain too often.
    fn push_to(&mut self, to: CpuId, number: usize, now: Instant) -> Option<Push> {
        if !self.queues[to.index()].idle_balancing[number].is_time(1, self.ticks.period, now) {
            return None;
        }
        let level = self.domains.levels()[number];
        let found = self.bound_queue(to, level).or_else(|| crowded(level, to, |cpu| self.runnable(cpu)));
        let balancing = &mut self.queues[to.index()].idle_balancing[number];
        balancing.last = now;
        let Some(from) = found else {
            balancing.find_balance(level);
            return None;
        };
        balancing.interval = shortest_interval(level);
        balancing.failures += 1;
        let running = self.queues[from.index()].current.map(ThreadId);
        let may_run = running.is_some_and(|running| self.affinity.is_allowed(running, to));
        let balancing = &mut self.queues[to.index()].idle_balancing[number];
        if !may_run || !level.is_patience_over(balancing.failures) {
            return None;
        }
        balancing.failures = 0;
        Some(Push { from, to })
    }

    /// The most loaded CPU of a domain with waiting threads that may all not run on the idle CPU
    /// `to`, while the running one may.
    fn bound_queue(&self, to: CpuId, level: Level) -> Option<CpuId> {
        if self.affinity.is_unrestricted() {
            return None;
        }
        let is_allowed = |thread: ThreadId| self.affinity.is_allowed(thread, to);
        let mut gives = gives(level, to, |cpu| self.runnable(cpu));
        let has_such = |from: &CpuId| {
            let running = self.queues[from.index()].current.map(ThreadId);
            running.is_some_and(is_allowed) && self.oldest_that(*from, is_allowed).is_none() && gives(from)
        };
        self.occupancy.longest_among(others(level.domain(to), to).filter(has_such))
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
    pub(super) fn of_levels(domains: &Domains) -> [Balancing; MOST_LEVELS] {
        let start = Balancing { last: Instant::ZERO, interval: Span::ZERO, failures: 0 };
        let mut all = [start; MOST_LEVELS];
        for (balancing, level) in all.iter_mut().zip(domains.levels()) {
            balancing.interval = shortest_interval(*level);
        }
        all
    }

    /// Whether a CPU should balance at this tick, [`BUSY`] times less often if it is busy
    /// (`get_sd_balance_interval`). The interval of a busy CPU is whole ticks, less one, so that
    /// busy CPUs do not balance at the same time.
    fn is_time(&self, factor: u64, tick: Span, now: Instant) -> bool {
        let tick = tick.as_nanos();
        let ticks = self.interval.scaled(1000 * factor).as_nanos().div_ceil(tick);
        let ticks = ticks.saturating_sub(u64::from(factor == BUSY)).max(1);
        now.since(self.last).as_nanos() >= ticks.saturating_mul(tick)
    }

    /// There is nothing to do: it tries half as often from now on.
    fn find_balance(&mut self, level: Level) {
        self.interval = self.interval.scaled(2_000).min(shortest_interval(level).scaled(2_000));
        self.failures = 0;
    }
}

/// A millisecond for each CPU of the domain (`sd_weight`).
fn shortest_interval(level: Level) -> Span {
    Span::from_millis(level.size.into())
}
