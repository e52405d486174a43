//! The interface to a scheduler.

use rowlock_sim::scheduler::ReadyReason;

use crate::reference::world::{Cpu, Thread, World};

/// The CPUs that should schedule.
pub(crate) struct Picks {
    /// An idle CPU, which schedules first.
    pub(crate) first: Option<Cpu>,
    pub(crate) this_cpu: bool,
    /// The CPU whose running thread moves, and where to.
    pub(crate) push: Option<(Cpu, Cpu)>,
}

pub(crate) trait Kernel {
    /// One step has passed, in which every CPU did what the world still shows.
    fn pass_step(&mut self, world: &World);

    /// One event has made these threads ready, in this order.
    fn ready(&mut self, world: &World, threads: &[Thread], why: ReadyReason);

    /// Chooses the thread that `cpu` runs: `previous`, which it runs and which could continue, one
    /// that is ready, or none.
    fn schedule(&mut self, world: &World, cpu: Cpu, previous: Option<Thread>) -> Option<Thread>;

    /// `thread`, which ran on `cpu`, has blocked or ended.
    fn leave(&mut self, world: &World, cpu: Cpu, thread: Thread);

    /// The switch of `cpu` is over.
    fn end_switch(&mut self, world: &World, cpu: Cpu);

    /// Whether the scheduler has to look at `cpu`, which runs a thread, because of the time that
    /// has passed: the thread has used up its time, or the timer interrupts.
    fn time_is_up(&self, world: &World, cpu: Cpu) -> bool;

    /// Looks at `cpu`, whose time is up.
    fn when_time_is_up(&mut self, _world: &World, _cpu: Cpu) -> Picks {
        Picks { first: None, this_cpu: true, push: None }
    }

    /// Whether `cpu`, which is not switching, has to schedule because of the threads that became
    /// ready.
    fn has_to_schedule(&self, world: &World, cpu: Cpu) -> bool;
}
