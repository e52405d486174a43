//! The loads of CPUs, and when an imbalance between them is worth a move.

use policy::CpuId;

use crate::engine::winner::{Key, WinnerTree};
use crate::kernels::Occasion;

/// The load of one thread (`SCHED_LOAD_SCALE`).
pub(super) const SCALE: u64 = 128;
/// A busy CPU looks less often by this factor (`busy_factor`).
pub(super) const BUSY_FACTOR: u64 = 64;
/// Another CPU must have this percentage of the own load (`imbalance_pct`).
const IMBALANCE: u64 = 125;

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
pub(super) fn imbalance(own: u64, average: u64, highest: u64, occasion: Occasion) -> Option<u64> {
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
