//! Round robin: one queue for all CPUs.
//!
//! Source: Tsafrir and Feitelson, section 3 (simulations under RR scheduling). A quantum is fresh
//! at each dispatch and does not cover the switch. At its end the CPU takes the head of the queue,
//! and the thread that ran goes to the tail when its switch is over. If no thread waits, it
//! continues without a switch, with a fresh quantum. Woken threads go to the tail. They preempt no
//! thread, and no thread has its own CPU. `sched_yield` ends the quantum.
//!
//! Choices that the source leaves open: a woken thread starts on the idle CPU with the lowest
//! number. A CPU skips threads that are bound to other CPUs.

use policy::{CpuId, Instant, Span, ThreadId};
use scenario::Machine;

use crate::engine::scheduler::{Marks, Picks, ReadyReason, Scheduler};
use crate::kernels::queue::Queue;
use crate::kernels::roster::Roster;

/// The scheduler; see the module.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    quantum: Span,
    queue: Queue,
}

impl RoundRobin {
    /// Round robin with the quantum of this machine.
    pub fn new(machine: &Machine, roster: &Roster) -> RoundRobin {
        RoundRobin { quantum: machine.quantum, queue: Queue::new(machine, roster) }
    }
}

impl Scheduler for RoundRobin {
    fn ready(&mut self, thread: ThreadId, _: ReadyReason, _: Instant, marks: &mut Marks) {
        self.queue.push(thread, marks);
    }

    fn pick(&mut self, cpu: CpuId, current: Option<ThreadId>, _: Instant) -> Option<ThreadId> {
        self.queue.pop(cpu).or(current)
    }

    fn leave(&mut self, _: CpuId, _: ThreadId, _: Instant) {}

    fn note_yield(&mut self, _: CpuId, _: ThreadId, _: Instant) {}

    fn alarm(&mut self, _: CpuId, now: Instant) -> Instant {
        now + self.quantum
    }

    fn alarmed(&mut self, _: CpuId, _: Instant, _: &Marks) -> Picks {
        Picks { this_cpu: true, another: None }
    }

    fn has_work_for(&self, cpu: CpuId, _: Instant) -> bool {
        self.queue.has_one_for(cpu)
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }
}
