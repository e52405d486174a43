//! One queue for all CPUs, first come, first served: what `fifo` and `rr` have in common.

use std::collections::VecDeque;

use policy::{CpuId, ThreadId};
use scenario::Machine;

use crate::engine::scheduler::Marks;
use crate::kernels::affinity::Affinity;
use crate::kernels::roster::Roster;

/// The ready threads in the order in which they became ready. A CPU takes the first that may run on it: where nobody is bound, the head.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    threads: VecDeque<ThreadId>,
    affinity: Affinity,
}

impl Queue {
    /// A queue that is empty, with room for all.
    pub(crate) fn new(machine: &Machine, roster: &Roster) -> Queue {
        Queue { threads: VecDeque::with_capacity(roster.len()), affinity: Affinity::new(machine, roster) }
    }

    /// Puts a thread at the tail, and marks the idle CPU with the lowest number among those that it may run on.
    pub(crate) fn push(&mut self, thread: ThreadId, marks: &mut Marks) {
        self.threads.push_back(thread);
        if let Some(cpu) = marks.first_idle_among(self.affinity.of(thread)) {
            marks.mark(cpu);
        }
    }

    /// Takes the first thread that may run on a CPU.
    pub(crate) fn pop(&mut self, cpu: CpuId) -> Option<ThreadId> {
        if self.affinity.is_unrestricted() {
            return self.threads.pop_front();
        }
        let place = self.threads.iter().position(|&thread| self.affinity.is_allowed(thread, cpu))?;
        self.threads.remove(place)
    }

    /// Whether a thread waits that may run on a CPU.
    pub(crate) fn has_one_for(&self, cpu: CpuId) -> bool {
        self.threads.iter().any(|&thread| self.affinity.is_allowed(thread, cpu))
    }

    pub(crate) fn len(&self) -> usize {
        self.threads.len()
    }
}
