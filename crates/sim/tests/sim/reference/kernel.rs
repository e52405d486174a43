//! What the machine asks of a scheduler.

use rowlock_sim::scheduler::ReadyReason;

use crate::reference::world::{Cpu, Thread, World};

/// Who schedules.
pub(crate) struct Picks {
    /// An idle CPU, which does so first.
    pub(crate) first: Option<Cpu>,
    pub(crate) this_cpu: bool,
}

pub(crate) trait Kernel {
    /// One step has passed, in which every CPU did what the world still shows.
    fn step_passes(&mut self, world: &World);

    /// These threads have become ready, in this order, by one event.
    fn ready(&mut self, world: &World, threads: &[Thread], why: ReadyReason);

    /// Chooses whom `cpu` runs: `previous`, which it runs and which could go on, or one that is ready, or nobody.
    fn schedule(&mut self, world: &World, cpu: Cpu, previous: Option<Thread>) -> Option<Thread>;

    /// `thread`, which ran on `cpu`, has blocked or ended.
    fn leaves(&mut self, world: &World, cpu: Cpu, thread: Thread);

    /// The switch of `cpu` is over.
    fn switch_ends(&mut self, world: &World, cpu: Cpu);

    /// Whether the scheduler has to look at `cpu`, which runs a thread, because of the time that has passed: that thread has
    /// used up what it was given, or the timer interrupts.
    fn time_is_up(&self, world: &World, cpu: Cpu) -> bool;

    /// Looks at `cpu`, whose time is up.
    fn when_time_is_up(&mut self, _world: &World, _cpu: Cpu) -> Picks {
        Picks { first: None, this_cpu: true }
    }

    /// Whether `cpu`, which is not switching, has to schedule because of what became ready.
    fn has_to_schedule(&self, world: &World, cpu: Cpu) -> bool;
}
