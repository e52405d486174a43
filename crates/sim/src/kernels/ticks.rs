//! Ticks: when the timer interrupts each CPU of a kernel.
//!
//! Linux lets all CPUs tick at the same moments, unless it is started with `skew_tick=1`: then CPU
//! `i` of `n` ticks later by `i` parts of `n` of half a period (`tick_setup_sched_timer` in
//! `kernel/time/tick-sched.c`, compared with the text in a tree of Linux 6.18.2; 5.15.100 has the
//! same lines). In a guest with two CPUs, the ticks of both were
//! within 40 us of each other. A run begins at any moment between two ticks, so the phase is drawn.

use policy::{CpuId, Instant, Span};
use scenario::draw::Stream;
use scenario::{Machine, TickPhase};

#[derive(Clone, Debug)]
pub(crate) struct Ticks {
    pub(crate) period: Span,
    /// How long after the multiples of the period each CPU ticks, in nanoseconds: less than a
    /// period.
    phases: Vec<u64>,
}

impl Ticks {
    /// The kernel of a cell has a [clock](crate::engine::cells::tick_phases) with a phase of its
    /// own, so its first CPU ticks at multiples of the period.
    pub(crate) fn new(machine: &Machine, seed: u64) -> Ticks {
        let (cpus, period) = (u64::from(machine.cpus), machine.tick.as_nanos());
        let mut stream = Stream::named(seed, "ticks of the CPUs", 0);
        let has_own_phase = machine.tick_phase == TickPhase::Zero || machine.cells.is_some();
        let common = if has_own_phase { 0 } else { stream.below(period) };
        let phase = |cpu| {
            let after = match machine.tick_phase {
                TickPhase::Zero | TickPhase::Common => 0,
                TickPhase::Skewed => period / 2 / cpus * cpu,
                TickPhase::Drawn if cpu == 0 => 0,
                TickPhase::Drawn => stream.below(period),
            };
            let phase = (u128::from(common) + u128::from(after)) % u128::from(period.max(1));
            Span::from_nanos(phase as u64).floor_to(machine.step).as_nanos()
        };
        Ticks { period: machine.tick, phases: (0..cpus).map(phase).collect() }
    }

    /// The next tick of a CPU after `now`.
    #[inline]
    pub(crate) fn next(&self, cpu: CpuId, now: Instant) -> Instant {
        let (period, phase) = (self.period.as_nanos(), self.phases[cpu.index()]);
        let periods = now.as_nanos().saturating_add(period - phase) / period;
        Instant::from_nanos(periods.saturating_mul(period).saturating_add(phase))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_ticks(tick_phase: TickPhase, seed: u64) -> Vec<u64> {
        let machine = Machine { tick_phase, step: Span::from_micros(1), ..Machine::with_cpus(4) };
        let ticks = Ticks::new(&machine, seed);
        crate::cpu_ids(4).map(|cpu| ticks.next(cpu, Instant::ZERO).as_nanos() / 1_000).collect()
    }

    #[test]
    fn cpus_tick_together_or_apart_as_the_machine_says() {
        assert_eq!(first_ticks(TickPhase::Zero, 1), [4_000; 4]);
        for seed in 0..20 {
            let common = first_ticks(TickPhase::Common, seed);
            assert!(common.iter().all(|&tick| tick == common[0] && (1..=4_000).contains(&tick)), "{common:?}");
            let skewed = first_ticks(TickPhase::Skewed, seed);
            let after = |cpu: usize| (skewed[cpu] + 4_000 - skewed[0]) % 4_000;
            assert!((0..4).all(|cpu| after(cpu).abs_diff(500 * cpu as u64) <= 1), "{skewed:?}");
            let mut drawn = first_ticks(TickPhase::Drawn, seed);
            drawn.sort_unstable();
            assert!(drawn.windows(2).all(|pair| pair[0] < pair[1]), "{drawn:?}");
        }
        assert_ne!(first_ticks(TickPhase::Common, 1), first_ticks(TickPhase::Common, 2));
    }

    #[test]
    fn a_cpu_ticks_once_in_every_period() {
        let machine = Machine { tick_phase: TickPhase::Drawn, ..Machine::with_cpus(3) };
        let ticks = Ticks::new(&machine, 1);
        for cpu in crate::cpu_ids(3) {
            let mut now = Instant::ZERO;
            for _ in 0..5 {
                let next = ticks.next(cpu, now);
                assert!(now < next && next.since(now) <= machine.tick);
                assert_eq!(ticks.next(cpu, next), next + machine.tick);
                now = next;
            }
        }
    }
}
