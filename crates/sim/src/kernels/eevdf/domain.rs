//! The memory of balancing between busy CPUs.

use policy::{CpuId, Instant, Span};
use scenario::Machine;

/// A busy CPU balances less often than an idle one by this factor (`busy_factor`).
const BUSY: u64 = 16;

/// The state of all CPUs, which are one domain in which each is a group.
#[derive(Clone, Debug)]
pub(super) struct Balancing {
    tick: Span,
    pub(super) load: Vec<u64>,
    /// The load of all CPUs together.
    total: u64,
    pub(super) cpus: Vec<Domain>,
}

/// The state of one CPU: the kernel's `sched_domain`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Domain {
    pub(super) last: Instant,
    pub(super) interval: Span,
    pub(super) failures: u32,
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

    pub(super) fn average(&self) -> u64 {
        self.total / self.cpus.len() as u64
    }

    /// Whether a busy CPU should balance at this tick (`get_sd_balance_interval`). The interval is
    /// whole ticks, less one, so that busy CPUs do not balance at the same time.
    pub(super) fn is_time(&self, cpu: CpuId, now: Instant) -> bool {
        let Domain { last, interval, .. } = self.cpus[cpu.index()];
        let tick = self.tick.as_nanos();
        let ticks = interval.scaled(1000 * BUSY).as_nanos().div_ceil(tick).saturating_sub(1).max(1);
        now.since(last).as_nanos() >= ticks.saturating_mul(tick)
    }
}

/// A millisecond for each CPU (`sd_weight`).
pub(super) fn shortest_interval(cpus: usize) -> Span {
    Span::from_millis(cpus as u64)
}
