//! The things that CPUs of a node and of a core share: caches and, with several CPUs, the core.
//!
//! * **Refill**: a thread that gets a CPU of another core than the one that it last had fills its
//!   cache again. The switch to it takes longer by that time, which belongs to the thread.
//! * **Speed**: while another CPU of its core is not idle, a CPU computes at a part of its speed.
//!   Progress is counted in hundredths of nanoseconds, so that nothing is lost by rounding. A
//!   computation ends at the first step at which it is complete. Spins and other waits are times,
//!   and do not depend on the speed.

use policy::{CpuId, Span, ThreadId};
use scenario::{Machine, Topology};

use super::threads::ENDLESS;

/// The speed of a CPU that has its core for itself, in percent.
pub(super) const FULL: u64 = 100;

#[derive(Clone, Debug)]
pub(super) struct Cores {
    pub(super) topology: Topology,
    step: Span,
    /// The time for a thread from another core, and the further one if that is of another node.
    cache_refill: Span,
    node_refill: Span,
    /// The speed of a CPU that shares its core, in percent.
    pub(super) shared: u64,
    /// The CPU that each thread last had, or [`NO_CPU`]. Empty if a refill costs nothing.
    last: Vec<u32>,
    /// The hundredths of a nanosecond by which each thread is further than the whole ones. Empty if
    /// CPUs do not slow each other down.
    parts: Vec<u8>,
}

const NO_CPU: u32 = u32::MAX;

impl Cores {
    pub(super) fn new(machine: &Machine, threads: usize) -> Cores {
        let topology = machine.topology();
        let has_refill = !(machine.cache_refill + machine.node_refill).is_zero();
        let is_slowed = topology.cpus_of_core() > 1 && u64::from(machine.smt_speed) < FULL;
        Cores {
            topology,
            step: machine.step,
            cache_refill: machine.cache_refill,
            node_refill: machine.node_refill,
            shared: machine.smt_speed.max(1).into(),
            last: if has_refill { vec![NO_CPU; threads] } else { Vec::new() },
            parts: if is_slowed { vec![0; threads] } else { Vec::new() },
        }
    }

    /// A CPU switches to a thread. Returns how long the thread fills its cache.
    #[inline]
    pub(super) fn refill(&mut self, thread: ThreadId, cpu: CpuId) -> Span {
        let Some(last) = self.last.get_mut(thread.index()) else { return Span::ZERO };
        let before = std::mem::replace(last, cpu.0);
        if before == NO_CPU || self.topology.core(cpu).contains(&before) {
            Span::ZERO
        } else if self.topology.node(cpu).contains(&before) {
            self.cache_refill
        } else {
            self.cache_refill + self.node_refill
        }
    }

    /// Whether CPUs of a core slow each other down.
    #[inline]
    pub(super) fn slow_down(&self) -> bool {
        !self.parts.is_empty()
    }

    /// The rest of a computation after some time.
    pub(super) fn progress(&mut self, thread: ThreadId, left: Span, speed: u64, ran: Span) -> Span {
        let part = &mut self.parts[thread.index()];
        let done = u128::from(ran.as_nanos()) * u128::from(speed) + u128::from(*part);
        let whole = done / u128::from(FULL);
        if whole >= left.as_nanos().into() {
            *part = 0;
            return Span::ZERO;
        }
        *part = (done % u128::from(FULL)) as u8;
        left - Span::from_nanos(whole as u64)
    }

    /// How long a computation takes at this speed, in whole steps.
    pub(super) fn duration(&self, thread: ThreadId, left: Span, speed: u64) -> Span {
        let hundredths = u128::from(left.as_nanos()) * u128::from(FULL) - u128::from(self.parts[thread.index()]);
        let step = u128::from(self.step.as_nanos());
        let nanos = hundredths.div_ceil(u128::from(speed)).div_ceil(step) * step;
        u64::try_from(nanos).map_or(ENDLESS, Span::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(topology: &str, step: u64) -> Cores {
        let topology: Topology = topology.parse().unwrap();
        let machine = Machine {
            topology: Some(topology),
            cache_refill: Span::from_nanos(20),
            node_refill: Span::from_nanos(50),
            smt_speed: 65,
            step: Span::from_nanos(step),
            ..Machine::with_cpus(topology.cpus())
        };
        Cores::new(&machine, 1)
    }

    #[test]
    fn a_thread_pays_for_another_core_and_more_for_another_node() {
        let mut cores = cores("2x2x2", 1);
        let refills = [2, 3, 3, 0, 4, 7, 6, 1].map(|cpu| cores.refill(ThreadId(0), CpuId(cpu)).as_nanos());
        assert_eq!(refills, [0, 0, 0, 20, 70, 20, 0, 70]);
    }

    #[test]
    fn progress_does_not_depend_on_how_often_it_is_counted() {
        let (thread, span) = (ThreadId(0), Span::from_nanos);
        let mut cores = cores("1x1x2", 1);
        let duration = cores.duration(thread, span(1_000), 65);
        assert_eq!(duration, span(1_539));
        let mut left = span(1_000);
        for _ in 0..1_538 {
            left = cores.progress(thread, left, 65, span(1));
        }
        assert_eq!((left, cores.duration(thread, left, 65)), (span(1), span(1)));
        assert_eq!(cores.progress(thread, left, 65, span(1)), Span::ZERO);
        assert_eq!(cores.progress(thread, span(1_000), 65, span(1_539)), Span::ZERO);
        assert_eq!(self::cores("1x1x2", 100).duration(thread, span(1_000), 65), span(1_600));
    }
}
