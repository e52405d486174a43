//! One first-in, first-out queue for all CPUs, shared by `fifo` and `rr`.

use std::collections::VecDeque;

use policy::{CpuId, ThreadId};
use scenario::Machine;

use crate::engine::scheduler::Marks;
use crate::kernels::affinity::Affinity;
use crate::kernels::roster::Roster;

/// The ready threads in the order in which they became ready. A CPU takes the first one that may
/// run on it.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    threads: VecDeque<ThreadId>,
    affinity: Affinity,
}

impl Queue {
    /// An empty queue with room for all threads.
    pub(crate) fn new(machine: &Machine, roster: &Roster) -> Queue {
        Queue { threads: VecDeque::with_capacity(roster.len()), affinity: Affinity::new(machine, roster) }
    }

    /// Puts a thread at the tail, and marks the idle CPU with the lowest number among those on
    /// which it may run.
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
