//! First in, first out: the real-time policy `SCHED_FIFO`, all threads at one static priority.
//!
//! Source: POSIX.1-2017, System Interfaces, 2.8.4 (Process Scheduling), "SCHED_FIFO"; sched(7) of the Linux man-pages says the same. A
//! priority has a list of threads, ordered by how long they have been there. Who becomes ready goes to its tail; who runs does so until
//! it blocks, ends, or yields, which puts it at the tail; there is no quantum. Only a higher priority preempts, and here there is none.
//! `nice` means nothing to real-time threads. A thread that is bound to CPUs is passed over by all others.
//!
//! Deviations: POSIX leaves open what several CPUs do with the list. Linux has one for each CPU and each priority, and moves threads
//! between them so that the highest priorities run (`push_rt_task`, `pull_rt_task` in `kernel/sched/rt.c`); with one priority for all
//! it leaves threads where they are, and a CPU idle beside another's queue. Here there is one list for all CPUs, and an awakened thread starts on
//! the idle CPU with the lowest number. Linux also takes 5 % of the time from real-time threads for all others
//! (`sched_rt_runtime_us`); here there are no others.
//!
//! So a thread that computes or spins without end keeps its CPU for ever, and where there are as many of them as CPUs, nobody else runs: the
//! simulation then ends with an error.

use policy::{CpuId, Instant, ThreadId};
use scenario::Machine;

use crate::engine::scheduler::{Marks, Picks, ReadyReason, Scheduler};
use crate::kernels::queue::Queue;
use crate::kernels::roster::Roster;

/// The scheduler; see the module.
#[derive(Clone, Debug)]
pub struct Fifo {
    queue: Queue,
    /// The CPUs whose thread yields.
    yields: Vec<bool>,
}

impl Fifo {
    /// The scheduler of a machine for these threads.
    pub fn new(machine: &Machine, roster: &Roster) -> Fifo {
        Fifo { queue: Queue::new(machine, roster), yields: vec![false; machine.cpus as usize] }
    }
}

impl Scheduler for Fifo {
    fn ready(&mut self, thread: ThreadId, _: ReadyReason, _: Instant, marks: &mut Marks) {
        self.queue.push(thread, marks);
    }

    fn pick(&mut self, cpu: CpuId, current: Option<ThreadId>, _: Instant) -> Option<ThreadId> {
        let yields = std::mem::take(&mut self.yields[cpu.index()]);
        match current {
            Some(current) if !yields => Some(current),
            _ => self.queue.pop(cpu).or(current),
        }
    }

    fn leave(&mut self, _: CpuId, _: ThreadId, _: Instant) {}

    fn note_yield(&mut self, cpu: CpuId, _: ThreadId, _: Instant) {
        self.yields[cpu.index()] = true;
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
