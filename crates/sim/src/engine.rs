//! The event loop. It takes the earliest event of any CPU, carries it out, and lets the CPUs that were told to pick
//! again do so: in the same moment, after everything that the event set off. It knows no scheduler and no waiting rule.

use policy::record::{Entry, Recorder};
use policy::waiting::{Decision, Observation, Team, TeamState};
use policy::{CpuId, Instant, JobId, Span, ThreadId};
use scenario::result::{MachineOutcome, Outcome};
use scenario::{Machine, Setting};

use crate::Error;
use crate::account::{MachineTime, Use};
use crate::device::{Agenda, Device};
use crate::event::{Event, Order};
use crate::headway::Headway;
use crate::scheduler::{Marks, Scheduler, Why};
use crate::team::{Activity, Crew, ENDLESS, Place, Task, Waited};
use crate::watch::{Begins, Doing, Leaving, Watch};
use crate::winner::{Key, WinnerTree};

/// A CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu {
    pub(crate) doing: Doing,
    /// The moment up to which its time is charged.
    pub(crate) charged: Instant,
    /// When the scheduler wants to look, while it runs a thread.
    alarm: Instant,
    /// While it switches: what of the switch the thread to come has still to be charged.
    owed: Span,
    /// While it switches: the CPU that the thread which leaves has moved to, if it has.
    moved_to: Option<CpuId>,
}

/// One run.
pub(crate) struct Engine<'a, S, R, W: ?Sized> {
    machine: &'a Machine,
    pub(crate) keep_running: bool,
    pub(crate) now: Instant,
    pub(crate) scheduler: S,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) marks: Marks,
    /// The next event of each CPU, and behind them that of the agenda where there are pipelines or jobs to come.
    pub(crate) queue: WinnerTree<u64>,
    pub(crate) order: Order,
    pub(crate) agenda: Agenda,
    pub(crate) device: Device,
    pub(crate) crew: Crew,
    /// Who was awakened in the event at hand: empty between events.
    woken: Vec<ThreadId>,
    team_states: Vec<TeamState>,
    recorders: Vec<R>,
    pub(crate) watch: &'a mut W,
    /// Jobs that the run still waits for.
    jobs_left: usize,
    pub(crate) time: MachineTime,
    events: u64,
    pub(crate) headway: Headway,
}

impl<'a, S: Scheduler, R: Recorder + Default, W: Watch + ?Sized> Engine<'a, S, R, W> {
    pub(crate) fn new(machine: &'a Machine, setting: &Setting, seed: u64, scheduler: S, watch: &'a mut W) -> Self {
        let crew = Crew::new(machine, setting, seed);
        let cpus = machine.cpus as usize;
        let has_agenda = crew.to_come > 0 || crew.jobs.iter().any(|job| job.pipeline.is_some() || job.fibers.is_some());
        let idle =
            Cpu { doing: Doing::Idle, charged: Instant::ZERO, alarm: Instant::ZERO, owed: Span::ZERO, moved_to: None };
        Engine {
            machine,
            keep_running: setting.keep_running,
            now: Instant::ZERO,
            scheduler,
            cpus: vec![idle; cpus],
            marks: Marks::new(cpus),
            queue: WinnerTree::new(cpus + usize::from(has_agenda)),
            order: Order::new(machine.tie),
            agenda: Agenda::default(),
            device: Device::new(machine.device_depth),
            woken: Vec::new(),
            team_states: vec![TeamState::default(); crew.jobs.len()],
            recorders: crew.jobs.iter().map(|_| R::default()).collect(),
            watch,
            headway: Headway::new(machine, setting, crew.threads.len()),
            jobs_left: crew.jobs.iter().filter(|job| !job.is_endless()).count(),
            crew,
            time: MachineTime::default(),
            events: 0,
        }
        .started(seed)
    }

    /// All threads that are there are ready; then all CPUs pick.
    fn started(mut self, seed: u64) -> Self {
        self.begins(seed);
        crate::cpu_ids(self.cpus.len()).for_each(|cpu| self.marks.mark(cpu));
        self.let_told_cpus_pick();
        self
    }

    /// Runs until the last job that ends has ended.
    pub(crate) fn run(mut self) -> Result<(Outcome, Vec<R>), Error> {
        while self.jobs_left > 0 {
            let (slot, key) = self.queue.winner();
            if key == u64::NEVER {
                return Err(self.why_nothing_happens(None));
            }
            let at = Instant::from_nanos(key >> 2);
            debug_assert!(at >= self.now, "time runs backwards: {at} after {}", self.now);
            self.now = at;
            self.events += 1;
            self.marks.happens((slot < self.cpus.len()).then_some(CpuId(slot as u32)));
            if slot == self.cpus.len() {
                self.is_due();
            } else {
                self.happens(CpuId(slot as u32), key)?;
            }
            self.let_told_cpus_pick();
            #[cfg(debug_assertions)]
            crate::check::after_event(&self);
        }
        Ok(self.finish())
    }

    /// The next event of a CPU.
    #[inline]
    fn happens(&mut self, cpu: CpuId, key: u64) -> Result<(), Error> {
        match self.cpus[cpu.index()].doing {
            Doing::Switching { from, to } => {
                self.goes_round()?;
                self.switch_ends(cpu, from, to);
            }
            Doing::Running(thread) if self.order.is(key, Event::Alarm) => self.alarm(cpu, thread)?,
            Doing::Running(thread) => {
                // Whoever the run does not wait for could go on for ever without a switch.
                if !self.crew.threads[thread.index()].is_awaited {
                    self.goes_round()?;
                }
                self.activity_ends(cpu, thread);
            }
            Doing::Idle => self.queue.set(cpu.index(), u64::NEVER),
        }
        Ok(())
    }

    fn finish(mut self) -> (Outcome, Vec<R>) {
        self.charge_all();
        let jobs = (0..self.crew.jobs.len()).map(|job| {
            let frozen = self.crew.jobs[job].outcome.clone();
            frozen.unwrap_or_else(|| self.crew.outcome(job, self.now, None))
        });
        let outcome = Outcome {
            jobs: jobs.collect(),
            machine: MachineOutcome {
                cpus: self.machine.cpus,
                scheduler: self.machine.scheduler.name().to_owned(),
                work_percent: self.time.percent(Use::Work),
                spin_percent: self.time.percent(Use::Spin),
                switch_percent: self.time.percent(Use::Switch),
                idle_percent: self.time.percent(Use::Idle),
                events: Some(self.events),
            },
        };
        (outcome, self.recorders)
    }
}

/// CPUs: what they run, and the way from one thread to the next.
impl<S: Scheduler, R: Recorder + Default, W: Watch + ?Sized> Engine<'_, S, R, W> {
    /// A thread is the scheduler's.
    pub(crate) fn ready(&mut self, thread: ThreadId, why: Why) {
        self.is_ready(thread, why);
        self.scheduler.ready(thread, why, self.now, &mut self.marks);
    }

    fn is_ready(&mut self, thread: ThreadId, why: Why) {
        self.crew.put(thread, Place::Ready);
        self.watch.thread_is_ready(self.now, thread, why);
    }

    #[inline]
    fn let_told_cpus_pick(&mut self) {
        let told = self.marks.take();
        for &cpu in &told {
            match self.cpus[cpu.index()].doing {
                _ if !self.marks.is_marked(cpu) => {}
                // It picks when its switch is over.
                Doing::Switching { .. } => {}
                Doing::Idle => self.pick_from_idleness(cpu),
                Doing::Running(thread) => self.pick_instead_of(cpu, thread, Leaving::Preempted),
            }
        }
        self.marks.put_back(told);
    }

    fn pick_from_idleness(&mut self, cpu: CpuId) {
        self.marks.clear(cpu);
        match self.scheduler.pick(cpu, None, self.now) {
            None => self.marks.rests(cpu),
            to => self.switch(cpu, None, to, self.machine.context_switch + self.machine.wakeup_cost),
        }
    }

    /// Lets the scheduler choose between the thread that runs, if that can go on, and those that wait.
    fn pick_instead_of(&mut self, cpu: CpuId, running: ThreadId, how: Leaving) {
        self.charge(cpu);
        self.marks.clear(cpu);
        let can_go_on = matches!(how, Leaving::Preempted | Leaving::Yielding);
        let to = self.scheduler.pick(cpu, can_go_on.then_some(running), self.now);
        if to == Some(running) {
            return;
        }
        let account = self.crew.account(running);
        match how {
            // As Linux counts: whoever yields could go on.
            Leaving::Preempted | Leaving::Yielding => account.involuntary += 1,
            Leaving::Blocking => account.voluntary += 1,
            Leaving::Ending => {}
        }
        self.switch(cpu, Some((running, how)), to, self.machine.context_switch);
    }

    /// The running thread cannot go on: it blocks or ends.
    pub(crate) fn leave(&mut self, cpu: CpuId, thread: ThreadId, how: Leaving) {
        self.scheduler.gives_up(cpu, thread, how == Leaving::Blocking, self.now);
        self.pick_instead_of(cpu, thread, how);
    }

    fn switch(&mut self, cpu: CpuId, from: Option<(ThreadId, Leaving)>, to: Option<ThreadId>, span: Span) {
        self.charge(cpu);
        if let Some((from, _)) = from {
            self.crew.put(from, Place::Leaving(cpu));
        }
        if let Some(to) = to {
            self.crew.put(to, Place::Coming(cpu));
        }
        self.now_does(cpu, Doing::Switching { from, to });
        // Waking the CPU is not the thread's doing; the switch is.
        self.cpus[cpu.index()].owed = self.machine.context_switch;
        self.queue.set(cpu.index(), self.order.key(self.now + span, Event::SwitchEnds));
    }

    fn switch_ends(&mut self, cpu: CpuId, from: Option<(ThreadId, Leaving)>, to: Option<ThreadId>) {
        self.charge(cpu);
        self.now_does(cpu, to.map_or(Doing::Idle, Doing::Running));
        if let Some(to) = to {
            self.crew.put(to, Place::Running(cpu));
        }
        let moved_to = self.cpus[cpu.index()].moved_to.take();
        match (from, moved_to) {
            // Whatever it has to do by now, it is on its way there.
            (Some((from, _)), Some(to)) => self.ready(from, Why::Moved(to)),
            (Some((from, how)), None) => self.switched_away(from, how),
            (None, _) => {}
        }
        match to {
            Some(to) => self.dispatch(cpu, to),
            None => self.queue.set(cpu.index(), u64::NEVER),
        }
        if self.marks.is_marked(cpu) || (to.is_none() && S::LOOKS_WHEN_IDLE) {
            self.marks.mark(cpu);
        } else if to.is_none() {
            self.marks.rests(cpu);
        }
    }

    fn now_does(&mut self, cpu: CpuId, doing: Doing) {
        self.cpus[cpu.index()].doing = doing;
        self.watch.cpu_does(self.now, cpu, doing);
    }

    /// The switch away from a thread is over.
    fn switched_away(&mut self, thread: ThreadId, how: Leaving) {
        let activity = self.crew.threads[thread.index()].activity;
        match how {
            Leaving::Preempted => self.ready(thread, Why::Preempted),
            Leaving::Yielding => self.ready(thread, Why::Yielded),
            Leaving::Blocking if activity == Activity::Block => self.crew.put(thread, Place::Blocked),
            // Its barrier completed while it was on its way out.
            Leaving::Blocking => self.ready(thread, Why::Woken),
            Leaving::Ending => self.crew.put(thread, Place::Gone),
        }
    }

    /// The scheduler wants to look at a CPU.
    fn alarm(&mut self, cpu: CpuId, thread: ThreadId) -> Result<(), Error> {
        self.charge(cpu);
        let picks = self.scheduler.alarmed(cpu, self.now, &self.marks);
        if let Some(another) = picks.another {
            self.marks.mark(another);
            self.pick_from_idleness(another);
        }
        if picks.this_cpu {
            self.pick_instead_of(cpu, thread, Leaving::Preempted);
        }
        if self.cpus[cpu.index()].doing == Doing::Running(thread) {
            if S::CAN_STARVE {
                self.goes_round()?;
            }
            self.cpus[cpu.index()].alarm = self.scheduler.alarm(cpu, self.now);
            self.await_event(cpu, thread);
        }
        Ok(())
    }

    /// Puts the next event of a CPU that runs `thread` into the queue: the end of what the thread does, or the alarm.
    pub(crate) fn await_event(&mut self, cpu: CpuId, thread: ThreadId) {
        let (left, event) = match self.crew.threads[thread.index()].activity {
            Activity::Compute { left } | Activity::Manage { left } => (left, Event::ComputationEnds),
            Activity::Spin { left, .. } | Activity::Yield { left, .. } => (left, Event::SpinEnds),
            Activity::Move | Activity::Block | Activity::Look | Activity::Exit => (Span::ZERO, Event::ComputationEnds),
        };
        let alarm = self.order.key(self.cpus[cpu.index()].alarm, Event::Alarm);
        self.queue.set(cpu.index(), alarm.min(self.order.key(self.now + left, event)));
    }

    /// Charges the time of a CPU to what it does and to the thread that it does it for.
    #[inline]
    pub(crate) fn charge(&mut self, cpu: CpuId) {
        let cpu = &mut self.cpus[cpu.index()];
        let span = self.now.since(cpu.charged);
        cpu.charged = self.now;
        match cpu.doing {
            Doing::Idle => self.time.charge(Use::Idle, span),
            Doing::Switching { to, .. } => {
                self.time.charge(Use::Switch, span);
                if let Some(to) = to {
                    let switch = span.min(cpu.owed);
                    cpu.owed -= switch;
                    self.crew.account(to).charge(Use::Switch, switch);
                }
            }
            Doing::Running(thread) => {
                let thread = &mut self.crew.threads[thread.index()];
                let used = thread.activity.use_of_cpu();
                self.time.charge(used, span);
                if thread.is_awaited {
                    self.headway.ran(self.now, used, span);
                }
                thread.ran(span);
                self.crew.jobs[thread.job()].account.charge(used, span);
            }
        }
    }

    pub(crate) fn charge_all(&mut self) {
        crate::cpu_ids(self.cpus.len()).for_each(|cpu| self.charge(cpu));
    }
}

/// Threads: what they do with a CPU, and the barrier. The lock has a module of its own.
impl<S: Scheduler, R: Recorder + Default, W: Watch + ?Sized> Engine<'_, S, R, W> {
    /// A thread gets its CPU.
    fn dispatch(&mut self, cpu: CpuId, thread: ThreadId) {
        self.cpus[cpu.index()].alarm = self.scheduler.alarm(cpu, self.now);
        if self.crew.threads[thread.index()].has_waited() {
            self.wait_is_over(thread);
        }
        match self.crew.threads[thread.index()].activity {
            Activity::Spin { .. } | Activity::Yield { .. } | Activity::Move | Activity::Look
                if self.finds_what_it_waits_for(thread) =>
            {
                self.takes_what_it_waited_for(cpu, thread);
            }
            Activity::Look if self.crew.has_fibers(thread) => self.runs_fibers(cpu, thread),
            Activity::Look => self.looks(cpu, thread),
            Activity::Yield { since, .. } => self.decide(cpu, thread, Observation::Yielded(self.now.since(since))),
            Activity::Move => self.decide(cpu, thread, Observation::Moved),
            Activity::Exit => self.end(cpu, thread),
            Activity::Compute { .. } | Activity::Manage { .. } | Activity::Spin { .. } | Activity::Block => {
                self.await_event(cpu, thread);
            }
        }
    }

    /// A thread is through with what it did on its CPU.
    fn activity_ends(&mut self, cpu: CpuId, thread: ThreadId) {
        self.charge(cpu);
        match self.crew.threads[thread.index()].activity {
            Activity::Compute { .. } => self.computation_ends(cpu, thread),
            Activity::Manage { .. } => self.runs_fibers(cpu, thread),
            Activity::Spin { asked, .. } => self.decide(cpu, thread, Observation::Spun(asked)),
            Activity::Yield { since, .. } => self.yield_cpu(cpu, thread, since),
            Activity::Move | Activity::Block | Activity::Look | Activity::Exit => {
                debug_assert!(false, "thread {thread} has no business on CPU {cpu}");
            }
        }
    }

    fn computation_ends(&mut self, cpu: CpuId, thread: ThreadId) {
        match self.crew.jobs[self.crew.threads[thread.index()].job()].task {
            Task::Barrier { rounds, .. } => {
                if self.crew.arrive(thread.index(), cpu) {
                    self.barrier_completes(thread, rounds);
                } else {
                    self.decide(cpu, thread, Observation::Arrived);
                }
            }
            Task::Lock { rounds, .. } => self.comes_to_lock(cpu, thread, rounds),
            Task::Pipeline { .. } => self.has_computed(cpu, thread),
            Task::Fibers => self.runs_fibers(cpu, thread),
            Task::Cpu { .. } if self.keep_running => {
                self.count_as_ended(thread);
                self.begin(thread);
                self.await_event(cpu, thread);
            }
            Task::Cpu { .. } => self.end(cpu, thread),
        }
    }

    /// All are there. Those off the CPUs go first, so that a thread which leaves its CPU for good leaves it to them.
    fn barrier_completes(&mut self, last: ThreadId, rounds: u64) {
        let job = self.crew.threads[last.index()].job();
        self.watch.barrier_completes(self.now, JobId(job as u32), last);
        let arrivals = self.crew.complete(job);
        let done = self.crew.jobs[job].rounds_done == rounds;
        let ends = done && !self.keep_running;
        for &thread in &arrivals {
            if !self.is_running(thread) {
                self.release(thread, last, ends);
            }
        }
        let mut woken = std::mem::take(&mut self.woken);
        woken.iter().for_each(|&thread| self.is_ready(thread, Why::Woken));
        self.scheduler.woken(&woken, self.now, &mut self.marks);
        woken.clear();
        self.woken = woken;
        for &thread in &arrivals {
            if self.is_running(thread) {
                self.release(thread, last, ends);
            }
        }
        self.crew.keep(arrivals);
        if done && self.keep_running {
            self.freeze(job);
        }
    }

    fn is_running(&self, thread: ThreadId) -> bool {
        matches!(self.crew.threads[thread.index()].place, Place::Running(_))
    }

    /// Lets a thread go on after its barrier.
    fn release(&mut self, thread: ThreadId, last: ThreadId, ends: bool) {
        let place = self.crew.threads[thread.index()].place;
        if let Place::Running(cpu) = place {
            self.charge(cpu);
        }
        if self.crew.threads[thread.index()].activity == Activity::Block {
            self.watch.wakes(self.now, last, thread);
        }
        self.crew.has_come(thread.index());
        if ends {
            self.crew.threads[thread.index()].activity = Activity::Exit;
        } else {
            self.begin(thread);
        }
        if matches!(place, Place::Running(_)) {
            self.wait_is_over(thread);
        }
        match place {
            Place::Running(cpu) if ends => self.end(cpu, thread),
            Place::Running(cpu) => self.await_event(cpu, thread),
            Place::Blocked => self.woken.push(thread),
            // It goes on when it next has a CPU.
            Place::Ready | Place::Coming(_) | Place::Leaving(_) | Place::Gone => {}
        }
    }

    /// A thread that has a CPU finds that what it waited for has come, and tells its rule what it saw last.
    pub(crate) fn wait_is_over(&mut self, thread: ThreadId) {
        let seen = match self.crew.takes_note(thread.index()) {
            Some(Waited::Spinning(span)) => Observation::Spun(span),
            Some(Waited::Yielding(since)) => Observation::Yielded(self.now.since(since)),
            Some(Waited::Moving) => Observation::Moved,
            Some(Waited::Sleeping) => Observation::Woken,
            None => return,
        };
        let job = self.crew.threads[thread.index()].job();
        let waiting = self.crew.member(thread.index());
        let state = &mut self.team_states[job];
        if R::ON {
            let entry = Entry::over(waiting.recorded_as, self.now, *state, seen);
            self.recorders[job].record(entry);
        }
        waiting.waiter.over(self.now, state, seen);
    }

    /// A thread begins its next computation, on a CPU or not.
    pub(crate) fn begin(&mut self, thread: ThreadId) {
        self.crew.begin(thread.index());
        self.watch.thread_begins(self.now, thread, Begins::Computation);
    }

    /// Asks the waiting rule, and does as it says.
    pub(crate) fn decide(&mut self, cpu: CpuId, thread: ThreadId, seen: Observation) {
        let index = thread.index();
        let job = self.crew.threads[index].job();
        let wants = self.crew.member(index).waiter.wants();
        let missing = if wants.missing || R::ON { self.crew.missing(job) } else { Vec::new() };
        let load = if wants.load { self.crew.load(job) } else { 0 };
        let draw = if wants.draw { self.crew.draw(index) } else { 0 };
        let team = Team { load, movable: S::MOVES, draw, ..self.crew.team(job, cpu, self.now, &missing) };
        let before = self.team_states[job];
        let member = self.crew.member(index);
        let decision = member.waiter.step(&team, &mut self.team_states[job], seen);
        if R::ON {
            self.recorders[job].record(Entry::new(member.recorded_as, &team, before, seen, decision));
        }
        let waiting = &mut self.crew.threads[index];
        let step = self.machine.step;
        let begins = match decision {
            Decision::Spin(_) => Begins::Spin,
            Decision::Yield => Begins::Yield,
            Decision::Block => Begins::Block,
            Decision::Move(_) => Begins::Yield,
        };
        self.watch.thread_begins(self.now, thread, begins);
        match decision {
            Decision::Spin(span) => {
                let left = if span == ENDLESS { span } else { span.floor_to(step).max(step) };
                waiting.activity = Activity::Spin { left, asked: span };
                let is_first = !std::mem::replace(&mut waiting.has_spun, true);
                self.crew.jobs[job].account.spins += u64::from(is_first);
                self.await_event(cpu, thread);
            }
            Decision::Yield => {
                waiting.activity = Activity::Yield { left: self.machine.yield_cost.max(step), since: self.now };
                self.await_event(cpu, thread);
            }
            Decision::Move(to) => self.move_over(cpu, thread, to),
            Decision::Block => {
                waiting.activity = Activity::Block;
                self.crew.sleeps(thread);
                self.leave(cpu, thread, Leaving::Blocking);
            }
        }
    }

    /// A thread goes over to another CPU: it leaves this one, and is ready there when the switch away from it is over.
    fn move_over(&mut self, cpu: CpuId, thread: ThreadId, to: CpuId) {
        if !S::MOVES || to == cpu || to.index() >= self.cpus.len() {
            return self.decide(cpu, thread, Observation::Moved);
        }
        let moving = &mut self.crew.threads[thread.index()];
        moving.activity = Activity::Move;
        // As Linux counts: the kernel takes it off its CPU.
        self.crew.account(thread).involuntary += 1;
        self.scheduler.leave(cpu, thread, self.now);
        self.charge(cpu);
        self.marks.clear(cpu);
        let next = self.scheduler.pick(cpu, None, self.now);
        self.switch(cpu, Some((thread, Leaving::Preempted)), next, self.machine.context_switch);
        self.cpus[cpu.index()].moved_to = Some(to);
    }

    /// The system call of a yield has come to the scheduler.
    fn yield_cpu(&mut self, cpu: CpuId, thread: ThreadId, since: Instant) {
        self.scheduler.yields(cpu, thread, self.now);
        self.pick_instead_of(cpu, thread, Leaving::Yielding);
        if self.cpus[cpu.index()].doing != Doing::Running(thread) {
            return;
        }
        if self.finds_what_it_waits_for(thread) {
            self.takes_what_it_waited_for(cpu, thread);
        } else {
            self.decide(cpu, thread, Observation::Yielded(self.now.since(since)));
        }
    }

    /// A thread has done all that it is there for.
    pub(crate) fn end(&mut self, cpu: CpuId, thread: ThreadId) {
        self.crew.threads[thread.index()].activity = Activity::Exit;
        self.watch.thread_begins(self.now, thread, Begins::End);
        self.count_as_ended(thread);
        self.leave(cpu, thread, Leaving::Ending);
    }

    /// Counts a thread's end, or where jobs keep running what would have been its end, once.
    pub(crate) fn count_as_ended(&mut self, thread: ThreadId) {
        let ending = &mut self.crew.threads[thread.index()];
        if std::mem::replace(&mut ending.has_ended, true) {
            return;
        }
        ending.is_awaited = false;
        let job = ending.job();
        self.crew.jobs[job].threads_left -= 1;
        if self.crew.jobs[job].threads_left == 0 {
            self.freeze(job);
        }
    }

    /// A job has ended, or where jobs keep running what would have been its end: takes down what it came to.
    pub(crate) fn freeze(&mut self, job: usize) {
        self.charge_all();
        self.crew.threads[self.crew.jobs[job].threads.clone()].iter_mut().for_each(|thread| thread.is_awaited = false);
        self.headway.ended(self.now);
        self.crew.jobs[job].outcome = Some(self.crew.outcome(job, self.now, Some(self.now)));
        self.jobs_left -= 1;
    }
}
