//! Wakeup: the CPU for a woken thread, and whether a joining thread preempts.

use policy::{CpuId, ThreadId};

use super::state::Eevdf;

impl Eevdf {
    /// The CPU for a woken thread: its previous one if that is free, else the next free CPU, else
    /// its previous one. Always a CPU on which it may run.
    pub(super) fn cpu_to_wake_on(&self, thread: ThreadId) -> CpuId {
        let (previous, allowed) = (self.entity(thread).cpu, self.affinity.of(thread));
        self.occupancy.free.first_from(previous, allowed).unwrap_or_else(|| {
            if self.affinity.is_allowed(thread, previous) { previous } else { self.occupancy.emptiest(allowed) }
        })
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
