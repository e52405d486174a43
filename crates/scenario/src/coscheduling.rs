//! How jobs share the cells of a machine.

use policy::Span;
use policy::gang::{Gang, Lowering};
use policy::layout::Partitioner;
use policy::slices::Movement;

named_enum! {
    /// The moment at which a cell looks whose turn it is.
    #[derive(Default)]
    pub enum Reschedule {
        /// A timer interrupts it at each boundary.
        #[default]
        Boundary = "boundary",
        /// The first tick of its timer after a boundary. The ticks of cells are not synchronised.
        Tick = "tick",
        /// The next time that its scheduler chooses a thread.
        Choice = "choice",
    }
}

/// The `[coscheduling]` table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coscheduling {
    /// The scheduling of jobs that are not active.
    pub how: Gang,
    /// How long a slice is active.
    pub slice: Span,
    /// How a job finds its cells.
    pub partition: Partitioner,
    /// Whether a job may have other cells in another slice.
    pub movement: Movement,
    /// The most slices, at least one; `None` if there is no limit. Jobs that would need more wait.
    pub most_slices: Option<u32>,
    /// How a job that is not active is lowered.
    pub lower: Lowering,
    /// The standard deviation of the clocks of the cells.
    pub clock_skew: Span,
    /// When a cell looks whose turn it is.
    pub reschedule: Reschedule,
    /// The time that the server takes to create a job. It creates one after another.
    pub create: Span,
    /// The time that each rank computes before its work: loading and linking its program.
    pub start: Span,
    /// The time that a cell takes to switch to the next job, besides the context switch, and for
    /// each job that it has.
    pub switch_cost: Span,
    /// See [`switch_cost`](Coscheduling::switch_cost).
    pub switch_cost_per_job: Span,
}

impl Coscheduling {
    /// How many threads of a job the kernel of a cell must have room for, if the job is on so many
    /// `cells`, of so many `cpus` each. If jobs move, some threads come before others leave, and a
    /// thread leaves when the CPU that runs it, or switches to or away from it, has left it.
    pub fn places_on_a_cell(&self, threads: u32, cells: u32, cpus: u32) -> u32 {
        let stay = threads.div_ceil(cells.max(1));
        match self.movement {
            Movement::Never => stay,
            Movement::WithinNode => stay.saturating_add(cpus).saturating_mul(2).min(threads),
        }
    }
}

impl Default for Coscheduling {
    fn default() -> Coscheduling {
        Coscheduling {
            how: Gang::default(),
            slice: Span::from_millis(50),
            partition: Partitioner::default(),
            movement: Movement::default(),
            most_slices: None,
            lower: Lowering::default(),
            clock_skew: Span::ZERO,
            reschedule: Reschedule::default(),
            create: Span::ZERO,
            start: Span::ZERO,
            switch_cost: Span::ZERO,
            switch_cost_per_job: Span::ZERO,
        }
    }
}
