//! First in, first out: the real-time policy `SCHED_FIFO`, with all threads at one static priority.
//!
//! Source: POSIX.1-2017, System Interfaces, 2.8.4 (Process Scheduling), "SCHED_FIFO"; sched(7) of
//! the Linux man-pages agrees. A priority has a list of threads, ordered by how long they have been
//! in it. A thread that becomes ready goes to the tail. A running thread continues until it blocks,
//! ends, or yields, which puts it at the tail. There is no quantum. Only a higher priority
//! preempts, and here there is none. `nice` has no effect on real-time threads. A CPU skips threads
//! that are bound to other CPUs.
//!
//! Deviations: POSIX does not specify what several CPUs do with the list. Linux has a list for each
//! CPU and priority, and moves threads between them so that the highest priorities run
//! (`push_rt_task`, `pull_rt_task` in `kernel/sched/rt.c`). With one priority for all, it leaves
//! threads where they are, and a CPU may be idle while another one has a queue. Here there is one
//! list for all CPUs, and a woken thread starts on the idle CPU with the lowest number. Linux also
//! reserves 5 % of the time for other threads (`sched_rt_runtime_us`); here there are none.
//!
//! So a thread that computes or spins without end keeps its CPU for ever. If there are as many such
//! threads as CPUs, no other thread runs, and the simulation ends with an error.

use policy::{CpuId, Instant, ThreadId};
use scenario::Machine;

use crate::engine::scheduler::{Marks, Picks, ReadyReason, Scheduler};
use crate::kernels::queue::Queue;
use crate::kernels::roster::Roster;

/// The scheduler; see the module.
#[derive(Clone, Debug)]
pub struct Fifo {
    queue: Queue,
    /// Whether the thread of each CPU has yielded.
    has_yielded: Vec<bool>,
}

impl Fifo {
    /// The scheduler of a machine for these threads.
    pub fn new(machine: &Machine, roster: &Roster) -> Fifo {
        Fifo { queue: Queue::new(machine, roster), has_yielded: vec![false; machine.cpus as usize] }
    }
}

impl Scheduler for Fifo {
    fn ready(&mut self, thread: ThreadId, _: ReadyReason, _: Instant, marks: &mut Marks) {
        self.queue.push(thread, marks);
    }

    fn pick(&mut self, cpu: CpuId, current: Option<ThreadId>, _: Instant) -> Option<ThreadId> {
        let has_yielded = std::mem::take(&mut self.has_yielded[cpu.index()]);
        match current {
            Some(current) if !has_yielded => Some(current),
            _ => self.queue.pop(cpu).or(current),
        }
    }

    fn leave(&mut self, _: CpuId, _: ThreadId, _: Instant) {}

    fn note_yield(&mut self, cpu: CpuId, _: ThreadId, _: Instant) {
        self.has_yielded[cpu.index()] = true;
    }

    fn alarm(&mut self, _: CpuId, _: Instant) -> Instant {
        Instant::from_nanos(u64::MAX)
    }

    fn alarmed(&mut self, _: CpuId, _: Instant, _: &Marks) -> Picks {
        Picks::default()
    }

    fn has_work_for(&self, cpu: CpuId, _: Instant) -> bool {
        self.queue.has_one_for(cpu)
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }
}
