//! Round robin: one queue, a quantum that is fresh at each dispatch.

use rowlock_sim::scheduler::Why;
use rowlock_sim::watch::Doing;

use crate::kernel::Kernel;
use crate::world::{Cpu, Thread, World};

pub(crate) struct RoundRobin {
    quantum: u64,
    queue: Vec<Thread>,
    /// How many steps of its quantum each CPU has used.
    used: Vec<u64>,
}

impl RoundRobin {
    pub(crate) fn new(cpus: usize, quantum: u64) -> RoundRobin {
        RoundRobin { quantum, queue: Vec::new(), used: vec![0; cpus] }
    }
}

impl Kernel for RoundRobin {
    fn step_passes(&mut self, world: &World) {
        for cpu in 0..world.cpus.len() {
            if world.running_on(cpu).is_some() {
                self.used[cpu] += 1;
            }
        }
    }

    fn ready(&mut self, _world: &World, threads: &[Thread], _why: Why) {
        self.queue.extend(threads);
    }

    fn schedule(&mut self, _world: &World, cpu: Cpu, previous: Option<Thread>) -> Option<Thread> {
        self.used[cpu] = 0;
        if self.queue.is_empty() { previous } else { Some(self.queue.remove(0)) }
    }

    fn leaves(&mut self, _world: &World, _cpu: Cpu, _thread: Thread) {}

    fn switch_ends(&mut self, _world: &World, cpu: Cpu) {
        self.used[cpu] = 0;
    }

    fn time_is_up(&self, _world: &World, cpu: Cpu) -> bool {
        self.used[cpu] >= self.quantum
    }

    fn has_to_schedule(&self, world: &World, cpu: Cpu) -> bool {
        world.cpus[cpu].doing == Doing::Idle && !self.queue.is_empty()
    }
}
