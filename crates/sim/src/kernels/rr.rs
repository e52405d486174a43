//! Round robin, and first in, first out, which is round robin without a quantum: one queue for all
//! CPUs.
//!
//! **Round robin.** Source: Tsafrir and Feitelson, section 3 (simulations under RR scheduling). A
//! quantum is fresh at each dispatch and does not cover the switch. At its end the CPU takes the
//! head of the queue, and the thread that ran goes to the tail when its switch is over. If no
//! thread waits, it continues without a switch, with a fresh quantum. Woken threads go to the tail.
//! They preempt no thread, and no thread has its own CPU. `sched_yield` ends the quantum.
//!
//! Choices that the source leaves open: a woken thread starts on the idle CPU with the lowest
//! number. A CPU skips threads that are bound to other CPUs.
//!
//! **First in, first out** is the real-time policy `SCHED_FIFO`, with all threads at one static
//! priority. Source: POSIX.1-2017, System Interfaces, 2.8.4 (Process Scheduling), "SCHED_FIFO";
//! sched(7) of the Linux man-pages agrees. A priority has a list of threads, ordered by how long
//! they have been in it. A thread that becomes ready goes to the tail. A running thread continues
//! until it blocks, ends, or yields, which puts it at the tail. Only a higher priority preempts,
//! and here there is none. `nice` has no effect on real-time threads.
//!
//! Deviations from `SCHED_FIFO`: POSIX does not specify what several CPUs do with the list. Linux
//! has a list for each CPU and priority, and moves threads between them so that the highest
//! priorities run (`push_rt_task`, `pull_rt_task` in `kernel/sched/rt.c`). With one priority for
//! all, it does not move threads, and a CPU may be idle while another one has a queue. Here there
//! is one list for all CPUs. Linux also reserves 5 % of the time for other threads
//! (`sched_rt_runtime_us`); here there are none. So a thread that computes or spins without end
//! keeps its CPU forever. If there are as many such threads as CPUs, no other thread runs, and the
//! simulation ends with an error.

use std::collections::VecDeque;

use policy::{CpuId, Instant, Span, ThreadId};
use scenario::Machine;

use crate::engine::scheduler::{Marks, Picks, ReadyReason, Scheduler};
use crate::kernels::affinity::Affinity;
use crate::kernels::roster::Roster;

#[derive(Clone, Debug)]
pub(crate) struct RoundRobin {
    /// [`Span::MAX`] for first in, first out.
    quantum: Span,
    /// The ready threads, in the order in which they became ready.
    queue: VecDeque<ThreadId>,
    affinity: Affinity,
}

impl RoundRobin {
    pub(crate) fn new(quantum: Span, machine: &Machine, roster: &Roster) -> RoundRobin {
        let queue = VecDeque::with_capacity(roster.len());
        RoundRobin { quantum, queue, affinity: Affinity::new(machine, roster) }
    }

    /// The place in the queue of the first thread that may run on a CPU.
    fn first_for(&self, cpu: CpuId) -> Option<usize> {
        self.queue.iter().position(|&thread| self.affinity.is_allowed(thread, cpu))
    }
}

impl Scheduler for RoundRobin {
    fn ready(&mut self, thread: ThreadId, _: ReadyReason, _: Instant, marks: &mut Marks) {
        self.queue.push_back(thread);
        if let Some(cpu) = marks.first_idle(self.affinity.of(thread)) {
            marks.mark(cpu);
        }
    }

    fn pick(&mut self, cpu: CpuId, current: Option<ThreadId>, _: Instant) -> Option<ThreadId> {
        self.first_for(cpu).and_then(|place| self.queue.remove(place)).or(current)
    }

    fn leave(&mut self, _: CpuId, _: ThreadId, _: Instant) {}

    fn dequeue(&mut self, thread: ThreadId, _: Instant) {
        self.queue.retain(|&other| other != thread);
    }

    fn note_yield(&mut self, _: CpuId, _: ThreadId, _: Instant) {}

    fn alarm(&mut self, _: CpuId, now: Instant) -> Instant {
        now + self.quantum
    }

    fn alarmed(&mut self, _: CpuId, _: Instant, _: &mut Marks) -> Picks {
        Picks { this_cpu: true, ..Picks::default() }
    }

    fn has_work_for(&self, cpu: CpuId) -> bool {
        self.first_for(cpu).is_some()
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }
}
