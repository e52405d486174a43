//! Co-scheduling: which jobs are on which cells. Their turns are in [`turns`](super::turns).
//!
//! [`policy::coscheduler`] decides. This module carries its decisions out.
//!
//! * **Arrival.** The server creates one job after another. Then the job gets its cells, or waits.
//!   Rank i runs on the i-th of its cells, or on cell i modulo their number.
//! * **Changes.** When jobs come, go or change their class, the server interrupts all cells, and
//!   they look at once. Deviation from the paper: a new table reaches all cells at once.
//! * **Classes.** Under `adaptive`, all jobs are classified every 100 ms. Whether a job
//!   [idles](super::idling) is found out at the end of each turn.

use policy::coscheduler::{Coscheduler, JobFacts};
use policy::gang::{Action, Class, Gang, Idling, IntervalCounters, TurnTrial, classify};
use policy::layout::{Mesh, Rectangle, Request};
use policy::record::Recorder;
use policy::slices::{Entry, Movement};
use policy::{Instant, JobId, Span, ThreadId};
use scenario::draw::{Normal, Stream};
use scenario::result::CoschedulingOutcome;
use scenario::{JobKind, Machine, Setting};

use super::Engine;
use super::account::Account;
use super::cells::tick_phases;
use super::device::TimedEvent;
use super::headway::Quiet;
use super::observer::Observer;
use super::scheduler::{ReadyReason, Scheduler};
use super::turns::{Cell, Delays};

/// The rules of a setting. Without any, the local schedulers decide alone.
pub(crate) fn rules(setting: &Setting) -> scenario::Coscheduling {
    setting.coscheduling.unwrap_or(scenario::Coscheduling { how: Gang::None, ..scenario::Coscheduling::default() })
}

/// How a job uses its turns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TurnUse {
    pub(super) idling: Idling,
    /// How long its threads had wanted CPUs at the end of its last turn.
    pub(super) wanted: Span,
    /// Whether it may run since the last look, and whether that is its turn.
    pub(super) runs: bool,
    pub(super) has_turn: bool,
}

/// The rules with their durations rounded down to the step of the machine.
fn on_grid(rules: &scenario::Coscheduling, step: Span) -> scenario::Coscheduling {
    scenario::Coscheduling {
        slice: rules.slice.floor_to(step).max(step),
        create: rules.create.floor_to(step),
        switch_cost: rules.switch_cost.floor_to(step),
        switch_cost_per_job: rules.switch_cost_per_job.floor_to(step),
        ..*rules
    }
}

/// How often jobs are classified.
const CLASSIFY_EVERY: Span = Span::from_millis(100);

/// After so many classifications that changed no class, no job is expected to leave the slices.
const SETTLED: u32 = 10_000;

/// The state of co-scheduling.
#[derive(Clone, Debug)]
pub(crate) struct Coscheduling {
    pub(super) rules: scenario::Coscheduling,
    pub(super) mesh: Mesh,
    pub(super) decisions: Coscheduler,
    /// The request and the weight of each job.
    requests: Vec<(Request, u32)>,
    /// Whether each job releases its cells when it has done its work.
    releases: Vec<bool>,
    /// The number of those that have cells.
    releasing: usize,
    /// The number of classifications since a class changed.
    unchanged: u32,
    /// How many events in a row were looks and classifications while no CPU had anything to do.
    pub(super) quiet: Quiet,
    /// How each job uses its turns, and the clock of the first cell when it last looked.
    pub(super) uses: Vec<TurnUse>,
    pub(super) looked: Instant,
    /// The counters of each job when it was last classified.
    observed: Vec<IntervalCounters>,
    /// Which jobs that block are tried with turns.
    trials: Vec<TurnTrial>,
    /// The action that each thread is under.
    pub(super) actions: Vec<Action>,
    pub(super) cells: Vec<Cell>,
    /// For each CPU, how much longer its next switch takes because of a turn.
    pub(super) turn_costs: Vec<Span>,
    /// The jobs that have been placed in this event. Empty between events.
    placed: Vec<usize>,
    /// Orders the ranks that begin with the run.
    order: Stream,
    /// When the server can create the next job.
    server_is_free: Instant,
    /// `original`: the job that the first cell last told the others of.
    pub(super) told: Option<usize>,
    pub(super) delays: Delays,
    pub(super) turns: u64,
}

impl Coscheduling {
    /// The co-scheduling of a machine. `None` without cells.
    pub(crate) fn new(machine: &Machine, setting: &Setting, seed: u64, threads: usize) -> Option<Coscheduling> {
        let (mesh, rules) = (machine.cells?, on_grid(&rules(setting), machine.step));
        let mut stream = Stream::named(seed, "clocks of the cells", 0);
        let skew = rules.clock_skew.as_nanos();
        // Far from zero, so that no draw is cut off.
        let clock = Normal { mean: 10.0 * skew as f64, sd: skew as f64 };
        let mut phases = tick_phases(machine, seed);
        let mut cell = |number: u32| {
            let drawn = clock.draw(&mut stream, Span::from_nanos(1)).as_nanos();
            // The first cell gives the reference time.
            let ahead = if number == 0 || skew == 0 { 0 } else { drawn as i64 - 10 * skew as i64 };
            let step = machine.step.as_nanos() as i64;
            let ahead = ahead - ahead % step;
            Cell::new(ahead, phases.next().unwrap_or_default())
        };
        let request = |kind: &JobKind| match kind {
            JobKind::Message(message) => (message.request, message.weight),
            kind => (Request::Ranks(kind.threads(machine.cpus)), 1),
        };
        let requests: Vec<_> = setting.jobs_with_copies().map(|(_, job)| request(&job.kind)).collect();
        let is_endless = |kind: &JobKind| matches!(kind, JobKind::Cpu { work: None, .. });
        let releases = setting.jobs_with_copies().map(|(_, job)| !setting.keep_running && !is_endless(&job.kind));
        Some(Coscheduling {
            decisions: Coscheduler::new(
                mesh,
                policy::coscheduler::Rules {
                    gang: rules.how,
                    partitioner: rules.partition,
                    movement: rules.movement,
                    most_slices: rules.most_slices,
                    avoid_jobs_beside: false,
                    slice: rules.slice,
                    lag: rules.clock_skew.scaled(10_000),
                },
            ),
            rules,
            mesh,
            uses: vec![TurnUse::default(); requests.len()],
            looked: Instant::ZERO,
            observed: vec![IntervalCounters::default(); requests.len()],
            trials: vec![TurnTrial::default(); requests.len()],
            requests,
            releases: releases.collect(),
            releasing: 0,
            unchanged: 0,
            quiet: Quiet::default(),
            actions: vec![Action::Run; threads],
            cells: (0..mesh.cells()).map(&mut cell).collect(),
            turn_costs: vec![Span::ZERO; machine.total_cpus() as usize],
            placed: Vec::new(),
            order: Stream::named(seed, "initial queue order", 0),
            server_is_free: Instant::ZERO,
            told: None,
            delays: Delays::default(),
            turns: 0,
        })
    }

    /// The time on the clock by which a cell looks: its own, or the first cell's if jobs move.
    pub(super) fn clock_of_turns(&self, cell: usize, now: Instant) -> Instant {
        let ahead = if self.moves() { 0 } else { self.cells[cell].ahead };
        Instant::from_nanos(now.as_nanos().saturating_add_signed(ahead))
    }

    pub(super) fn moves(&self) -> bool {
        #[cfg(test)]
        if super::script::are_jobs_on_one_cell() {
            return false;
        }
        self.rules.movement == Movement::WithinNode
    }

    pub(crate) fn outcome(&self) -> CoschedulingOutcome {
        let moments = self.delays.moments();
        CoschedulingOutcome {
            slices_most: self.decisions.most_slices() as u32,
            turns: self.turns,
            delay_mean_ns: moments.map(|(mean, _)| mean),
            delay_sd_ns: moments.map(|(_, sd)| sd),
            switches: None,
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
        of.unchanged = 0;
        let (request, weight) = of.requests[job];
        // Requests that fit nowhere are rejected before the run.
        if let Ok(Entry::Placed(cells)) = of.decisions.enter(JobId(job as u32), request, weight, now) {
            self.place_ranks(job, cells);
        }
        self.workload.to_come -= 1;
        self.fail_if_cells_are_never_released();
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
        of.releasing += usize::from(of.releases[job]);
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
        let mut threads: Vec<usize> = placed.iter().flat_map(|&job| self.workload.jobs[job].threads.clone()).collect();
        of.order.shuffle(&mut threads);
        threads.into_iter().for_each(|thread| self.ready(ThreadId(thread as u32), ReadyReason::New));
    }

    /// A job has ended: its cells are free.
    pub(super) fn release_cells(&mut self, job: usize) {
        let now = self.now;
        let Some(of) = &mut self.coscheduling else { return };
        of.unchanged = 0;
        of.releasing -= usize::from(of.releases[job]);
        let threads = self.workload.jobs[job].threads.clone();
        of.cells.iter_mut().for_each(|cell| cell.threads.retain(|thread| !threads.contains(&thread.index())));
        for (placed, cells) in of.decisions.release(JobId(job as u32), now).unwrap_or_default() {
            self.place_ranks(placed.index(), cells);
        }
        self.fail_if_cells_are_never_released();
        self.interrupt_cells();
    }

    /// Ends the run with an error if a job waits for cells, and none of those that have cells ever
    /// releases them. Under `adaptive`, one of them may still leave the slices.
    fn fail_if_cells_are_never_released(&mut self) {
        let may_leave = |of: &Coscheduling| of.rules.how == Gang::Adaptive && of.unchanged < SETTLED;
        let of = self.coscheduling.as_ref().filter(|of| of.releasing == 0 && !may_leave(of));
        if let Some(waits) = of.and_then(|of| of.decisions.waiting().next()) {
            self.set_timed_event(self.now, TimedEvent::NeverPlaced(waits.index()));
        }
    }

    /// Classifies all jobs by the time since they were last classified. Cells look again if that
    /// changes who takes turns.
    pub(super) fn classify_jobs(&mut self) {
        self.charge_all();
        let now = self.now;
        let Some(of) = &mut self.coscheduling else { return };
        let (mut placed, version) = (Vec::new(), of.decisions.version());
        of.unchanged += 1;
        for (number, job) in self.workload.jobs.there().enumerate() {
            let Account { cpu: ran, spin: spun, voluntary, stops, .. } = job.account;
            let sums = IntervalCounters { ran, spun, blocks: voluntary - stops, threads: job.threads.len() };
            let before = std::mem::replace(&mut of.observed[number], sums);
            let counters = IntervalCounters {
                ran: sums.ran - before.ran,
                spun: sums.spun - before.spun,
                blocks: sums.blocks - before.blocks,
                ..sums
            };
            // A job that has not been placed, or has ended, is unknown there.
            let id = JobId(number as u32);
            let Some(JobFacts { class: before, .. }) = of.decisions.facts(id) else { continue };
            let class = of.trials[number].classify(
                before,
                classify(before, &counters),
                &counters,
                of.uses[number].idling.has_left_turn(),
                now,
            );
            // A job that tries turns again and again does not count.
            if class != before && ![class, before].contains(&Class::Unknown) {
                of.unchanged = 0;
            }
            placed.extend(of.decisions.set_class(id, class, now).unwrap_or_default());
        }
        if of.decisions.version() == version {
            self.fail_if_cells_are_never_released();
        } else {
            placed.into_iter().for_each(|(job, cells)| self.place_ranks(job.index(), cells));
            self.interrupt_cells();
        }
        self.plan_classification();
    }

    fn plan_classification(&mut self) {
        let step = self.machine.step;
        self.set_timed_event(self.now + CLASSIFY_EVERY.floor_to(step).max(step), TimedEvent::Classify);
    }

    /// The jobs that arrive at the start of the run have been entered.
    pub(super) fn begin_coscheduling(&mut self) {
        self.interrupt_cells();
        if self.coscheduling.as_ref().is_some_and(|of| of.rules.how == Gang::Adaptive) {
            self.plan_classification();
        }
    }

    /// Jobs that have been placed begin, and all cells look at once.
    fn interrupt_cells(&mut self) {
        self.admit_placed();
        self.let_all_cells_look();
    }
}
