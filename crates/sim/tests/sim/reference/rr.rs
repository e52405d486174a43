//! Round robin: one queue, and a quantum that is fresh at each dispatch. Without a quantum it is
//! first in, first out.

use rowlock_sim::observer::CpuState;
use rowlock_sim::scheduler::ReadyReason;

use crate::reference::affinity::Affinity;
use crate::reference::kernel::Kernel;
use crate::reference::world::{Cpu, Thread, World};

pub(crate) struct RoundRobin {
    affinity: Affinity,
    quantum: Option<u64>,
    queue: Vec<Thread>,
    /// How many steps of its quantum each CPU has used.
    used: Vec<u64>,
}

impl RoundRobin {
    pub(crate) fn new(cpus: usize, quantum: Option<u64>, affinity: Affinity) -> RoundRobin {
        RoundRobin { affinity, quantum, queue: Vec::new(), used: vec![0; cpus] }
    }

    fn first_for(&self, cpu: Cpu) -> Option<usize> {
        self.queue.iter().position(|&thread| self.affinity.is_allowed(thread, cpu))
    }
}

impl Kernel for RoundRobin {
    fn pass_step(&mut self, world: &World) {
        for cpu in 0..world.cpus.len() {
            if world.running_on(cpu).is_some() {
                self.used[cpu] += 1;
            }
        }
    }

    fn ready(&mut self, _world: &World, threads: &[Thread], _why: ReadyReason) {
        self.queue.extend(threads);
    }

    fn schedule(&mut self, _world: &World, cpu: Cpu, previous: Option<Thread>) -> Option<Thread> {
        self.used[cpu] = 0;
        match self.first_for(cpu) {
            None => previous,
            Some(place) => Some(self.queue.remove(place)),
        }
    }

    fn leave(&mut self, _world: &World, _cpu: Cpu, _thread: Thread) {}

    fn end_switch(&mut self, _world: &World, cpu: Cpu) {
        self.used[cpu] = 0;
    }

    fn time_is_up(&self, _world: &World, cpu: Cpu) -> bool {
        self.quantum.is_some_and(|quantum| self.used[cpu] >= quantum)
    }

    fn has_to_schedule(&self, world: &World, cpu: Cpu) -> bool {
        world.cpus[cpu].state == CpuState::Idle && self.first_for(cpu).is_some()
    }
}
