//! Computations of CPUs that slow each other down, because they share a [core](super::cores).

use std::ops::Range;

use policy::record::Recorder;
use policy::{CpuId, Span, ThreadId};

use super::Engine;
use super::cores::FULL;
use super::observer::{CpuState, Observer};
use super::scheduler::Scheduler;
use super::threads::{Activity, ENDLESS};

/// The rest of an activity whose progress depends on the speed of the CPU.
fn work(activity: &mut Activity) -> Option<&mut Span> {
    match activity {
        Activity::Compute { left } | Activity::Manage { left } => Some(left).filter(|left| **left != ENDLESS),
        _ => None,
    }
}

impl<S: Scheduler, R: Recorder + Default, W: Observer + ?Sized> Engine<'_, S, R, W> {
    /// The speed of a CPU, in percent.
    fn speed(&self, cpu: CpuId) -> u64 {
        let is_busy = |other: u32| other != cpu.0 && self.cpus[other as usize].state != CpuState::Idle;
        if self.cores.topology.core(cpu).any(is_busy) { self.cores.shared } else { FULL }
    }

    /// The running thread of a CPU has continued its activity for some time.
    #[inline]
    pub(super) fn advance(&mut self, cpu: CpuId, thread: ThreadId, span: Span) {
        if self.cores.slow_down() {
            let speed = self.speed(cpu);
            if let Some(left) = work(&mut self.workload.threads[thread.index()].activity) {
                *left = self.cores.progress(thread, *left, speed, span);
                return;
            }
        }
        self.workload.threads[thread.index()].ran(span);
    }

    /// How long a computation of the running thread of a CPU takes if nothing changes.
    #[inline]
    pub(super) fn duration(&self, cpu: CpuId, thread: ThreadId, left: Span) -> Span {
        if self.cores.slow_down() && left != ENDLESS {
            return self.cores.duration(thread, left, self.speed(cpu));
        }
        left
    }

    /// Changes the state of a CPU from idle or to it, on which the speed of others may depend.
    pub(super) fn with_speeds_of_siblings(&mut self, cpu: CpuId, change: impl FnOnce(&mut Self)) {
        if !self.cores.slow_down() {
            return change(self);
        }
        let core: Range<u32> = self.cores.topology.core(cpu);
        let computing: Vec<(CpuId, ThreadId)> = core
            .map(CpuId)
            .filter(|&sibling| sibling != cpu)
            .filter_map(|sibling| match self.cpus[sibling.index()].state {
                CpuState::Running(thread) => Some((sibling, thread)),
                _ => None,
            })
            .filter(|(_, thread)| {
                let mut activity = self.workload.threads[thread.index()].activity;
                work(&mut activity).is_some()
            })
            .collect();
        computing.iter().for_each(|&(sibling, _)| self.charge(sibling));
        change(self);
        computing.into_iter().for_each(|(sibling, thread)| self.await_event(sibling, thread));
    }
}
