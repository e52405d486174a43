//! Invariants that hold after every event, for every scheduler and every rule. Debug builds check
//! them.

use policy::{Instant, Span, ThreadId};

use super::Engine;
use super::observer::CpuState;
use super::scheduler::Scheduler;
use super::threads::{Activity, Place};
use crate::workloads::fibers::Fibers;
use crate::workloads::pipeline::Pipeline;

impl<S: Scheduler, R, W: ?Sized> Engine<'_, S, R, W> {
    /// Panics if an invariant does not hold. That is a defect of the engine or of a scheduler,
    /// never of the input.
    pub(super) fn check(&self) {
        every_thread_is_in_one_place(self);
        no_cpu_idles_beside_work(self);
        cpu_time_adds_up(self);
        load_is_counted(self);
        workloads_are_in_order(self);
    }
}

fn every_thread_is_in_one_place<S: Scheduler, R, W: ?Sized>(engine: &Engine<'_, S, R, W>) {
    let mut on_cpus = 0;
    for (cpu, state) in crate::cpu_ids(engine.cpus.len()).zip(&engine.cpus) {
        let holds = match state.state {
            CpuState::Idle => [None, None],
            CpuState::Running(thread) => [Some((thread, Place::Running(cpu))), None],
            CpuState::Switching { from, to } => [
                from.map(|(thread, _)| (thread, Place::SwitchingOut(cpu))),
                to.map(|thread| (thread, Place::SwitchingIn(cpu))),
            ],
        };
        for (thread, place) in holds.into_iter().flatten() {
            assert_eq!(engine.workload.threads[thread.index()].place, place, "thread {thread} at {}", engine.now);
            on_cpus += 1;
        }
    }
    let count =
        |wanted: fn(Place) -> bool| engine.workload.threads.iter().filter(|thread| wanted(thread.place)).count();
    let claim = count(|place| matches!(place, Place::Running(_) | Place::SwitchingOut(_) | Place::SwitchingIn(_)));
    assert_eq!(claim, on_cpus, "threads that are on a CPU, and threads that CPUs have, at {}", engine.now);
    let ready = count(|place| place == Place::Ready);
    assert_eq!(
        engine.scheduler.waiting(),
        ready,
        "threads in the scheduler's queues, and ready ones, at {}",
        engine.now
    );
}

fn no_cpu_idles_beside_work<S: Scheduler, R, W: ?Sized>(engine: &Engine<'_, S, R, W>) {
    for (cpu, state) in crate::cpu_ids(engine.cpus.len()).zip(&engine.cpus) {
        let idles = state.state == CpuState::Idle && engine.scheduler.has_work_for(cpu, engine.now);
        assert!(!idles, "CPU {cpu} is idle at {} although it has a thread to run", engine.now);
    }
}

fn cpu_time_adds_up<S: Scheduler, R, W: ?Sized>(engine: &Engine<'_, S, R, W>) {
    let not_yet_charged: Span = engine.cpus.iter().map(|cpu| engine.now.since(cpu.charged)).sum();
    let elapsed = engine.now.since(Instant::ZERO).scaled(1000 * engine.cpus.len() as u64);
    assert_eq!(engine.time.total() + not_yet_charged, elapsed, "time of all CPUs at {}", engine.now);
}

fn load_is_counted<S: Scheduler, R, W: ?Sized>(engine: &Engine<'_, S, R, W>) {
    let is_away = |place| matches!(place, Place::Blocked | Place::Gone);
    for (job, of) in engine.workload.jobs.iter().enumerate() {
        let blocked =
            engine.workload.threads[of.threads.clone()].iter().filter(|thread| thread.place == Place::Blocked);
        let others = engine.workload.threads.iter().filter(|thread| !is_away(thread.place));
        assert_eq!(engine.workload.load(job) as usize, blocked.count() + others.count(), "load at {}", engine.now);
    }
}

fn workloads_are_in_order<S: Scheduler, R, W: ?Sized>(engine: &Engine<'_, S, R, W>) {
    let spins_with_a_cpu = |thread: ThreadId| {
        let thread = &engine.workload.threads[thread.index()];
        matches!((thread.activity, thread.place), (Activity::Spin { .. }, Place::Running(_)))
    };
    engine.workload.jobs.iter().for_each(|job| job.lock.check(spins_with_a_cpu));
    engine.workload.jobs.iter().filter_map(|job| job.pipeline.as_ref()).for_each(Pipeline::check);
    engine.workload.jobs.iter().filter_map(|job| job.fibers.as_ref()).for_each(Fibers::check);
}
