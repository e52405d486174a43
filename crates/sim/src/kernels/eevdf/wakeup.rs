//! Wakeup: the CPU for a woken thread, and whether a joining thread preempts.

use policy::{CpuId, Instant, ThreadId};

use super::state::Eevdf;
use crate::kernels::wakeup::Scene;

impl Eevdf {
    /// The CPU for a woken thread (`select_task_rq_fair`).
    pub(super) fn cpu_to_wake_on(&mut self, thread: ThreadId, here: Option<CpuId>, now: Instant) -> CpuId {
        let previous = self.entity(thread).cpu;
        let current = |here: CpuId| self.queues[here.index()].current.map(ThreadId);
        let waker = here.and_then(|here| Some(here).zip(current(here)));
        let (domains, occupancy, affinity, loads) = (&self.domains, &self.occupancy, &self.affinity, &self.loads);
        self.wakeups.cpu_for(thread, previous, Scene { now, waker, domains, occupancy, affinity, loads })
    }

    /// Compares a thread that has joined the queue of `cpu` with the current one, whose protection
    /// may end. Returns whether it should preempt (`check_preempt_wakeup_fair`).
    pub(super) fn check_preemption(&mut self, thread: ThreadId, cpu: CpuId) -> bool {
        let Some(current) = self.queues[cpu.index()].current else { return true };
        let is_shorter = self.entity(thread).slice < self.entities[current as usize].slice;
        let preempts = self.best(cpu, !is_shorter) == Some(thread);
        if is_shorter {
            let shortest = self.shortest_slice(cpu);
            let current = &mut self.entities[current as usize];
            let end = current.vruntime + if preempts { 0 } else { current.virtually(shortest) };
            current.protected_until = current.protected_until.min(end);
        }
        preempts
    }
}

#[cfg(test)]
mod tests {
    use policy::CpuSet;
    use scenario::{Attributes, Machine};

    use super::*;
    use crate::engine::scheduler::{Marks, ReadyReason, Scheduler};
    use crate::kernels::roster::Roster;

    /// The CPU for a thread that has left CPU 0 to `others` threads and is woken from CPU 1, which
    /// runs one thread.
    fn woken_beside(others: u32) -> u32 {
        let mut roster = Roster::default();
        roster.enter(2, Attributes::default(), true);
        let cpus: Option<CpuSet> = "0".parse().ok();
        roster.enter(others, Attributes { cpus, ..Attributes::default() }, false);
        let mut kernel = Eevdf::new(&Machine::with_cpus(2), &roster, 1);
        let mut marks = Marks::new(2);
        let now = Instant::ZERO;
        (0..2 + others).for_each(|thread| kernel.ready(ThreadId(thread), ReadyReason::New, now, &mut marks));
        for cpu in [0, 1] {
            assert_eq!(kernel.pick(CpuId(cpu), None, now), Some(ThreadId(cpu)));
        }
        kernel.block(CpuId(0), ThreadId(0), now);
        kernel.pick(CpuId(0), None, now);
        marks.begin_event(Some(CpuId(1)));
        kernel.ready(ThreadId(0), ReadyReason::Woken, now, &mut marks);
        kernel.entity(ThreadId(0)).cpu.0
    }

    #[test]
    fn a_woken_thread_stays_on_its_cpu_unless_the_wakers_has_less_load() {
        assert_eq!([0, 1, 2, 3].map(woken_beside), [0, 0, 1, 1]);
    }
}
