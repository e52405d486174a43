//! Balancing of EEVDF, by the rules at the head of `sim::eevdf` and `sim::eevdf::balance`.

use super::Eevdf;
use crate::reference::topology::Level;
use crate::reference::world::{Cpu, Thread};

/// A thread that ran within this time, in nanoseconds, has a hot cache.
const HOT: u64 = 500_000;
/// The number of threads of a queue that are looked at.
const LOOKS: usize = 32;

/// The balancing history of a CPU.
#[derive(Clone, Copy)]
pub(super) struct Domain {
    pub(super) last: u64,
    /// In milliseconds.
    pub(super) interval: u64,
    pub(super) failures: u32,
}

impl Eevdf {
    /// The threads on `from` that are looked at and may run on `to`.
    pub(super) fn candidates(&self, from: Cpu, to: Cpu) -> Vec<Thread> {
        let looked_at = self.waiting[from].iter().copied().take(LOOKS);
        let may = |thread: &Thread| !self.entities[*thread].is_delayed && self.entities[*thread].cpus.contains(&to);
        looked_at.filter(may).collect()
    }

    /// The CPU with the most weight that has a thread for `to`; of equal ones, the next one after
    /// it.
    pub(super) fn busiest(&self, to: Cpu, level: Level) -> Option<Cpu> {
        let mut busiest: Option<Cpu> = None;
        for cpu in self.topology.others(level, to) {
            let has_one = if self.has_bound() { !self.candidates(cpu, to).is_empty() } else { self.has_ready(cpu) };
            let is_crowded = self.runnable(to) > 0 || !self.topology.has_levels() || self.excess(level, cpu, to) > 0;
            let is_heavier = |than: Cpu| self.weight(cpu) > self.weight(than);
            if self.current[cpu].is_some() && has_one && is_crowded && busiest.is_none_or(is_heavier) {
                busiest = Some(cpu);
            }
        }
        busiest
    }

    /// Whether any thread is bound.
    pub(super) fn has_bound(&self) -> bool {
        self.entities.iter().any(|entity| entity.cpus.len() < self.current.len())
    }

    pub(super) fn is_cold(&self, thread: Thread, now: u64) -> bool {
        self.entities[thread].last_ran.is_none_or(|last| now - last >= HOT)
    }

    pub(super) fn to_steal(&self, to: Cpu, now: u64) -> Option<(Thread, Cpu)> {
        for level in self.topology.levels() {
            let Some(from) = self.busiest(to, level) else { continue };
            let is_cold = |thread: &Thread| level.shares_all_caches() || self.is_cold(*thread, now);
            if let Some(thread) = self.candidates(from, to).into_iter().find(is_cold) {
                return Some((thread, from));
            }
        }
        None
    }

    fn is_time(&self, domain: Domain, is_busy: bool, now: u64) -> bool {
        let ticks = (if is_busy { 16 } else { 1 } * domain.interval * 1_000_000).div_ceil(self.tick);
        now - domain.last >= ticks.saturating_sub(u64::from(is_busy)).max(1) * self.tick
    }

    /// The CPU whose running thread should be pushed to an idle one, and that one.
    pub(super) fn push(&mut self, cpu: Cpu, idle: Vec<Cpu>, now: u64) -> Option<(Cpu, Cpu)> {
        let mut beside = self.topology.node(cpu).into_iter().filter(|&other| other != cpu);
        let is_accompanied = self.topology.has_levels() && beside.any(|other| self.runnable(other) > 0);
        let is_possible = self.topology.has_levels() || self.has_bound();
        if now < self.next_request || !is_possible || !(self.has_ready(cpu) || is_accompanied) {
            return None;
        }
        self.next_request = now + self.tick;
        for to in idle {
            for (number, level) in self.topology.levels().into_iter().enumerate() {
                if !self.is_time(self.idle_domains[to][number], false, now) {
                    continue;
                }
                let from = self
                    .source_with_bound(to, level)
                    .or_else(|| self.topology.crowded(level, to, &|cpu| self.runnable(cpu)));
                let running = from.and_then(|from| self.current[from]);
                let may_go = running.is_some_and(|thread| self.entities[thread].cpus.contains(&to));
                let domain = &mut self.idle_domains[to][number];
                domain.last = now;
                let Some(from) = from else {
                    domain.interval = (2 * domain.interval).min(2 * level.size as u64);
                    domain.failures = 0;
                    continue;
                };
                domain.interval = level.size as u64;
                domain.failures += 1;
                if domain.failures > level.tries + 2 && may_go {
                    domain.failures = 0;
                    return Some((from, to));
                }
            }
        }
        None
    }

    /// The heaviest CPU that runs a thread which may run on `to`, while none of those that wait
    /// may.
    fn source_with_bound(&self, to: Cpu, level: Level) -> Option<Cpu> {
        let mut heaviest: Option<Cpu> = None;
        for from in self.topology.others(level, to) {
            let may_go = self.current[from].is_some_and(|thread| self.entities[thread].cpus.contains(&to));
            let is_such = self.has_bound()
                && may_go
                && self.has_ready(from)
                && self.candidates(from, to).is_empty()
                && self.excess(level, from, to) > 0;
            if is_such && heaviest.is_none_or(|heaviest| self.weight(from) > self.weight(heaviest)) {
                heaviest = Some(from);
            }
        }
        heaviest
    }

    /// At a tick: takes load from a busier CPU. Returns whether one of the threads should preempt.
    pub(super) fn balance(&mut self, cpu: Cpu, number: usize, now: u64) -> bool {
        let level = self.topology.levels()[number];
        let count = level.size as u64;
        let Domain { interval, failures, .. } = self.domains[cpu][number];
        if !self.is_time(self.domains[cpu][number], true, now) {
            return false;
        }
        self.domains[cpu][number].last = now;
        let (average, own) = (self.loads.mean(&self.topology.domain(level, cpu)), self.loads.of_cpu(cpu));
        let busiest = self.busiest(cpu, level).filter(|&busiest| {
            let others = self.loads.of_cpu(busiest);
            let is_close = self.has_ready(cpu) && 100 * others <= level.percent * own;
            own < others && own < average && average < others && !is_close
        });
        let Some(busiest) = busiest else {
            self.domains[cpu][number] = Domain { last: now, interval: (2 * interval).min(2 * count), failures: 0 };
            return false;
        };
        let mut left = (self.loads.of_cpu(busiest) - average).min(average - own);
        self.update(busiest);
        let mut taken = Vec::new();
        for thread in self.candidates(busiest, cpu) {
            let load = self.loads.of_thread(thread).max(1);
            let may_go = failures > 0 || self.is_eligible(thread, busiest);
            let is_cold = failures > level.tries || level.shares_all_caches() || self.is_cold(thread, now);
            if left > 0 && may_go && is_cold && load >> failures.min(63) <= left {
                left -= load;
                taken.push(thread);
            }
        }
        self.domains[cpu][number].interval = count;
        self.domains[cpu][number].failures = if taken.is_empty() { failures + 1 } else { 0 };
        let mut preempts = false;
        for thread in taken {
            self.migrate(thread, busiest, cpu);
            preempts |= self.should_preempt(thread, cpu);
        }
        preempts
    }
}
