//! The workload of a run: its jobs and all of their threads.

use policy::layout::Mesh;
use policy::waiting::{Missing, Running, TeamState};
use policy::{CellId, CpuId, Instant, Span, ThreadId};
use scenario::draw::Stream;
use scenario::result::JobOutcome;
use scenario::{JobKind, Machine, Setting};

use super::account::{Account, Demand};
use super::cells::cells_of_job;
use super::coscheduling::rules;
use super::counters::Counters;
use super::job::{Job, Task, resolve};
use super::jobs::Jobs;
use super::threads::{Activity, ENDLESS, Member, Place, Thread};
use crate::workloads::fibers::Fibers;
use crate::workloads::lock::Lock;
use crate::workloads::messages::Messages;
use crate::workloads::pipeline::Pipeline;

#[derive(Clone, Debug)]
pub(crate) struct Workload<'a> {
    machine: &'a Machine,
    setting: &'a Setting,
    pub(crate) threads: Vec<Thread>,
    pub(crate) jobs: Jobs<'a>,
    /// When each job arrives.
    arrivals: Vec<Span>,
    /// How many jobs have not arrived.
    pub(crate) to_come: usize,
    /// How many threads of each cell are on a CPU or ready for one.
    runnable: Vec<usize>,
    step: Span,
    seed: u64,
}

impl<'a> Workload<'a> {
    /// The jobs that start with the run are there. On a machine with cells all are, since their
    /// requests are known to it.
    pub(crate) fn new(machine: &'a Machine, setting: &'a Setting, seed: u64) -> Workload<'a> {
        let arrivals = setting.arrivals(seed, machine.step);
        let is_there = |at: &Span| at.is_zero() && machine.cells.is_none();
        let to_come = arrivals.iter().filter(|at| !is_there(at)).count();
        let jobs = Jobs::new(setting, machine.cpus);
        let mut threads = Vec::with_capacity((0..jobs.len()).map(|job| jobs.threads(job).len()).sum());
        for (job, arrives) in arrivals.iter().enumerate() {
            let place = if is_there(arrives) { Place::Ready } else { Place::Gone };
            let (nice, is_awaited) = (jobs.of_scenario(job).attributes.nice, !jobs.is_endless(job));
            let thread = Thread { job: job as u32, place, nice, is_awaited, ..Thread::default() };
            threads.extend(jobs.threads(job).map(|_| thread));
        }
        let mut runnable = vec![0; machine.cells.map_or(1, Mesh::cells) as usize];
        runnable[0] = threads.iter().filter(|thread| !thread.place.is_away()).count();
        let step = machine.step;
        let mut workload = Workload { machine, setting, threads, jobs, arrivals, to_come, runnable, step, seed };
        for job in 0..workload.jobs.len() {
            if machine.cells.is_some() || workload.arrives(job) == Instant::ZERO {
                workload.create(job);
            }
        }
        workload
    }

    pub(crate) fn arrives(&self, job: usize) -> Instant {
        Instant::ZERO + self.arrivals[job]
    }

    /// Whether a job can cause timed events after its arrival, on a machine without cells.
    pub(crate) fn has_timed_events(&self) -> bool {
        let can = |job: &scenario::Job| {
            matches!(job.kind, JobKind::Pipeline(_) | JobKind::Fibers(_) | JobKind::Message(_)) && job.copies > 0
        };
        self.setting.jobs.iter().any(can)
    }

    /// Creates a job that was to come. Its threads begin.
    pub(crate) fn create(&mut self, number: usize) {
        let Workload { machine, setting, seed, .. } = *self;
        let (name, threads, of) = (self.jobs.name(number), self.jobs.threads(number), self.jobs.of_scenario(number));
        let rules = rules(setting);
        let (task, waiter) = resolve(&of.kind, machine.costs(), rules.how);
        let (nice, keeps_running) = (of.attributes.nice, setting.keep_running);
        let (mut pipeline, mut fibers, mut messages) = (None, None, None);
        match &of.kind {
            JobKind::Pipeline(of) => pipeline = Some(Pipeline::new(of, machine, &name, seed, nice, keeps_running)),
            JobKind::Fibers(of) => fibers = Some(Fibers::new(of, &name, seed, machine.step)),
            JobKind::Message(of) => messages = Some(Messages::new(of, machine, &name, seed, rules.start)),
            _ => {}
        }
        let member = |number| Member {
            waiter,
            stream: Stream::named(seed, &name, number),
            draws: None,
            turns: 0,
            waited: Activity::Block,
            last_seen: None,
            recorded_as: ThreadId(number),
        };
        let count = threads.len() as u32;
        let members = if matches!(task, Task::Cpu { .. }) { 0 } else { count };
        let counters = if matches!(task, Task::Barrier { .. }) { Counters::new(machine, count) } else { None };
        let wanting = self.threads[threads.clone()].iter().filter(|thread| !thread.place.is_away()).count();
        let job = Job {
            members: (0..members).map(member).collect(),
            team_state: TeamState::default(),
            account: Account::default(),
            demand: Demand::of(wanting as u32),
            name,
            task,
            arrives: self.arrives(number),
            arrivals: Vec::with_capacity(members as usize),
            missing: Vec::new(),
            is_missing_listed: false,
            counters,
            lock: Lock::default(),
            pipeline,
            fibers,
            messages,
            observed: (Span::ZERO, Span::ZERO),
            fresh: waiter,
            waits: 0,
            rounds_done: 0,
            threads_left: threads.len(),
            blocked: vec![0; cells_of_job(count, self.runnable.len() as u32) as usize],
            threads: threads.clone(),
            began: None,
            outcome: None,
        };
        self.jobs.enter(number, job);
        threads.for_each(|thread| self.begin(thread));
    }

    /// A thread has left its CPU for good. With the last one its job leaves.
    pub(crate) fn leave(&mut self, thread: ThreadId) {
        let number = self.threads[thread.index()].job();
        let job = &self.jobs[number];
        if job.threads_left == 0 && job.demand.is_over() {
            self.jobs.leave(number);
        }
    }

    /// The part of a thread that can wait.
    #[inline]
    pub(crate) fn member(&mut self, thread: usize) -> &mut Member {
        let job = &mut self.jobs[self.threads[thread].job()];
        &mut job.members[thread - job.threads.start]
    }

    /// The totals that a thread's time is charged to.
    #[inline]
    pub(crate) fn account(&mut self, thread: ThreadId) -> &mut Account {
        &mut self.jobs[self.threads[thread.index()].job()].account
    }

    /// The job of a thread, and the thread's number in it.
    #[inline]
    pub(crate) fn job_and_number(&self, thread: ThreadId) -> (usize, usize) {
        let job = self.threads[thread.index()].job();
        (job, thread.index() - self.jobs[job].threads.start)
    }

    /// The CPU of a thread that spins with a CPU.
    pub(crate) fn spins_on(&self, thread: ThreadId) -> Option<CpuId> {
        let Thread { activity, place, .. } = self.threads[thread.index()];
        match (activity, place) {
            (Activity::Spin { .. }, Place::Running(cpu)) => Some(cpu),
            _ => None,
        }
    }

    /// Whether a rank that waits for messages finds them in its mailbox.
    pub(crate) fn has_messages(&self, thread: ThreadId) -> bool {
        let (job, rank) = self.job_and_number(thread);
        let can_receive = |messages: &Messages| messages.can_receive(rank);
        self.threads[thread.index()].is_waiting && self.jobs[job].messages.as_ref().is_some_and(can_receive)
    }

    pub(crate) fn begin(&mut self, number: usize) {
        let thread = &mut self.threads[number];
        let job = &mut self.jobs[thread.job()];
        let member = number - job.threads.start;
        let left = match &job.task {
            Task::Barrier { compute, .. } => compute.draw(&mut job.members[member].stream, self.step),
            Task::Lock { compute, critical, .. } => {
                let has_it = job.lock.is_held_by(ThreadId(number as u32));
                let law = if has_it { critical } else { compute };
                law.draw(&mut job.members[member].stream, self.step)
            }
            // Its only draw, and the same however often it computes, so that there is no stream to
            // keep.
            Task::Cpu { work: Some(work) } => {
                work.draw(&mut Stream::named(self.seed, &job.name, member as u32), self.step)
            }
            Task::Cpu { work: None } => ENDLESS,
            Task::Pipeline { .. } | Task::Fibers | Task::Messages => {
                thread.activity = Activity::Look;
                return;
            }
        };
        thread.activity = Activity::Compute { left };
    }

    #[inline]
    pub(crate) fn put(&mut self, thread: ThreadId, place: Place, now: Instant) {
        let moved = &mut self.threads[thread.index()];
        let before = std::mem::replace(&mut moved.place, place);
        if before.is_away() || place.is_away() {
            self.count_move(thread, before, place, now);
        }
    }

    fn count_move(&mut self, thread: ThreadId, before: Place, place: Place, now: Instant) {
        let moved = &self.threads[thread.index()];
        let runnable = &mut self.runnable[moved.cell().index()];
        *runnable = *runnable + usize::from(before.is_away()) - usize::from(place.is_away());
        let (was_blocked, is_blocked) = (before == Place::Blocked, place == Place::Blocked);
        let job = &mut self.jobs[moved.job()];
        if before.is_away() != place.is_away() {
            job.demand.change(!place.is_away(), now);
        }
        if was_blocked != is_blocked {
            let cell = job.cell_in_job(thread.index() - job.threads.start);
            let blocked = &mut job.blocked[cell];
            *blocked = *blocked + usize::from(is_blocked) - usize::from(was_blocked);
        }
    }

    /// A thread belongs to another cell from now on.
    pub(super) fn set_cell(&mut self, thread: ThreadId, cell: CellId) {
        let moved = &mut self.threads[thread.index()];
        let before = moved.cell();
        moved.set_cell(cell);
        let counts = usize::from(!moved.place.is_away());
        self.runnable[before.index()] -= counts;
        self.runnable[cell.index()] += counts;
    }

    /// The load as a thread sees it: the running and ready threads of its cell, and the blocked
    /// ones of its job there.
    pub(crate) fn load(&self, thread: ThreadId) -> u32 {
        let (job, number) = self.job_and_number(thread);
        let job = &self.jobs[job];
        (self.runnable[self.threads[thread.index()].cell().index()] + job.blocked[job.cell_in_job(number)]) as u32
    }

    /// A random number for the waiting rule of a thread.
    pub(crate) fn draw(&mut self, thread: usize) -> u32 {
        let seed = self.seed;
        let job = &mut self.jobs[self.threads[thread].job()];
        let number = thread - job.threads.start;
        let fresh = || Box::new(Stream::named(seed, &format!("waiting in {}", job.name), number as u32));
        job.members[number].draws.get_or_insert_with(fresh).below(1 << 32) as u32
    }

    /// A thread's wait is over: remembers how it waited until it has a CPU.
    pub(crate) fn note_wait_over(&mut self, thread: usize) {
        let waiting = &mut self.threads[thread];
        let waited = waiting.activity;
        // The last thread to arrive has not waited.
        waiting.has_waited = !matches!(
            waited,
            Activity::Compute { .. } | Activity::Fetch { .. } | Activity::Manage { .. } | Activity::Exit
        );
        if waiting.has_waited {
            self.member(thread).waited = waited;
            let is_last = std::mem::take(&mut self.threads[thread].is_last);
            let successful = u64::from(matches!(waited, Activity::Spin { .. }) && !is_last);
            self.jobs[self.threads[thread].job()].account.successful_spins += successful;
        }
    }

    /// A thread reaches its job's barrier. Returns whether it is the last.
    pub(crate) fn arrive(&mut self, thread: usize, on: CpuId) -> bool {
        let arriving = &mut self.threads[thread];
        arriving.arrived = true;
        arriving.has_spun = false;
        let job = &mut self.jobs[arriving.job()];
        job.members[thread - job.threads.start].last_seen = Some(on);
        job.arrivals.push(ThreadId(thread as u32));
        if job.is_missing_listed {
            let number = ThreadId((thread - job.threads.start) as u32);
            // It is among them, since it has not arrived before.
            let _ = job.missing.binary_search_by_key(&number, |missing| missing.thread).map(|n| job.missing.remove(n));
        }
        job.arrivals.len() == job.threads.len()
    }

    /// A thread begins to wait for its job's lock, or for a buffer.
    pub(crate) fn begin_wait(&mut self, thread: ThreadId) {
        let waiting = &mut self.threads[thread.index()];
        let job = &mut self.jobs[waiting.job()];
        waiting.is_waiting = true;
        waiting.has_spun = false;
        let number = thread.index() - job.threads.start;
        let member = &mut job.members[number];
        member.waiter = job.fresh;
        member.recorded_as = ThreadId(job.waits.wrapping_add(job.threads.len() as u32));
        job.waits = job.waits.wrapping_add(1);
        match &mut job.pipeline {
            Some(pipeline) => pipeline.begin_wait(number, thread),
            None => job.lock.begin_wait(thread),
        }
    }

    /// A thread has released its job's lock. Returns how often it has had it. Turns after the
    /// thread's end are not counted in the job.
    pub(crate) fn count_turn(&mut self, thread: usize) -> u64 {
        let turning = &self.threads[thread];
        let job = &mut self.jobs[turning.job()];
        job.rounds_done += u64::from(!turning.has_ended);
        let member = &mut job.members[thread - job.threads.start];
        member.turns += 1;
        member.turns
    }

    /// Completes the barrier of `job`: empties it, and returns the threads that waited there, in
    /// the order of arrival.
    pub(crate) fn complete(&mut self, job: usize) -> Vec<ThreadId> {
        let job = &mut self.jobs[job];
        job.rounds_done += 1;
        job.is_missing_listed = false;
        for thread in &job.arrivals {
            self.threads[thread.index()].arrived = false;
        }
        std::mem::take(&mut job.arrivals)
    }

    /// A thread goes to sleep until its wait is over.
    pub(crate) fn sleep(&mut self, thread: ThreadId) {
        let sleeper = &self.threads[thread.index()];
        let job = &mut self.jobs[sleeper.job()];
        match &mut job.pipeline {
            _ if !sleeper.is_waiting => {}
            Some(pipeline) => pipeline.sleep(thread.index() - job.threads.start, thread),
            None if matches!(job.task, Task::Lock { .. }) => job.lock.sleep(thread),
            None => {}
        }
    }

    /// Counts completed rounds of a pipeline. Returns whether the last round that was asked for is
    /// among them. Later rounds are not counted.
    pub(crate) fn count_rounds(&mut self, job: usize, completed: u64) -> bool {
        let job = &mut self.jobs[job];
        let Task::Pipeline { rounds } = job.task else { return false };
        let missing = rounds - job.rounds_done;
        job.rounds_done += completed.min(missing);
        missing > 0 && missing <= completed
    }

    /// Lists the threads for which a thread waits in [`Job::missing`]: those that are missing at
    /// its barrier, or those of which it has no message.
    pub(crate) fn list_missing(&mut self, thread: ThreadId) {
        let (job, number) = self.job_and_number(thread);
        let job = &mut self.jobs[job];
        if std::mem::replace(&mut job.is_missing_listed, matches!(job.task, Task::Barrier { .. })) {
            return;
        }
        job.missing.clear();
        let missing = |n: u32| Missing { thread: ThreadId(n), last_seen: job.members[n as usize].last_seen };
        match (&job.task, &job.messages) {
            (_, Some(messages)) => job.missing.extend(messages.missing(number).map(missing)),
            (Task::Barrier { .. }, _) => {
                let threads = (0..).zip(&self.threads[job.threads.clone()]);
                job.missing.extend(threads.filter(|(_, thread)| !thread.arrived).map(|(n, _)| missing(n)));
            }
            _ => {}
        }
    }

    /// Whether the threads run for which a thread waits. Nothing is known about those on other
    /// cells.
    pub(crate) fn running(&mut self, thread: ThreadId) -> Running {
        self.list_missing(thread);
        let (job, number) = self.job_and_number(thread);
        let job = &self.jobs[job];
        let is_running =
            |thread: usize| matches!(self.threads[thread].place, Place::Running(_) | Place::SwitchingIn(_));
        if !job.is_team() {
            return match job.lock.owner().map(|owner| is_running(owner.index())) {
                Some(true) => Running::All,
                Some(false) => Running::NotAll,
                None => Running::Unknown,
            };
        }
        let here = job.cell_in_job(number);
        let mut running = Running::All;
        for missing in job.missing.iter().map(|missing| missing.thread.index()) {
            if job.cell_in_job(missing) != here {
                running = Running::Unknown;
            } else if !is_running(job.threads.start + missing) {
                return Running::NotAll;
            }
        }
        running
    }

    /// The outcomes of all jobs if the run is over now.
    pub(crate) fn into_outcomes(mut self, now: Instant) -> Vec<JobOutcome> {
        // Those that have not arrived ran for no time.
        self.jobs.to_come().into_iter().for_each(|job| self.create(job));
        let Workload { jobs, threads, arrivals, .. } = self;
        drop((threads, arrivals));
        jobs.into_outcomes(|job| job.outcome.take().unwrap_or_else(|| job.outcome_at(now, None)))
    }
}
