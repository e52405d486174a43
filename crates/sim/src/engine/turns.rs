//! Turns: when a cell looks whose turn it is, and the action that it takes.
//!
//! * **Looks.** Each cell looks at its own clock and applies the action for each of its threads: by
//!   a timer at each boundary, at the first tick after it, or the next time that its scheduler
//!   chooses a thread. Clocks differ by a constant, which is drawn for each cell.
//! * **Cost.** If the active jobs of a cell change, each of its CPUs takes the time of a turn
//!   longer for its next switch, unless the cell has another turn before.
//! * **Delay.** The distance, by the clock of the first cell, from the first boundary on which a
//!   cell has not acted to the moment at which it acts. It ends with the switch if one follows.
//! * **Moving** (`move = "within-node"`): all cells look together, by the clock of the first one,
//!   and threads move when their slice begins.
//! * **`original`**: the boundary is the moment at which the first cell switches to another job.
//!   The other cells follow when they have been told.

use std::collections::BTreeSet;

use policy::gang::{Action, Gang, Lowering};
use policy::record::Recorder;
use policy::{CpuId, Instant, JobId, Span, ThreadId};
use scenario::coscheduling::Reschedule;

use super::Engine;
use super::coscheduling::Coscheduling;
use super::device::TimedEvent;
use super::observer::{CpuState, Observer};
use super::scheduler::Scheduler;
use super::threads::Place;

/// The turns of a cell.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    /// How far its clock is ahead of the first cell's, in nanoseconds.
    pub(super) ahead: i64,
    /// How far the clock of its kernel is ahead.
    phase: Span,
    pub(super) threads: Vec<ThreadId>,
    /// The next boundary on its clock, and the moment of the run at which the cell looks, or from
    /// which on it does when its scheduler chooses.
    boundary: Option<Instant>,
    due: Option<Instant>,
    /// Whether its scheduler chooses a thread, so that it looks although it is busy.
    chooses: bool,
    /// Whether it looks at present, and threads have another action or have moved.
    has_changed: bool,
    /// `dynamic`: the thread that a message has raised.
    preferred: Option<ThreadId>,
}

impl Cell {
    /// A cell without threads whose clock, and that of its kernel, are so far ahead.
    pub(super) fn new(ahead: i64, phase: Span) -> Cell {
        Cell { ahead, phase, ..Cell::default() }
    }

    /// The moment of the run at which its clock shows this time.
    fn moment(&self, time: Instant) -> Instant {
        Instant::from_nanos(time.as_nanos().saturating_add_signed(-self.ahead))
    }
}

/// Sums of the delays of all turns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delays {
    count: u64,
    sum: u128,
    squares: u128,
}

impl Delays {
    fn add(&mut self, delay: Span) {
        let nanos = u128::from(delay.as_nanos());
        (self.count, self.sum, self.squares) = (self.count + 1, self.sum + nanos, self.squares + nanos * nanos);
    }

    /// Mean and standard deviation.
    pub(super) fn moments(&self) -> Option<(Span, Span)> {
        let count = u128::from(self.count);
        let mean = self.sum.checked_div(count)?;
        let variance = (self.squares / count).saturating_sub(mean * mean);
        Some((Span::from_nanos(mean as u64), Span::from_nanos(variance.isqrt() as u64)))
    }
}

impl<S: Scheduler, R: Recorder + Default, W: Observer + ?Sized> Engine<'_, S, R, W> {
    /// All cells look at once.
    pub(super) fn let_all_cells_look(&mut self) {
        let has_turns = |of: &&Coscheduling| of.rules.how.has_turns();
        let cells = self.coscheduling.as_ref().filter(has_turns).map_or(0, |of| of.cells.len());
        (0..cells).for_each(|cell| self.apply_actions(cell));
        (0..cells).for_each(|cell| self.finish_look(cell, None));
    }

    /// The moment of a planned look.
    pub(super) fn look_if_due(&mut self, cell: usize) {
        let Some(of) = &self.coscheduling else { return };
        let (due, chooses) = (of.cells[cell].due, of.cells[cell].chooses);
        // A busy cell waits until its scheduler chooses. An idle one has no thread to wait for.
        let waits = of.rules.reschedule == Reschedule::Choice && !chooses && !self.is_idle(cell);
        if due != Some(self.now) || waits {
            return;
        }
        if of.moves() {
            self.let_all_cells_look();
        } else {
            self.look_at_turn(cell, None);
        }
    }

    /// Whether a CPU of a cell is idle.
    fn is_idle(&self, cell: usize) -> bool {
        let cpus = self.machine.cpus as usize;
        self.cpus[cell * cpus..(cell + 1) * cpus].iter().any(|cpu| cpu.state == CpuState::Idle)
    }

    /// A cell looks whose turn it is.
    fn look_at_turn(&mut self, cell: usize, told: Option<Instant>) {
        self.apply_actions(cell);
        self.finish_look(cell, told);
    }

    /// Applies the action for each thread of a cell.
    fn apply_actions(&mut self, cell: usize) {
        let now = self.now;
        let Some(of) = &mut self.coscheduling else { return };
        let clock = of.clock_of_turns(cell, now);
        let threads = std::mem::take(&mut of.cells[cell].threads);
        for &thread in &threads {
            self.apply_action(thread, cell, clock);
        }
        let Some(of) = &mut self.coscheduling else { return };
        let stay = threads.into_iter().filter(|thread| self.workload.threads[thread.index()].cell().index() == cell);
        of.cells[cell].threads.extend(stay);
    }

    /// Notes the turn if there was a boundary, and plans the next look. The boundary is the first
    /// one on the clock of the cell on which it has not acted, unless it was told of one.
    fn finish_look(&mut self, cell: usize, told: Option<Instant>) {
        let now = self.now;
        let Some(of) = &mut self.coscheduling else { return };
        let clock = of.clock_of_turns(cell, now);
        let has_changed = std::mem::take(&mut of.cells[cell].has_changed);
        let boundary = of.cells[cell].boundary.take_if(|boundary| *boundary <= clock);
        if let Some(boundary) = told.or(boundary) {
            self.note_turn(cell, boundary, has_changed);
        }
        if cell == 0 {
            self.note_use_of_turns(clock, boundary.is_some());
        }
        self.plan_look(cell, clock);
    }

    /// A cell has acted on a boundary.
    fn note_turn(&mut self, cell: usize, boundary: Instant, has_changed: bool) {
        let cost = if has_changed { self.cost_of_turn(cell) } else { Span::ZERO };
        let cpus = cell * self.machine.cpus as usize..(cell + 1) * self.machine.cpus as usize;
        let now = self.now;
        let Some(of) = &mut self.coscheduling else { return };
        of.turn_costs[cpus.clone()].fill(cost);
        if has_changed {
            let leaves = |thread: ThreadId| {
                of.actions[thread.index()] != Action::Run || self.workload.threads[thread.index()].may_not_run()
            };
            let mut cpus = self.cpus[cpus].iter();
            let switches = cpus.any(|cpu| matches!(cpu.state, CpuState::Running(thread) if leaves(thread)));
            let end = if switches { now + cost } else { now };
            of.turns += 1;
            of.delays.add(end.since(boundary).max(boundary.since(end)));
        }
    }

    /// Applies the action for a thread on a cell.
    fn apply_action(&mut self, thread: ThreadId, cell: usize, clock: Instant) {
        let job = JobId(self.workload.threads[thread.index()].job() as u32);
        let Some(of) = &mut self.coscheduling else { return };
        let decides_itself = of.rules.how == Gang::Original && cell == 0;
        let action = if decides_itself { Action::Run } else { of.decisions.action(job, clock) };
        if action == Action::Run && of.moves() {
            self.move_thread(thread, cell, clock);
        }
        let Some(of) = &mut self.coscheduling else { return };
        if std::mem::replace(&mut of.actions[thread.index()], action) == action {
            return;
        }
        of.cells[cell].has_changed = true;
        match (action, of.rules.lower) {
            (Action::Stop, _) => self.stop(thread),
            (Action::Run, Lowering::Weight(_)) => self.set_weight(thread, Lowering::NORMAL_WEIGHT),
            (Action::Lower, Lowering::Weight(weight)) => self.set_weight(thread, weight),
            (_, Lowering::Nice(_)) => self.set_nice(thread),
        }
        if action != Action::Stop {
            self.resume(thread);
        }
    }

    /// Moves a thread to the cell that its job has in the active slice.
    fn move_thread(&mut self, thread: ThreadId, from: usize, clock: Instant) {
        let (job, rank) = self.workload.job_and_number(thread);
        let Some(of) = &mut self.coscheduling else { return };
        let Some(cells) = of.decisions.cells(JobId(job as u32), clock) else { return };
        let to = cells.cell_of_rank(rank as u32, of.mesh);
        if to.index() != from {
            let lower = of.rules.lower;
            of.cells[to.index()].threads.push(thread);
            (of.cells[from].has_changed, of.cells[to.index()].has_changed) = (true, true);
            self.relocate(thread, to);
            // The job may have been lowered when it left that cell.
            if let Lowering::Weight(_) = lower {
                self.set_weight(thread, Lowering::NORMAL_WEIGHT);
            }
        }
    }

    /// The nice value of a thread: its own, lowered if its job is not active, or raised if a
    /// message prefers it.
    pub(super) fn nice(&self, thread: ThreadId) -> i8 {
        let own = self.workload.threads[thread.index()].nice;
        let Some(of) = &self.coscheduling else { return own };
        let Lowering::Nice(steps) = of.rules.lower else { return own };
        let cell = self.workload.threads[thread.index()].cell().index();
        if of.cells[cell].preferred == Some(thread) {
            own.saturating_sub_unsigned(steps).max(-20)
        } else if of.actions[thread.index()] == Action::Lower {
            own.saturating_add_unsigned(steps).min(19)
        } else {
            own
        }
    }

    fn set_nice(&mut self, thread: ThreadId) {
        let nice = self.nice(thread);
        self.scheduler.set_nice(thread, nice, self.now, &mut self.marks);
    }

    fn set_weight(&mut self, thread: ThreadId, weight: u16) {
        let of = &self.workload.threads[thread.index()];
        let (cell, job) = (of.cell(), JobId(of.job() as u32));
        self.scheduler.set_group_weight(cell, job, weight.into(), self.now, &mut self.marks);
    }

    /// The time that a cell takes for a turn.
    fn cost_of_turn(&self, cell: usize) -> Span {
        let Some(of) = &self.coscheduling else { return Span::ZERO };
        let jobs: BTreeSet<usize> =
            of.cells[cell].threads.iter().map(|thread| self.workload.threads[thread.index()].job()).collect();
        of.rules.switch_cost + of.rules.switch_cost_per_job.scaled(1000 * jobs.len() as u64)
    }

    /// How much longer the next switch of a CPU takes, because its cell has switched to other jobs.
    #[inline]
    pub(super) fn take_turn_cost(&mut self, cpu: CpuId) -> Span {
        self.coscheduling.as_mut().map_or(Span::ZERO, |of| std::mem::take(&mut of.turn_costs[cpu.index()]))
    }

    /// Plans the next look of a cell, by its clock. If jobs move, the first cell looks for all.
    fn plan_look(&mut self, cell: usize, clock: Instant) {
        let tick = self.machine.tick.as_nanos();
        let Some(of) = &mut self.coscheduling else { return };
        let follows = of.moves() && cell > 0;
        let next = of.decisions.next_boundary(clock);
        let state = &mut of.cells[cell];
        (state.boundary, state.chooses) = (next, false);
        if follows {
            return;
        }
        let at = next.map(|boundary| match of.rules.reschedule {
            Reschedule::Boundary | Reschedule::Choice => state.moment(boundary),
            Reschedule::Tick => {
                // The kernel ticks at multiples of the tick on its own clock.
                let shown = (state.moment(boundary) + state.phase).as_nanos();
                Instant::from_nanos(shown.next_multiple_of(tick) - state.phase.as_nanos())
            }
        });
        let before = std::mem::replace(&mut state.due, at);
        if let Some(at) = at
            && before != Some(at)
        {
            self.set_timed_event(at, TimedEvent::Look(cell));
        }
    }

    /// The scheduler of a CPU is about to choose a thread: its cell looks now, if it looks at such
    /// moments and a boundary has passed.
    #[inline]
    pub(super) fn note_choice(&mut self, cpu: CpuId) {
        if self.coscheduling.is_some() {
            self.look_at_choice(cpu);
        }
    }

    fn look_at_choice(&mut self, cpu: CpuId) {
        let now = self.now;
        let Some(of) = self.coscheduling.as_mut().filter(|of| of.rules.reschedule == Reschedule::Choice) else {
            return;
        };
        let cell = cpu.index() / self.machine.cpus as usize;
        if of.cells[cell].due.take_if(|due| *due <= now).is_some() {
            (of.cells[cell].due, of.cells[cell].chooses) = (Some(now), true);
            self.set_timed_event(now, TimedEvent::Look(cell));
        }
    }

    /// `original`: the first cell switches to a thread. It tells the other cells if that is one of
    /// another job.
    #[inline]
    pub(super) fn note_switch(&mut self, cpu: CpuId, to: Option<ThreadId>) {
        if self.coscheduling.is_some() {
            self.tell_of_switch(cpu, to);
        }
    }

    fn tell_of_switch(&mut self, cpu: CpuId, to: Option<ThreadId>) {
        let Some(of) = self.coscheduling.as_mut().filter(|of| of.rules.how == Gang::Original) else { return };
        let Some(to) = to.filter(|_| cpu.0 < self.machine.cpus) else { return };
        let job = self.workload.threads[to.index()].job();
        if of.told.replace(job) != Some(job) {
            let at = self.now + self.machine.network.latency;
            self.set_timed_event(at, TimedEvent::Follow { job, since: self.now });
        }
    }

    /// `original`: the cells are told which job the first one has run since this moment.
    pub(super) fn follow_first_cell(&mut self, job: usize, since: Instant) {
        let Some(of) = &mut self.coscheduling else { return };
        if of.decisions.follow(JobId(job as u32)) {
            let cells = of.cells.len();
            (1..cells).for_each(|cell| self.look_at_turn(cell, Some(since)));
        }
    }

    /// `dynamic`: a message has arrived for a thread, which its cell prefers from now on.
    pub(super) fn prefer_receiver(&mut self, thread: ThreadId) {
        let cell = self.workload.threads[thread.index()].cell().index();
        let Some(of) = self.coscheduling.as_mut().filter(|of| of.rules.how.prefers_receiver()) else { return };
        let before = of.cells[cell].preferred.replace(thread);
        if before == Some(thread) {
            return;
        }
        if let Some(before) = before.filter(|before| self.workload.threads[before.index()].place != Place::Gone) {
            self.set_nice(before);
        }
        self.set_nice(thread);
    }
}
