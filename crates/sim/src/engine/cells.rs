//! Cells: which threads run where on a machine whose CPUs do not share one kernel.
//!
//! The thread with number `i` of a job runs on cell `i` of its job, modulo the number of its cells.
//! It does not run elsewhere unless it is moved. Then it leaves its CPU or its queue, as if it were
//! stopped, and the kernel of the other cell treats it as a new thread.

use policy::record::Recorder;
use policy::{CellId, CpuId, Span, ThreadId};
use scenario::Machine;
use scenario::draw::Stream;

use super::Engine;
use super::observer::Observer;
use super::scheduler::{ReadyReason, Scheduler};
use super::threads::Place;

/// On how many of so many cells a job has threads. Threads whose numbers differ by a multiple of
/// that are always on the same cell.
pub(crate) fn cells_of_job(threads: u32, cells: u32) -> u32 {
    #[cfg(test)]
    if super::script::are_jobs_on_one_cell() {
        return 1;
    }
    threads.min(cells).max(1)
}

/// How far the clock of the kernel of each cell is ahead: less than a tick. Kernels tick at
/// multiples of the tick on their own clocks, so that their ticks are not synchronised.
pub(crate) fn tick_phases(machine: &Machine, seed: u64) -> impl Iterator<Item = Span> {
    let (tick, step) = (machine.tick.as_nanos(), machine.step);
    let mut stream = Stream::named(seed, "ticks of the cells", 0);
    let phases = std::iter::repeat_with(move || Span::from_nanos(stream.below(tick)).floor_to(step));
    #[cfg(test)]
    let phases = phases.map(|phase| if super::script::are_jobs_on_one_cell() { Span::ZERO } else { phase });
    phases
}

impl<S, R, W: ?Sized> Engine<'_, S, R, W> {
    /// The cell of a CPU.
    pub(super) fn cell_of(&self, cpu: CpuId) -> CellId {
        CellId(if self.machine.cells.is_some() { cpu.0 / self.machine.cpus } else { 0 })
    }
}

impl<S: Scheduler, R: Recorder + Default, W: Observer + ?Sized> Engine<'_, S, R, W> {
    /// The number of a CPU in its cell, and that of the cell's first CPU.
    pub(super) fn number_in_cell(&self, cpu: CpuId) -> (CpuId, u32) {
        let number = if self.machine.cells.is_some() { cpu.0 % self.machine.cpus } else { cpu.0 };
        (CpuId(number), cpu.0 - number)
    }

    /// Moves a thread to another cell, from any place.
    pub(super) fn relocate(&mut self, thread: ThreadId, cell: CellId) {
        let moving = &self.workload.threads[thread.index()];
        if moving.cell() == cell {
            return;
        }
        let place = moving.place;
        self.workload.set_cell(thread, cell);
        match place {
            // It arrives when the switch away from its CPU is over.
            Place::Running(cpu) => {
                self.workload.threads[thread.index()].is_moving = true;
                self.marks.mark(cpu);
            }
            Place::SwitchingIn(_) | Place::SwitchingOut(_) => {
                self.workload.threads[thread.index()].is_moving = true;
            }
            Place::Ready => {
                self.dequeue(thread);
                self.arrive_in_cell(thread);
            }
            Place::Stopped | Place::Blocked | Place::Gone => self.arrive_in_cell(thread),
        }
    }

    /// A thread that is in no queue and on no CPU belongs to the kernel of its new cell.
    pub(super) fn arrive_in_cell(&mut self, thread: ThreadId) {
        let arriving = &mut self.workload.threads[thread.index()];
        arriving.is_moving = false;
        let arriving = *arriving;
        self.scheduler.place(thread, arriving.cell(), self.now);
        self.scheduler.set_nice(thread, self.nice(thread), self.now, &mut self.marks);
        if arriving.place == Place::Stopped && !arriving.is_stopped {
            self.ready(thread, ReadyReason::Woken);
        }
    }
}
