//! When CPUs tick.

use policy::Span;
use scenario::draw::Stream;
use scenario::{Machine, TickPhase};

use crate::reference::world::Cpu;

/// How long after a multiple of the period each CPU ticks. In nanoseconds.
pub(crate) struct Ticks {
    period: u64,
    phases: Vec<u64>,
}

impl Ticks {
    pub(crate) fn new(machine: &Machine, period: u64, seed: u64) -> Ticks {
        let whole = |nanos: u64| Span::from_nanos(nanos).floor_to(machine.step).as_nanos();
        let mut draws = Stream::named(seed, "ticks of the CPUs", 0);
        let mut phases = Vec::new();
        let common = if machine.tick_phase == TickPhase::Zero { 0 } else { draws.below(period) };
        for cpu in 0..u64::from(machine.cpus) {
            let later = match machine.tick_phase {
                TickPhase::Skewed => period / 2 / u64::from(machine.cpus) * cpu,
                TickPhase::Drawn if cpu > 0 => draws.below(period),
                _ => 0,
            };
            phases.push(whole((common + later) % period));
        }
        Ticks { period, phases }
    }

    /// The first tick of a CPU after `now`.
    pub(crate) fn after(&self, cpu: Cpu, now: u64) -> u64 {
        let mut tick = self.phases[cpu];
        if now >= tick {
            tick += ((now - tick) / self.period + 1) * self.period;
        }
        tick
    }
}
