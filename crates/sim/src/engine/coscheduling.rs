//! Co-scheduling: the cells of jobs, and their turns.
//!
//! [`policy::coscheduler`] decides. This module carries its decisions out.
//!
//! * **Arrival.** The server creates one job after another. Then the job gets its cells, or waits.
//!   Rank i runs on the i-th of its cells, or on cell i modulo their number.
//! * **Turns.** Each cell looks at its own clock and applies the action for each of its threads: by
//!   a timer at each boundary, at the first tick after it, or the next time that its scheduler
//!   chooses a thread. When jobs come, go or change their class, the server interrupts all cells,
//!   and they look at once.
//! * **Cost.** A cell whose active jobs change takes the time of a switch before it runs the next
//!   thread, if it switches threads.
//! * **Classes.** Under `adaptive`, all jobs are classified every 100 ms.
//! * **Moving** (`move = "within-node"`): all cells look together, by the clock of the first one,
//!   and threads move when their slice begins.
//!
//! Deviations from the paper: the table reaches all cells at once. Clocks differ by a constant,
//! which is drawn for each cell.

use policy::coscheduler::Coscheduler;
use policy::gang::{Action, Gang, IntervalCounters, Lowering};
use policy::layout::{Mesh, Rectangle, Request};
use policy::record::Recorder;
use policy::slices::{Entry, Movement};
use policy::{CpuId, Instant, JobId, Span, ThreadId};
use scenario::coscheduling::Reschedule;
use scenario::draw::{Normal, Stream};
use scenario::result::CoschedulingOutcome;
use scenario::{JobKind, Machine, Setting};

use super::Engine;
use super::account::Account;
use super::cells::tick_phases;
use super::device::TimedEvent;
use super::observer::{CpuState, Observer};
use super::scheduler::{ReadyReason, Scheduler};
use super::threads::Place;

/// The rules of a setting. Without any, the local schedulers decide alone.
pub(super) fn rules(setting: &Setting) -> scenario::Coscheduling {
    setting.coscheduling.unwrap_or(scenario::Coscheduling { how: Gang::None, ..scenario::Coscheduling::default() })
}

/// How often jobs are classified.
const CLASSIFY_EVERY: Span = Span::from_millis(100);

/// The state of co-scheduling.
#[derive(Clone, Debug)]
pub(crate) struct Coscheduling {
    rules: scenario::Coscheduling,
    mesh: Mesh,
    decisions: Coscheduler,
    /// The request and the weight of each job.
    requests: Vec<(Request, u32)>,
    /// The counters of each job when it was last classified.
    observed: Vec<IntervalCounters>,
    /// The action that each thread is under.
    actions: Vec<Action>,
    cells: Vec<Cell>,
    /// For each CPU, how much longer its next switch takes because of a turn.
    turn_costs: Vec<Span>,
    /// The jobs that have been placed in this event. Empty between events.
    placed: Vec<usize>,
    /// Orders the ranks that begin with the run.
    order: Stream,
    /// When the server can create the next job.
    server_is_free: Instant,
    delays: Delays,
    turns: u64,
}

#[derive(Clone, Debug, Default)]
struct Cell {
    /// How far its clock is ahead of the first cell's, in nanoseconds.
    ahead: i64,
    /// How far the clock of its kernel is ahead.
    phase: Span,
    threads: Vec<ThreadId>,
    /// The next boundary, and the moment of the run at which the cell looks, or from which on it
    /// does when its scheduler chooses.
    boundary: Option<Instant>,
    due: Option<Instant>,
    /// Whether its scheduler chooses a thread, so that it looks although it is busy.
    chooses: bool,
    /// `dynamic`: the thread that a message has raised.
    preferred: Option<ThreadId>,
}

/// Sums of the times from boundaries to the moments at which cells acted.
#[derive(Clone, Copy, Debug, Default)]
struct Delays {
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
    fn moments(&self) -> Option<(Span, Span)> {
        let count = u128::from(self.count);
        let mean = self.sum.checked_div(count)?;
        let variance = (self.squares / count).saturating_sub(mean * mean);
        Some((Span::from_nanos(mean as u64), Span::from_nanos(variance.isqrt() as u64)))
    }
}

impl Coscheduling {
    /// The co-scheduling of a machine. `None` without cells.
    pub(crate) fn new(machine: &Machine, setting: &Setting, seed: u64, threads: usize) -> Option<Coscheduling> {
        let (mesh, rules) = (machine.cells?, rules(setting));
        let mut stream = Stream::named(seed, "clocks of the cells", 0);
        let skew = rules.clock_skew.as_nanos();
        // Far from zero, so that no draw is cut off.
        let clock = Normal { mean: 10.0 * skew as f64, sd: skew as f64 };
        let mut phases = tick_phases(machine, seed);
        let mut cell = |number: u32| {
            let drawn = clock.draw(&mut stream, Span::from_nanos(1)).as_nanos();
            // The first cell gives the reference time.
            let ahead = if number == 0 || skew == 0 { 0 } else { drawn as i64 - 10 * skew as i64 };
            Cell { ahead, phase: phases.next().unwrap_or_default(), ..Cell::default() }
        };
        let request = |kind: &JobKind| match kind {
            JobKind::Message(message) => (message.request, message.weight),
            kind => (Request::Ranks(kind.threads(machine.cpus)), 1),
        };
        let requests: Vec<_> = setting.jobs_with_copies().map(|(_, job)| request(&job.kind)).collect();
        Some(Coscheduling {
            decisions: Coscheduler::new(rules.how, mesh, rules.partition, rules.movement, rules.slice),
            rules,
            mesh,
            observed: vec![IntervalCounters::default(); requests.len()],
            requests,
            actions: vec![Action::Run; threads],
            cells: (0..mesh.cells()).map(&mut cell).collect(),
            turn_costs: vec![Span::ZERO; machine.total_cpus() as usize],
            placed: Vec::new(),
            order: Stream::named(seed, "initial queue order", 0),
            server_is_free: Instant::ZERO,
            delays: Delays::default(),
            turns: 0,
        })
    }

    /// The time on the clock of a cell.
    fn clock(&self, cell: usize, now: Instant) -> Instant {
        Instant::from_nanos(now.as_nanos().saturating_add_signed(self.cells[cell].ahead))
    }

    fn moves(&self) -> bool {
        #[cfg(test)]
        if super::script::are_jobs_on_one_cell() {
            return false;
        }
        self.rules.movement == Movement::WithinNode
    }

    pub(crate) fn outcome(&self) -> CoschedulingOutcome {
        let moments = self.delays.moments();
        CoschedulingOutcome {
            most_slices: self.decisions.most_slices() as u32,
            turns: self.turns,
            delay_mean_ns: moments.map(|(mean, _)| mean),
            delay_sd_ns: moments.map(|(_, sd)| sd),
        }
    }
}

impl<S: Scheduler, R: Recorder + Default, W: Observer + ?Sized> Engine<'_, S, R, W> {
    /// A job arrives at the server, which creates it when it has created those before.
    pub(super) fn request_cells(&mut self, job: usize) {
        let now = self.now;
        let Some(of) = &mut self.coscheduling else { return };
        of.server_is_free = of.server_is_free.max(now) + of.rules.create;
        match of.server_is_free {
            at if at == now => self.enter_job(job),
            at => self.set_timed_event(at, TimedEvent::JobCreated(job)),
        }
    }

    /// The server has created a job: it gets its cells, or waits for them.
    pub(super) fn enter_job(&mut self, job: usize) {
        let now = self.now;
        let Some(of) = &mut self.coscheduling else { return };
        let (request, weight) = of.requests[job];
        // Requests that fit nowhere are rejected before the run.
        if let Ok(Entry::Placed(cells)) = of.decisions.enter(JobId(job as u32), request, weight, now) {
            self.place_ranks(job, cells);
        }
        // At the start, all jobs are entered before any begins.
        if now > Instant::ZERO {
            self.interrupt_cells();
        }
    }

    fn place_ranks(&mut self, job: usize, cells: Rectangle) {
        let Some(of) = &mut self.coscheduling else { return };
        for (rank, thread) in self.workload.jobs[job].threads.clone().enumerate() {
            let cell = cells.cell_of_rank(rank as u32, of.mesh);
            #[cfg(test)]
            let cell = super::script::home_of(job).unwrap_or(cell);
            let thread = ThreadId(thread as u32);
            self.workload.set_cell(thread, cell);
            self.scheduler.place(thread, cell, self.now);
            of.cells[cell.index()].threads.push(thread);
        }
        of.placed.push(job);
    }

    /// The jobs that have been placed in this event begin. At the start of the run their ranks are
    /// created in random order, as cells do that independently of each other; later, one job after
    /// another.
    fn admit_placed(&mut self) {
        let Some(of) = &mut self.coscheduling else { return };
        let placed = std::mem::take(&mut of.placed);
        if self.now > Instant::ZERO {
            placed.into_iter().for_each(|job| self.admit_job(job));
            return;
        }
        self.workload.to_come -= placed.len();
        let mut threads: Vec<usize> = placed.iter().flat_map(|&job| self.workload.jobs[job].threads.clone()).collect();
        of.order.shuffle(&mut threads);
        threads.into_iter().for_each(|thread| self.ready(ThreadId(thread as u32), ReadyReason::New));
    }

    /// A job has ended: its cells are free.
    pub(super) fn release_cells(&mut self, job: usize) {
        let now = self.now;
        let Some(of) = &mut self.coscheduling else { return };
        let threads = self.workload.jobs[job].threads.clone();
        of.cells.iter_mut().for_each(|cell| cell.threads.retain(|thread| !threads.contains(&thread.index())));
        for (placed, cells) in of.decisions.release(JobId(job as u32), now).unwrap_or_default() {
            self.place_ranks(placed.index(), cells);
        }
        self.interrupt_cells();
    }

    /// Classifies all jobs by the time since they were last classified.
    pub(super) fn classify_jobs(&mut self) {
        self.charge_all();
        let now = self.now;
        let Some(of) = &mut self.coscheduling else { return };
        let mut placed = Vec::new();
        for (number, job) in self.workload.jobs.iter().enumerate() {
            let Account { cpu: ran, spin: spun, voluntary, stops, .. } = job.account;
            let sums = IntervalCounters { ran, spun, blocks: voluntary - stops };
            let before = std::mem::replace(&mut of.observed[number], sums);
            let counters = IntervalCounters {
                ran: sums.ran - before.ran,
                spun: sums.spun - before.spun,
                blocks: sums.blocks - before.blocks,
            };
            // A job that has not been placed, or has ended, is unknown there.
            placed.extend(of.decisions.observe(JobId(number as u32), &counters, now).unwrap_or_default());
        }
        placed.into_iter().for_each(|(job, cells)| self.place_ranks(job.index(), cells));
        self.interrupt_cells();
        self.set_timed_event(now + CLASSIFY_EVERY, TimedEvent::Classify);
    }

    /// The jobs that arrive at the start of the run have been entered.
    pub(super) fn begin_coscheduling(&mut self) {
        self.interrupt_cells();
        if self.coscheduling.as_ref().is_some_and(|of| of.rules.how == Gang::Adaptive) {
            self.set_timed_event(self.now + CLASSIFY_EVERY, TimedEvent::Classify);
        }
    }

    /// Jobs that have been placed begin, and all cells look at once.
    pub(super) fn interrupt_cells(&mut self) {
        self.admit_placed();
        let cells = self.coscheduling.as_ref().map_or(0, |of| of.cells.len());
        (0..cells).for_each(|cell| self.look_at_turn(cell));
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
            self.interrupt_cells();
        } else {
            self.look_at_turn(cell);
        }
    }

    /// Whether a CPU of a cell is idle.
    fn is_idle(&self, cell: usize) -> bool {
        let cpus = self.machine.cpus as usize;
        self.cpus[cell * cpus..(cell + 1) * cpus].iter().any(|cpu| cpu.state == CpuState::Idle)
    }

    /// A cell looks whose turn it is, and plans its next look.
    fn look_at_turn(&mut self, cell: usize) {
        let now = self.now;
        let Some(of) = &mut self.coscheduling else { return };
        let clock = of.clock(if of.moves() { 0 } else { cell }, now);
        let threads = std::mem::take(&mut of.cells[cell].threads);
        let mut has_changed = false;
        for &thread in &threads {
            has_changed |= self.apply_action(thread, cell, clock);
        }
        let Some(of) = &mut self.coscheduling else { return };
        let stay = threads.into_iter().filter(|thread| self.workload.threads[thread.index()].cell().index() == cell);
        of.cells[cell].threads.extend(stay);
        if let Some(boundary) = of.cells[cell].boundary.take_if(|boundary| *boundary <= clock)
            && has_changed
        {
            of.turns += 1;
            let cost = self.charge_turn(cell);
            if let Some(of) = &mut self.coscheduling {
                of.delays.add(now.since(boundary) + cost);
            }
        }
        self.plan_look(cell, clock);
    }

    /// Applies the action for a thread on a cell. Returns whether it has changed.
    fn apply_action(&mut self, thread: ThreadId, cell: usize, clock: Instant) -> bool {
        let job = JobId(self.workload.threads[thread.index()].job() as u32);
        let Some(of) = &mut self.coscheduling else { return false };
        let decides_itself = of.rules.how == Gang::Original && cell == 0;
        let action = if decides_itself { Action::Run } else { of.decisions.action(job, clock) };
        if action == Action::Run && of.moves() {
            self.move_thread(thread, cell, clock);
        }
        let Some(of) = &mut self.coscheduling else { return false };
        if std::mem::replace(&mut of.actions[thread.index()], action) == action {
            return false;
        }
        let lower = of.rules.lower;
        let own = self.workload.threads[thread.index()].nice;
        match (action, lower) {
            (Action::Stop, _) => self.stop(thread),
            (Action::Run, Lowering::Weight(_)) => self.set_weight(thread, Lowering::NORMAL_WEIGHT),
            (Action::Lower, Lowering::Weight(weight)) => self.set_weight(thread, weight),
            (Action::Run, Lowering::Nice(_)) => self.set_nice(thread, own),
            (Action::Lower, Lowering::Nice(steps)) => self.set_nice(thread, own.saturating_add(steps as i8).min(19)),
        }
        if action != Action::Stop {
            self.resume(thread);
        }
        true
    }

    /// Moves a thread to the cell that its job has in the active slice.
    fn move_thread(&mut self, thread: ThreadId, from: usize, clock: Instant) {
        let (job, rank) = self.workload.job_and_number(thread);
        let Some(of) = &mut self.coscheduling else { return };
        let Some(cells) = of.decisions.cells(JobId(job as u32), clock) else { return };
        let to = cells.cell_of_rank(rank as u32, of.mesh);
        if to.index() != from {
            of.cells[to.index()].threads.push(thread);
            self.relocate(thread, to);
        }
    }

    fn set_nice(&mut self, thread: ThreadId, nice: i8) {
        self.scheduler.set_nice(thread, nice, self.now, &mut self.marks);
    }

    fn set_weight(&mut self, thread: ThreadId, weight: u16) {
        let of = &self.workload.threads[thread.index()];
        let (cell, job) = (of.cell(), JobId(of.job() as u32));
        self.scheduler.set_group_weight(cell, job, weight.into(), self.now, &mut self.marks);
    }

    /// The CPUs of a cell pay for a turn when they next switch threads. Returns the time that they
    /// pay.
    fn charge_turn(&mut self, cell: usize) -> Span {
        let Some(of) = &self.coscheduling else { return Span::ZERO };
        let jobs = of.cells[cell].threads.chunk_by(|one, other| self.workload.is_same_job(*one, *other)).count();
        let cost = of.rules.switch_cost + of.rules.switch_cost_per_job.scaled(1000 * jobs as u64);
        let cpus = self.machine.cpus as usize;
        if let Some(of) = &mut self.coscheduling {
            of.turn_costs[cell * cpus..(cell + 1) * cpus].fill(cost);
        }
        cost
    }

    /// How much longer the next switch of a CPU takes, because its cell has switched to other jobs.
    #[inline]
    pub(super) fn take_turn_cost(&mut self, cpu: CpuId) -> Span {
        self.coscheduling.as_mut().map_or(Span::ZERO, |of| std::mem::take(&mut of.turn_costs[cpu.index()]))
    }

    /// Plans the next look of a cell, by its clock.
    fn plan_look(&mut self, cell: usize, clock: Instant) {
        let tick = self.machine.tick.as_nanos();
        let Some(of) = &mut self.coscheduling else { return };
        if of.moves() && cell > 0 {
            return;
        }
        let next = of.decisions.next_boundary(clock);
        let state = &mut of.cells[cell];
        // The moment of the run at which the clock of the cell shows that time.
        let moment = |time: Instant| Instant::from_nanos(time.as_nanos().saturating_add_signed(-state.ahead));
        let at = next.map(|boundary| match of.rules.reschedule {
            Reschedule::Boundary => moment(boundary),
            Reschedule::Tick => {
                // The kernel ticks at multiples of the tick on its own clock.
                let shown = (moment(boundary) + state.phase).as_nanos();
                Instant::from_nanos(shown.next_multiple_of(tick) - state.phase.as_nanos())
            }
            Reschedule::Choice => moment(boundary),
        });
        (state.boundary, state.due, state.chooses) = (next, at, false);
        if let Some(at) = at {
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

    /// `original`: the first cell switches to a thread. If that is one of another job, the other
    /// cells follow when they have been told.
    #[inline]
    pub(super) fn note_switch(&mut self, cpu: CpuId, to: Option<ThreadId>) {
        if self.coscheduling.is_some() {
            self.follow_switch(cpu, to);
        }
    }

    fn follow_switch(&mut self, cpu: CpuId, to: Option<ThreadId>) {
        let Some(of) = self.coscheduling.as_mut().filter(|of| of.rules.how == Gang::Original) else { return };
        let Some(to) = to.filter(|_| cpu.0 < self.machine.cpus) else { return };
        if of.decisions.follow(JobId(self.workload.threads[to.index()].job() as u32)) {
            of.turns += 1;
            self.set_timed_event(self.now + self.machine.network.latency, TimedEvent::Interrupt);
        }
    }

    /// `dynamic`: a message has arrived for a thread, which its cell prefers from now on.
    pub(super) fn prefer_receiver(&mut self, thread: ThreadId) {
        let cell = self.workload.threads[thread.index()].cell().index();
        let Some(of) = self.coscheduling.as_mut().filter(|of| of.rules.how.prefers_receiver()) else { return };
        let Lowering::Nice(steps) = of.rules.lower else { return };
        let before = of.cells[cell].preferred.replace(thread);
        if before == Some(thread) {
            return;
        }
        let own = |thread: ThreadId| self.workload.threads[thread.index()].nice;
        let raised = own(thread).saturating_sub(steps as i8).max(-20);
        if let Some(before) = before.filter(|before| self.workload.threads[before.index()].place != Place::Gone) {
            self.set_nice(before, own(before));
        }
        self.set_nice(thread, raised);
    }
}
