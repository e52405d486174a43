//! The kernels of a machine with cells: one for each, which knows the threads of its cell and its
//! own CPUs, and nothing of the others.
//!
//! A kernel numbers its CPUs and threads from zero. It has as many entries for each job as
//! [threads of it can be on the cell](scenario::Coscheduling::places_on_a_cell), those that have
//! not left yet included. Each thread that comes takes an entry that is free.

use std::ops::Range;

use policy::{CellId, CpuId, Instant, JobId, Span, ThreadId};
use scenario::{Machine, Setting};

use crate::engine::cells::{cells_of_job, tick_phases};
use crate::engine::coscheduling::rules;
use crate::engine::scheduler::{Marks, Picks, Push, ReadyReason, Scheduler};
use crate::kernels::roster::Roster;

/// A thread as the kernel of its cell knows it.
#[derive(Clone, Copy, Debug)]
struct Entry {
    cell: CellId,
    /// Its number there.
    thread: ThreadId,
    /// Whether it has not been ready there.
    is_new: bool,
}

pub(crate) struct Cells {
    kernels: Vec<Box<dyn Scheduler>>,
    /// How far the clock of each kernel is ahead.
    phases: Vec<Span>,
    /// The number of CPUs of each cell.
    cpus: u32,
    /// The entry of each thread, once it is placed.
    entries: Vec<Option<Entry>>,
    /// The threads of each kernel, by their numbers there.
    threads: Vec<Vec<Option<ThreadId>>>,
    /// The numbers that the threads of each job can have in a kernel.
    jobs: Vec<Range<usize>>,
    job_of: Vec<u32>,
}

impl Cells {
    /// The kernels of a machine, each created by `kernel` for the threads that it may have.
    pub(crate) fn new(
        machine: &Machine,
        setting: &Setting,
        seed: u64,
        roster: &Roster,
        kernel: impl Fn(&Roster) -> Box<dyn Scheduler>,
    ) -> Cells {
        let cells = machine.cells.map_or(1, policy::layout::Mesh::cells);
        let rules = rules(setting);
        let mut of_cell = Roster::default();
        for job in roster.jobs() {
            let threads = job.threads.len() as u32;
            let entries = rules.places_on_a_cell(threads, cells_of_job(threads, cells), machine.cpus);
            of_cell.enter(entries, job.attributes.clone(), job.shares_memory);
        }
        Cells {
            kernels: (0..cells).map(|_| kernel(&of_cell)).collect(),
            phases: tick_phases(machine, seed).take(cells as usize).collect(),
            cpus: machine.cpus,
            entries: vec![None; roster.len()],
            threads: vec![vec![None; of_cell.len()]; cells as usize],
            jobs: of_cell.jobs().iter().map(|job| job.threads.clone()).collect(),
            job_of: (0..roster.len() as u32).map(|thread| roster.job_of(ThreadId(thread)) as u32).collect(),
        }
    }

    /// The time on the clock of a kernel.
    fn clock(&self, cell: CellId, now: Instant) -> Instant {
        now + self.phases[cell.index()]
    }

    /// The cell of a CPU, and the CPU's number there.
    fn split(&self, cpu: CpuId) -> (CellId, CpuId) {
        (CellId(cpu.0 / self.cpus), CpuId(cpu.0 % self.cpus))
    }

    /// The kernel of a CPU, and the numbers there of the CPU and of its thread.
    fn of(&mut self, cpu: CpuId, thread: ThreadId) -> (&mut dyn Scheduler, CpuId, ThreadId) {
        let (cell, cpu) = self.split(cpu);
        (&mut *self.kernels[cell.index()], cpu, self.entries[thread.index()].map_or(thread, |entry| entry.thread))
    }

    /// Asks the kernel of a cell, which sees the marks of its CPUs.
    fn ask<T>(
        &mut self,
        cell: CellId,
        marks: &mut Marks,
        question: impl FnOnce(&mut dyn Scheduler, &mut Marks) -> T,
    ) -> T {
        let first = cell.0 * self.cpus;
        let kernel = &mut *self.kernels[cell.index()];
        marks.within(first..first + self.cpus, |marks| question(kernel, marks))
    }
}

impl Scheduler for Cells {
    fn looks_when_idle(&self) -> bool {
        self.kernels[0].looks_when_idle()
    }

    fn can_starve(&self) -> bool {
        self.kernels[0].can_starve()
    }

    fn moves(&self) -> bool {
        self.kernels[0].moves()
    }

    fn ready(&mut self, thread: ThreadId, why: ReadyReason, now: Instant, marks: &mut Marks) {
        let Some(entry) = &mut self.entries[thread.index()] else { return };
        let why = match why {
            _ if std::mem::take(&mut entry.is_new) => ReadyReason::New,
            ReadyReason::Moved(to) => ReadyReason::Moved(CpuId(to.0 % self.cpus)),
            why => why,
        };
        let Entry { cell, thread, .. } = *entry;
        let local = self.clock(cell, now);
        self.ask(cell, marks, |kernel, marks| kernel.ready(thread, why, local, marks));
    }

    fn woken(&mut self, threads: &[ThreadId], now: Instant, marks: &mut Marks) {
        let (mut new, mut known) = (Vec::new(), Vec::new());
        for &thread in threads {
            match self.entries[thread.index()] {
                Some(entry) if !entry.is_new => known.push((entry.cell, entry.thread)),
                _ => new.push(thread),
            }
        }
        // Those of a cell stay in their order.
        known.sort_by_key(|&(cell, _)| cell);
        for woken in known.chunk_by(|one, other| one.0 == other.0) {
            let threads: Vec<ThreadId> = woken.iter().map(|&(_, thread)| thread).collect();
            let local = self.clock(woken[0].0, now);
            self.ask(woken[0].0, marks, |kernel, marks| kernel.woken(&threads, local, marks));
        }
        for thread in new {
            self.ready(thread, ReadyReason::Woken, now, marks);
        }
    }

    fn pick(&mut self, cpu: CpuId, current: Option<ThreadId>, now: Instant) -> Option<ThreadId> {
        let current = current.and_then(|thread| self.entries[thread.index()]).map(|entry| entry.thread);
        let (cell, cpu) = self.split(cpu);
        let local = self.clock(cell, now);
        let next = self.kernels[cell.index()].pick(cpu, current, local)?;
        self.threads[cell.index()][next.index()]
    }

    fn leave(&mut self, cpu: CpuId, thread: ThreadId, now: Instant) {
        let now = self.clock(self.split(cpu).0, now);
        let (kernel, cpu, thread) = self.of(cpu, thread);
        kernel.leave(cpu, thread, now);
    }

    fn block(&mut self, cpu: CpuId, thread: ThreadId, now: Instant) {
        let now = self.clock(self.split(cpu).0, now);
        let (kernel, cpu, thread) = self.of(cpu, thread);
        kernel.block(cpu, thread, now);
    }

    fn dequeue(&mut self, thread: ThreadId, now: Instant) {
        if let Some(Entry { cell, thread, .. }) = self.entries[thread.index()] {
            let now = self.clock(cell, now);
            self.kernels[cell.index()].dequeue(thread, now);
        }
    }

    fn note_yield(&mut self, cpu: CpuId, thread: ThreadId, now: Instant) {
        let now = self.clock(self.split(cpu).0, now);
        let (kernel, cpu, thread) = self.of(cpu, thread);
        kernel.note_yield(cpu, thread, now);
    }

    fn alarm(&mut self, cpu: CpuId, now: Instant) -> Instant {
        let (cell, cpu) = self.split(cpu);
        let now = self.clock(cell, now);
        let at = self.kernels[cell.index()].alarm(cpu, now);
        Instant::ZERO + at.since(Instant::ZERO + self.phases[cell.index()])
    }

    fn alarmed(&mut self, cpu: CpuId, now: Instant, marks: &mut Marks) -> Picks {
        let (cell, cpu) = self.split(cpu);
        let now = self.clock(cell, now);
        let picks = self.ask(cell, marks, |kernel, marks| kernel.alarmed(cpu, now, marks));
        let on_machine = |cpu: CpuId| CpuId(cell.0 * self.cpus + cpu.0);
        let push = picks.push.map(|Push { from, to }| Push { from: on_machine(from), to: on_machine(to) });
        Picks { another: picks.another.map(on_machine), push, ..picks }
    }

    fn has_work_for(&self, cpu: CpuId) -> bool {
        let (cell, cpu) = self.split(cpu);
        self.kernels[cell.index()].has_work_for(cpu)
    }

    fn set_nice(&mut self, thread: ThreadId, nice: i8, now: Instant, marks: &mut Marks) {
        // A thread that is not placed gets its nice value when it is.
        if let Some(Entry { cell, thread, .. }) = self.entries[thread.index()] {
            let now = self.clock(cell, now);
            self.ask(cell, marks, |kernel, marks| kernel.set_nice(thread, nice, now, marks));
        }
    }

    fn set_group_weight(&mut self, cell: CellId, job: JobId, weight: u32, now: Instant, marks: &mut Marks) {
        let now = self.clock(cell, now);
        self.ask(cell, marks, |kernel, marks| kernel.set_group_weight(cell, job, weight, now, marks));
    }

    fn place(&mut self, thread: ThreadId, cell: CellId, now: Instant) {
        let before = self.entries[thread.index()];
        if before.is_some_and(|before| before.cell == cell) {
            return;
        }
        let mut numbers = self.jobs[self.job_of[thread.index()] as usize].clone();
        let free = numbers.find(|&number| self.threads[cell.index()][number].is_none());
        debug_assert!(free.is_some(), "thread {thread} finds no entry on cell {cell}");
        let Some(number) = free else { return };
        if let Some(before) = before {
            let now = self.clock(before.cell, now);
            self.kernels[before.cell.index()].dequeue(before.thread, now);
            self.threads[before.cell.index()][before.thread.index()] = None;
        }
        self.kernels[cell.index()].forget(ThreadId(number as u32));
        self.threads[cell.index()][number] = Some(thread);
        self.entries[thread.index()] = Some(Entry { cell, thread: ThreadId(number as u32), is_new: true });
    }

    fn waiting(&self) -> usize {
        self.kernels.iter().map(|kernel| kernel.waiting()).sum()
    }
}

#[cfg(test)]
mod tests {
    use policy::layout::{Mesh, Shape};
    use policy::slices::Movement;
    use scenario::{Coscheduling, Job, JobKind, MachineKeys};

    use super::*;
    use crate::kernel;

    /// Two jobs of one thread each on two cells of one CPU, if jobs move.
    fn cells(scheduler: scenario::Scheduler) -> (Cells, Marks) {
        let machine = Machine {
            cells: Mesh::new(Shape { columns: 2, rows: 1 }),
            scheduler,
            tick: Span::from_millis(1),
            ..Machine::with_cpus(1)
        };
        let jobs = vec![Job::new("job", 2, JobKind::Cpu { threads: 1, work: None })];
        let rules = Coscheduling { movement: Movement::WithinNode, ..Coscheduling::default() };
        let setting = Setting { machine: MachineKeys::default(), jobs, coscheduling: Some(rules), keep_running: false };
        let roster = Roster::new(&setting, 1);
        (Cells::new(&machine, &setting, 1, &roster, |of_cell| kernel(&machine, of_cell, 1)), Marks::new(2))
    }

    #[test]
    fn a_thread_that_moves_is_a_new_one_in_its_new_kernel() {
        let [moved, other] = [ThreadId(0), ThreadId(1)];
        let at = |ms| Instant::ZERO + Span::from_millis(ms);
        for scheduler in [scenario::Scheduler::LinuxO1, scenario::Scheduler::Eevdf] {
            // The threads that run next to each other after one of them has moved there and back.
            let order = |has_run: bool| {
                let (mut of, mut marks) = cells(scheduler);
                of.place(moved, CellId(0), at(0));
                of.place(other, CellId(0), at(0));
                if has_run {
                    of.ready(moved, ReadyReason::New, at(0), &mut marks);
                    of.pick(CpuId(0), None, at(0)).unwrap();
                    of.ready(other, ReadyReason::New, at(0), &mut marks);
                    for tick in 1..1_900 {
                        of.alarm(CpuId(0), at(tick - 1));
                        of.alarmed(CpuId(0), at(tick), &mut marks);
                    }
                    of.leave(CpuId(0), moved, at(1_900));
                    of.dequeue(other, at(1_900));
                    assert_eq!(of.pick(CpuId(0), None, at(1_900)), None);
                }
                for cell in [1, 0].map(CellId) {
                    [moved, other].into_iter().for_each(|thread| of.place(thread, cell, at(1_900)));
                }
                for thread in [other, moved] {
                    of.ready(thread, ReadyReason::New, at(1_900), &mut marks);
                }
                let (mut ran, mut current) = (String::new(), None);
                for tick in 1_900..1_999 {
                    let before = current;
                    of.alarmed(CpuId(0), at(tick), &mut marks);
                    current = of.pick(CpuId(0), before, at(tick));
                    of.alarm(CpuId(0), at(tick));
                    ran += &current.unwrap().to_string();
                    if let Some(preempted) = before.filter(|_| before != current) {
                        of.ready(preempted, ReadyReason::Preempted, at(tick), &mut marks);
                    }
                }
                ran
            };
            assert_eq!(order(true), order(false), "{scheduler}");
        }
    }
}
