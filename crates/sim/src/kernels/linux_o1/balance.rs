//! Balancing: how a CPU with fewer threads takes some from the one with the most.
//!
//! A CPU's load is smoothed over the last ticks. For another CPU, the lower of the smoothed and the
//! present load counts; for a CPU itself, the higher. A tournament finds the CPU with the highest
//! load, so that no CPU looks at all others.

use policy::{CpuId, Instant, ThreadId};

use super::LinuxO1;
use super::task::NONE;
use crate::engine::scheduler::Marks;
use crate::engine::winner::{Key, WinnerTree};
use crate::kernels::Occasion;

/// The load of one thread (`SCHED_LOAD_SCALE`).
const SCALE: u64 = 128;
/// A busy CPU looks less often by this factor (`busy_factor`).
const BUSY_FACTOR: u64 = 64;
/// Another CPU must have this percentage of the own load (`imbalance_pct`).
const IMBALANCE: u64 = 125;
/// The longest interval, in ticks (`max_interval`).
const LONGEST: u64 = 4;
/// Hot caches are ignored after more failures than this (`cache_nice_tries`).
const NICE_TRIES: u32 = 1;
/// A CPU gives up after this many threads that it may not take.
const LOOKED_AT: u32 = 32;

impl LinuxO1 {
    /// Updates a CPU's load after it has gained or lost a thread, or after smoothing.
    pub(super) fn update_load(&mut self, cpu: CpuId) {
        let queue = &self.queues[cpu.index()];
        self.loads.set(cpu, u64::from(queue.balance.load).min(SCALE * u64::from(queue.running)));
    }

    /// The smoothed load of a CPU, which halves with every tick of idleness.
    pub(super) fn smoothed(&self, cpu: CpuId, tick: u64) -> u32 {
        let queue = &self.queues[cpu.index()];
        let idle = if queue.running == 0 { tick - queue.balance.load_at } else { 0 };
        queue.balance.load >> idle.min(31)
    }

    /// A tick of a CPU that runs a thread: smooths its load, and looks for an imbalance if it is
    /// time (`rebalance_tick`). Returns whether it took a thread that should preempt.
    pub(super) fn rebalance(&mut self, cpu: CpuId, now: Instant) -> bool {
        let tick = self.tuning.ticks(now);
        let balance = &self.queues[cpu.index()].balance;
        let is_due = balance.is_due(tick, BUSY_FACTOR);
        let (before, load) = (balance.load, SCALE as u32 * self.queues[cpu.index()].running);
        // Rounded up while the load grows, so that it reaches the present load.
        let smoothed = (before + u32::from(load > before) + load) / 2;
        if smoothed != before {
            self.queues[cpu.index()].balance.load = smoothed;
            self.update_load(cpu);
        }
        is_due && self.balance(cpu, Occasion::Busy, now).1
    }

    /// The idle CPU whose turn it is takes threads if some wait elsewhere. Idle CPUs tick too, but
    /// most of their ticks have nothing to do. So the ticks of the busy CPUs offer work to each in
    /// turn.
    pub(super) fn offer_to_idle(&mut self, now: Instant, marks: &Marks) -> Option<CpuId> {
        if self.loads.highest() <= SCALE {
            return None;
        }
        let next = CpuId((self.offered.0 + 1) % self.queues.len() as u32);
        let cpu = self.idle.first_from(next, None)?;
        self.offered = cpu;
        let is_due = self.queues[cpu.index()].balance.is_due(self.tuning.ticks(now), 1);
        (marks.is_idle(cpu) && is_due && self.balance(cpu, Occasion::Idle, now).0 > 0).then_some(cpu)
    }

    /// Looks for an imbalance at a tick (`load_balance`). Returns how many threads it took, and
    /// whether one of them should preempt.
    fn balance(&mut self, cpu: CpuId, occasion: Occasion, now: Instant) -> (u64, bool) {
        let tick = self.tuning.ticks(now);
        self.queues[cpu.index()].balance.last = tick as i64;
        let Some((busiest, most)) = self.busiest(cpu, occasion, tick) else {
            let balance = &mut self.queues[cpu.index()].balance;
            if balance.interval < LONGEST {
                balance.interval *= 2;
            }
            return (0, false);
        };
        let (moved, preempts) = self.move_threads(busiest, cpu, most, now);
        let balance = &mut self.queues[cpu.index()].balance;
        if moved > 0 {
            (balance.failures, balance.interval) = (0, 1);
        } else {
            balance.failures = if balance.failures > NICE_TRIES + 1 { NICE_TRIES } else { balance.failures + 1 };
            // It may already be longer, because doubling can exceed the limit.
            if balance.interval < LONGEST {
                balance.interval += 1;
            }
        }
        (moved, preempts)
    }

    /// A CPU that is about to become idle looks for work (`load_balance_newidle`).
    pub(super) fn balance_newly_idle(&mut self, cpu: CpuId, now: Instant) {
        let tick = self.tuning.ticks(now);
        if let Some((busiest, most)) = self.busiest(cpu, Occasion::NewlyIdle, tick) {
            self.move_threads(busiest, cpu, most, now);
        }
    }

    /// The CPU to take threads from, and how many.
    fn busiest(&self, cpu: CpuId, occasion: Occasion, tick: u64) -> Option<(CpuId, u64)> {
        let (busiest, highest) = self.loads.busiest_beside(cpu)?;
        let running = SCALE * u64::from(self.queues[cpu.index()].running);
        let own = u64::from(self.smoothed(cpu, tick)).max(running);
        let sum = self.loads.sum - self.loads.of[cpu.index()] + own;
        let average = sum / self.queues.len() as u64;
        Some((busiest, imbalance(own, average, highest, occasion)?))
    }

    /// Moves up to `most` threads from a queue to that of another CPU: expired threads first, the
    /// highest priority first, the last of a list first (`move_tasks`). Returns how many, and
    /// whether one of them should preempt.
    fn move_threads(&mut self, from: CpuId, to: CpuId, most: u64, now: Instant) -> (u64, bool) {
        if self.queues[from.index()].running <= 1 {
            return (0, false);
        }
        let target = &self.queues[to.index()];
        let even_hot = target.current.is_none() || target.balance.failures > NICE_TRIES;
        let last_tick = self.tuning.last_tick(now);
        let (mut moved, mut refused, mut preempts) = (0, 0, false);
        let (source, target) = (&self.queues[from.index()], &self.queues[to.index()]);
        for (array, into) in [(source.expired(), target.expired()), (source.active, target.active)] {
            let mut levels = self.queues[from.index()].array(array).bitmap;
            while levels != 0 {
                let mut at = self.queues[from.index()].array(array).last[levels.trailing_zeros() as usize];
                while at != NONE {
                    let thread = ThreadId(at);
                    let task = &self.tasks[thread.index()];
                    at = task.before;
                    let is_running = task.leaving || self.queues[from.index()].current == Some(thread);
                    if is_running || !self.affinity.is_allowed(thread, to) || !even_hot && task.is_hot(last_tick) {
                        refused += 1;
                        if refused == LOOKED_AT {
                            return (moved, preempts);
                        }
                        continue;
                    }
                    preempts |= self.pull(thread, from, to, into, now);
                    moved += 1;
                    if moved == most {
                        return (moved, preempts);
                    }
                }
                levels &= levels - 1;
            }
        }
        (moved, preempts)
    }

    /// Moves a waiting thread (`pull_task`). Returns whether it should preempt.
    fn pull(&mut self, thread: ThreadId, from: CpuId, to: CpuId, array: u8, now: Instant) -> bool {
        self.queues[from.index()].remove(thread, &mut self.tasks);
        self.lose(from, now);
        self.tasks[thread.index()].cpu = to;
        self.gain(to, now);
        self.queues[to.index()].push(thread, array, &mut self.tasks);
        self.tasks[thread.index()].priority < self.queues[to.index()].current_priority(&self.tasks)
    }
}

/// The loads of CPUs as others see them (`source_load`).
#[derive(Clone, Debug)]
pub(super) struct Loads {
    tournament: WinnerTree<u64>,
    pub(super) of: Vec<u64>,
    pub(super) sum: u64,
}

impl Loads {
    pub(super) fn new(cpus: usize) -> Loads {
        Loads { tournament: WinnerTree::new(cpus), of: vec![0; cpus], sum: 0 }
    }

    pub(super) fn set(&mut self, cpu: CpuId, load: u64) {
        let before = std::mem::replace(&mut self.of[cpu.index()], load);
        if before != load {
            self.sum = self.sum - before + load;
            self.tournament.set(cpu.index(), if load == 0 { u64::NEVER } else { u64::NEVER - load });
        }
    }

    pub(super) fn highest(&self) -> u64 {
        u64::NEVER - self.tournament.winner().1
    }

    /// The CPU with the highest load among all others; of equal ones, the next after this one,
    /// cyclically.
    pub(super) fn busiest_beside(&self, cpu: CpuId) -> Option<(CpuId, u64)> {
        let (busiest, key) = self.tournament.winner_after(cpu.index());
        (key != u64::NEVER).then_some((CpuId(busiest as u32), u64::NEVER - key))
    }
}

/// How many threads should move from the busiest CPU to this one (`find_busiest_group`).
fn imbalance(own: u64, average: u64, highest: u64, occasion: Occasion) -> Option<u64> {
    let balanced = match occasion {
        Occasion::Busy => None,
        Occasion::Idle => (highest > SCALE).then_some(1),
        Occasion::NewlyIdle => Some(1),
    };
    if own >= highest || own >= average || 100 * highest <= IMBALANCE * own {
        return balanced;
    }
    let wanted = (highest - average).min(average - own);
    if wanted + 1 >= SCALE {
        return Some((wanted + 1) / SCALE);
    }
    if highest - own >= 2 * SCALE {
        return Some(1);
    }
    // Less than one thread too much: worth a move only if more CPUs are used afterwards.
    let used = |load: u64| load.min(SCALE);
    let now = used(highest) + used(own);
    let then = used(highest.saturating_sub(SCALE)) + used(own + highest.min(SCALE));
    if then < now + SCALE / 8 { balanced } else { Some(1) }
}

/// A CPU's own load, and its balancing history (`cpu_load`, and the runtime fields of
/// `sched_domain`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Balance {
    /// The load of the last ticks, smoothed.
    pub(super) load: u32,
    /// If the CPU has no threads: the tick up to which `load` is right.
    pub(super) load_at: u64,
    /// The tick at which it last looked for an imbalance.
    pub(super) last: i64,
    /// The interval between looks, in ticks, while it is idle.
    pub(super) interval: u64,
    /// How often it has found an imbalance and could not take a thread (`nr_balance_failed`).
    pub(super) failures: u32,
}

impl Balance {
    /// CPUs do not look at the same time (`CPU_OFFSET`): their last looks before the start are
    /// staggered.
    pub(super) fn staggered(cpu: CpuId, cpus: usize) -> Balance {
        let last = -(BUSY_FACTOR as i64 * i64::from(cpu.0) / cpus as i64);
        Balance { load: 0, load_at: 0, last, interval: 1, failures: 0 }
    }

    pub(super) fn is_due(&self, tick: u64, factor: u64) -> bool {
        tick as i64 - self.last >= (factor * self.interval) as i64
    }
}
