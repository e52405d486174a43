//! Invariants that hold after every event, for every scheduler and every rule. Debug builds check
//! them.

use policy::{Instant, Span, ThreadId};

use super::Engine;
use super::observer::CpuState;
use super::scheduler::Scheduler;
use super::threads::{Activity, Place, Thread};
use crate::workloads::fibers::Fibers;
use crate::workloads::pipeline::Pipeline;

impl<S: Scheduler, R, W: ?Sized> Engine<'_, S, R, W> {
    /// Panics if an invariant does not hold. That is a defect of the engine or of a scheduler,
    /// never of the input.
    pub(super) fn check(&self) {
        self.check_places();
        for (cpu, state) in crate::cpu_ids(self.cpus.len()).zip(&self.cpus) {
            let idles = state.state == CpuState::Idle && self.scheduler.has_work_for(cpu);
            assert!(!idles, "CPU {cpu} is idle at {} although it has a thread to run", self.now);
        }
        let not_yet_charged: Span = self.cpus.iter().map(|cpu| self.now.since(cpu.charged)).sum();
        let elapsed = self.now.since(Instant::ZERO).scaled(1000 * self.cpus.len() as u64);
        assert_eq!(self.time.total() + not_yet_charged, elapsed, "time of all CPUs at {}", self.now);
        let threads = &self.workload.threads;
        let cells = self.machine.cells.map_or(1, |cells| cells.cells() as usize);
        let count = |counted: &[Thread], counts: fn(Place) -> bool| {
            let mut of_cells = vec![0; cells];
            counted.iter().filter(|of| counts(of.place)).for_each(|of| of_cells[of.cell().index()] += 1);
            of_cells
        };
        let runnable = count(threads, |place| !place.is_away());
        for job in self.workload.jobs.there() {
            let blocked = count(&threads[job.threads.clone()], |place| place == Place::Blocked);
            for seen_by in job.threads.clone().take(job.cells()) {
                let (cell, load) = (threads[seen_by].cell().index(), self.workload.load(ThreadId(seen_by as u32)));
                assert_eq!(load as usize, runnable[cell] + blocked[cell], "load at {}", self.now);
            }
            job.lock.check(|thread| self.workload.spins_on(thread).is_some());
            job.pipeline.iter().for_each(Pipeline::check);
            job.fibers.iter().for_each(Fibers::check);
            for thread in job.threads.clone().map(|thread| ThreadId(thread as u32)) {
                let waits =
                    threads[thread.index()].activity == Activity::Block || self.workload.spins_on(thread).is_some();
                assert!(!(waits && self.workload.has_messages(thread)), "rank {thread} waits for messages that it has");
            }
        }
    }

    /// Every thread is in one place.
    fn check_places(&self) {
        let mut on_cpus = 0;
        for (cpu, state) in crate::cpu_ids(self.cpus.len()).zip(&self.cpus) {
            let holds = match state.state {
                CpuState::Idle => [None, None],
                CpuState::Running(thread) => [Some((thread, Place::Running(cpu))), None],
                CpuState::Switching { from, to } => [
                    from.map(|(thread, _)| (thread, Place::SwitchingOut(cpu))),
                    to.map(|thread| (thread, Place::SwitchingIn(cpu))),
                ],
            };
            for (thread, place) in holds.into_iter().flatten() {
                assert_eq!(self.workload.threads[thread.index()].place, place, "thread {thread} at {}", self.now);
                on_cpus += 1;
            }
        }
        for (number, thread) in self.workload.threads.iter().enumerate() {
            let may_be_there = match thread.place {
                Place::Ready => !thread.is_stopped,
                Place::Running(cpu) => !thread.may_not_run() && self.cell_of(cpu) == thread.cell(),
                Place::Stopped => thread.is_stopped,
                // A switch that has begun comes to its end.
                Place::SwitchingIn(_) | Place::SwitchingOut(_) | Place::Blocked | Place::Gone => true,
            };
            assert!(may_be_there, "thread {number} at {}: {thread:?}", self.now);
        }
        let count = |wanted: fn(Place) -> bool| self.workload.threads.iter().filter(|of| wanted(of.place)).count();
        let claim = count(|place| !place.is_away() && place != Place::Ready);
        assert_eq!(claim, on_cpus, "threads that are on a CPU, and threads that CPUs have, at {}", self.now);
        let (ready, queued) = (count(|place| place == Place::Ready), self.scheduler.waiting());
        assert_eq!(queued, ready, "threads in the scheduler's queues, and ready ones, at {}", self.now);
    }
}
