//! Round robin: one queue for all CPUs.
//!
//! Source: Tsafrir and Feitelson, section 3 (simulations under RR scheduling). A quantum is fresh at each dispatch and
//! does not cover the switch. At its end the CPU takes the head of the queue, and the thread that ran goes to the tail
//! when its switch is over; where nobody waits it goes on without a switch, with a fresh quantum. Awakened threads go
//! to the tail. Nobody is preempted for them, and no thread has a CPU of its own. `sched_yield` ends the quantum.
//!
//! Choices that the source leaves open: an awakened thread starts on the idle CPU with the lowest number.

use std::collections::VecDeque;

use policy::{CpuId, Instant, Span, ThreadId};

use crate::scheduler::{Marks, Picks, Scheduler, Why};

/// The scheduler; see the module.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    quantum: Span,
    queue: VecDeque<ThreadId>,
}

impl RoundRobin {
    /// Round robin with this quantum.
    pub fn new(quantum: Span) -> RoundRobin {
        RoundRobin { quantum, queue: VecDeque::new() }
    }
}

impl Scheduler for RoundRobin {
    fn ready(&mut self, thread: ThreadId, _: Why, _: Instant, marks: &mut Marks) {
        self.queue.push_back(thread);
        if let Some(cpu) = marks.first_idle() {
            marks.mark(cpu);
        }
    }

    fn pick(&mut self, _: CpuId, current: Option<ThreadId>, _: Instant) -> Option<ThreadId> {
        self.queue.pop_front().or(current)
    }

    fn leave(&mut self, _: CpuId, _: ThreadId, _: Instant) {}

    fn yields(&mut self, _: CpuId, _: ThreadId, _: Instant) {}

    fn alarm(&mut self, _: CpuId, now: Instant) -> Instant {
        now + self.quantum
    }

    fn alarmed(&mut self, _: CpuId, _: Instant, _: &Marks) -> Picks {
        Picks { this_cpu: true, another: None }
    }

    fn has_work_for(&self, _: CpuId, _: Instant) -> bool {
        !self.queue.is_empty()
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }
}
