//! The events of a step, and their order.

use policy::waiting::{Decision, Observation, Team, TeamState, Turn};
use policy::{CpuId, Instant, JobId, Span, ThreadId};
use rowlock_sim::observer::{CpuState, LeaveReason, ThreadPhase};
use rowlock_sim::scheduler::ReadyReason;
use scenario::draw::Stream;
use scenario::{Distribution, Machine, Setting, Tie};

use crate::reference::counters::{self, Counters};
use crate::reference::events::{Event, Events};
use crate::reference::kernel::Kernel;
use crate::reference::topology::Topology;
use crate::reference::world::{
    Activity, Counts, Cpu, JobKind, JobState, Place, SimulatedCpu, Thread, ThreadState, World,
};

/// The events that can be due at a CPU in a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    SwitchEnd,
    /// The thread has ended its computation.
    Arrival,
    TimeIsUp,
    SpinEnd,
}

/// The order within a step.
fn order(tie: Tie) -> [Due; 4] {
    match tie {
        Tie::Arrive => [Due::SwitchEnd, Due::Arrival, Due::TimeIsUp, Due::SpinEnd],
        Tie::Timeout => [Due::SwitchEnd, Due::SpinEnd, Due::Arrival, Due::TimeIsUp],
    }
}

pub(crate) struct Reference<K> {
    pub(crate) world: World,
    kernel: K,
    step: Span,
    context_switch: u64,
    topology: Topology,
    /// In steps.
    cache_refill: u64,
    node_refill: u64,
    /// In percent.
    smt_speed: u64,
    keep_running: bool,
    order: [Due; 4],
    pub(crate) events: Events,
    /// Steps of all CPUs: computing, spinning, switching, idle.
    pub(crate) used: [u64; 4],
}

impl<K: Kernel> Reference<K> {
    /// `machine` as in the scenario, with durations that have not been rounded down to its step.
    pub(crate) fn new(machine: &Machine, setting: &Setting, seed: u64, kernel: K) -> Reference<K> {
        let step = machine.step;
        let floored = Machine { context_switch: machine.context_switch.floor_to(step), ..*machine };
        let mut world = World { now: 0, here: None, cpus: Vec::new(), threads: Vec::new(), jobs: Vec::new() };
        for _ in 0..machine.cpus {
            world.cpus.push(SimulatedCpu {
                state: CpuState::Idle,
                switch_left: 0,
                refill: 0,
                idle_since: 0,
                moved_to: None,
            });
        }
        for (name, job) in setting.jobs_with_copies() {
            let (kind, waiting) = match &job.kind {
                scenario::JobKind::Barrier { compute, rounds, waiting, .. } => {
                    let compute = compute.on(floored.context_switch);
                    (JobKind::Barrier { compute, rounds: *rounds }, *waiting)
                }
                scenario::JobKind::Cpu { work, .. } => (
                    JobKind::Cpu { work: work.as_ref().map(Distribution::law) },
                    policy::waiting::WaitingRule::AlwaysBlock,
                ),
                scenario::JobKind::Lock { .. } => panic!("the reference has no locks"),
                scenario::JobKind::Command { .. } => panic!("the reference runs no commands"),
                scenario::JobKind::Pipeline(_) => panic!("the reference has no pipelines"),
                scenario::JobKind::Fibers(_) => panic!("fibers have their own reference"),
                scenario::JobKind::Message(_) => panic!("the reference has no messages"),
            };
            for number in 0..job.kind.threads(machine.cpus) {
                world.threads.push(ThreadState {
                    job: world.jobs.len(),
                    place: Place::Ready,
                    activity: Activity::Endless,
                    last_cpu: None,
                    stream: Stream::named(seed, &name, number),
                    waiter: waiting.waiter(floored.costs()),
                    work_is_done: false,
                });
            }
            let size = job.kind.threads(machine.cpus) as usize;
            let counts = Counts::default();
            let counters = Counters::new(machine, size);
            world.jobs.push(JobState {
                name,
                kind,
                size,
                arrived: Vec::new(),
                met: 0,
                completed: None,
                counts,
                counters,
            });
        }
        let mut reference = Reference {
            world,
            kernel,
            step,
            context_switch: in_steps(floored.context_switch, step),
            topology: Topology::new(machine),
            cache_refill: in_steps(machine.cache_refill, step),
            node_refill: in_steps(machine.node_refill, step),
            smt_speed: machine.smt_speed.into(),
            keep_running: setting.keep_running,
            order: order(machine.tie),
            events: Events::default(),
            used: [0; 4],
        };
        for thread in 0..reference.world.threads.len() {
            reference.begin_computation(thread);
        }
        reference
    }

    /// Runs until the last job that ends has ended, enough events have happened, or none happens
    /// any more.
    pub(crate) fn run(&mut self, seed: u64) {
        let mut threads: Vec<Thread> = (0..self.world.threads.len()).collect();
        Stream::named(seed, "initial queue order", 0).shuffle(&mut threads);
        for &thread in &threads {
            self.tell(Event::ThreadReady(thread_id(thread), ReadyReason::New));
        }
        self.kernel.ready(&self.world, &threads, ReadyReason::New);
        for cpu in 0..self.world.cpus.len() {
            self.schedule(cpu);
        }
        while !self.is_over() && !self.events.are_enough() && !self.is_quiet() {
            if let Some((due, cpu)) = self.next_due() {
                self.process(due, cpu);
                self.serve();
            } else {
                self.a_step_passes();
            }
        }
    }

    /// Whether no event has happened for longer than any thread computes or waits for a turn. Then
    /// none ever will: threads without end continue, and the others are starved.
    fn is_quiet(&self) -> bool {
        let last = self.events.0.last().map_or(0, |(at, _)| at.as_nanos() / self.step.as_nanos());
        self.world.now - last > 2_000_000
    }

    pub(crate) fn is_over(&self) -> bool {
        self.world.jobs.iter().all(|job| job.completed.is_some() || matches!(job.kind, JobKind::Cpu { work: None }))
    }

    fn next_due(&self) -> Option<(Due, Cpu)> {
        for due in self.order {
            for cpu in 0..self.world.cpus.len() {
                if self.is_due(due, cpu) {
                    return Some((due, cpu));
                }
            }
        }
        None
    }

    fn is_due(&self, due: Due, cpu: Cpu) -> bool {
        let Some(thread) = self.world.running_on(cpu) else {
            return due == Due::SwitchEnd && self.world.is_switching(cpu) && self.world.cpus[cpu].switch_left == 0;
        };
        let activity = self.world.threads[thread].activity;
        match due {
            Due::SwitchEnd => false,
            Due::Arrival => matches!(activity, Activity::Computing { left: 0 } | Activity::Fetching { left: 0, .. }),
            Due::TimeIsUp => self.kernel.time_is_up(&self.world, cpu),
            Due::SpinEnd => matches!(activity, Activity::Spinning { spun, limit } if spun >= limit),
        }
    }

    fn process(&mut self, due: Due, cpu: Cpu) {
        self.world.here = Some(cpu);
        match (due, self.world.running_on(cpu)) {
            (Due::Arrival, Some(thread)) => self.end_computation(thread, cpu),
            (Due::SpinEnd, Some(thread)) => self.end_spin(thread, cpu),
            (Due::TimeIsUp, _) => self.time_is_up(cpu),
            (Due::SwitchEnd, _) => self.end_switch(cpu),
            (_, None) => unreachable!("it runs nothing"),
        }
    }

    fn time_is_up(&mut self, cpu: Cpu) {
        let picks = self.kernel.when_time_is_up(&self.world, cpu);
        if let Some(first) = picks.first {
            self.schedule(first);
        }
        if let Some((from, to)) = picks.push {
            self.push(from, to);
        }
        if picks.this_cpu && !self.world.is_switching(cpu) {
            self.schedule(cpu);
        }
    }

    /// The thread that a CPU runs moves to another one. Nothing happens if it switches.
    fn push(&mut self, from: Cpu, to: Cpu) {
        let Some(thread) = self.world.running_on(from) else { return };
        self.count(thread, |counts| counts.preempted += 1);
        self.leave(thread, from, LeaveReason::Preempted);
        self.world.cpus[from].moved_to = Some(to);
    }

    /// CPUs that the last event made schedule do so, by their numbers.
    fn serve(&mut self) {
        for cpu in 0..self.world.cpus.len() {
            if !self.world.is_switching(cpu) && self.kernel.has_to_schedule(&self.world, cpu) {
                self.schedule(cpu);
            }
        }
    }

    fn a_step_passes(&mut self) {
        for cpu in 0..self.world.cpus.len() {
            if let Some(thread) = self.world.thread_on(cpu) {
                let job = &mut self.world.jobs[self.world.threads[thread].job];
                job.counts.cpu += u64::from(job.completed.is_none());
            }
            match self.world.cpus[cpu].state {
                CpuState::Idle => self.used[3] += 1,
                CpuState::Switching { .. } => {
                    self.used[2] += 1;
                    self.world.cpus[cpu].switch_left -= 1;
                }
                CpuState::Running(thread) => {
                    let mut core = self.topology.core(cpu).into_iter();
                    let is_slow = core.any(|other| other != cpu && self.world.cpus[other].state != CpuState::Idle);
                    self.run_for_a_step(thread.index(), if is_slow { self.smt_speed } else { 100 });
                }
            }
        }
        self.world.now += 1;
        self.kernel.pass_step(&self.world);
    }

    fn run_for_a_step(&mut self, thread: Thread, speed: u64) {
        let thread = &mut self.world.threads[thread];
        let job = &mut self.world.jobs[thread.job];
        let counts = u64::from(job.completed.is_none());
        match &mut thread.activity {
            Activity::Spinning { spun, .. } => {
                *spun += 1;
                self.used[1] += 1;
                job.counts.spinning += counts;
            }
            Activity::Fetching { left, .. } => {
                *left -= 1;
                self.used[2] += 1;
            }
            activity => {
                if let Activity::Computing { left } = activity {
                    *left = left.saturating_sub(speed);
                }
                self.used[0] += 1;
                job.counts.working += counts;
            }
        }
    }

    /// The CPU runs the thread that its scheduler chooses. Continuing with the same thread, or with
    /// none, is free.
    fn schedule(&mut self, cpu: Cpu) {
        let previous = self.world.running_on(cpu);
        let next = self.kernel.schedule(&self.world, cpu, previous);
        if next == previous {
            return;
        }
        if let Some(thread) = previous {
            self.count(thread, |counts| counts.preempted += 1);
        }
        self.switch(cpu, previous.map(|thread| (thread, LeaveReason::Preempted)), next);
    }

    fn leave(&mut self, thread: Thread, cpu: Cpu, how: LeaveReason) {
        self.kernel.leave(&self.world, cpu, thread);
        let next = self.kernel.schedule(&self.world, cpu, None);
        self.switch(cpu, Some((thread, how)), next);
    }

    fn switch(&mut self, cpu: Cpu, from: Option<(Thread, LeaveReason)>, to: Option<Thread>) {
        if let Some((thread, how)) = from {
            self.world.threads[thread].place = Place::SwitchingOut(how);
        }
        self.world.cpus[cpu].refill = 0;
        match to {
            Some(thread) => {
                self.world.threads[thread].place = Place::On(cpu);
                let last = self.world.threads[thread].last_cpu.replace(cpu).unwrap_or(cpu);
                if !self.topology.are_one_core(last, cpu) {
                    self.world.cpus[cpu].refill += self.cache_refill;
                }
                if !self.topology.are_one_node(last, cpu) {
                    self.world.cpus[cpu].refill += self.node_refill;
                }
            }
            None => self.world.cpus[cpu].idle_since = self.world.now,
        }
        self.world.cpus[cpu].switch_left = self.context_switch + self.world.cpus[cpu].refill;
        let from = from.map(|(thread, how)| (thread_id(thread), how));
        self.set_cpu_state(cpu, CpuState::Switching { from, to: to.map(thread_id) });
    }

    fn end_switch(&mut self, cpu: Cpu) {
        let CpuState::Switching { from, to } = self.world.cpus[cpu].state else { unreachable!("it switches") };
        self.set_cpu_state(cpu, to.map_or(CpuState::Idle, CpuState::Running));
        self.kernel.end_switch(&self.world, cpu);
        let moved_to = self.world.cpus[cpu].moved_to.take();
        match (from, moved_to) {
            (Some((outgoing, _)), Some(to)) => {
                self.become_ready(&[outgoing.index()], ReadyReason::Moved(CpuId(to as u32)));
            }
            (Some((outgoing, how)), None) => self.finish_leaving(outgoing.index(), how),
            (None, _) => {}
        }
        if let Some(thread) = self.world.running_on(cpu)
            && self.world.threads[thread].activity == Activity::Ending
        {
            self.ends(thread, cpu);
        }
    }

    fn finish_leaving(&mut self, thread: Thread, how: LeaveReason) {
        match how {
            LeaveReason::Preempted => self.become_ready(&[thread], ReadyReason::Preempted),
            // Its barrier completed while it was switching out.
            LeaveReason::Blocking if self.world.threads[thread].activity != Activity::Waiting => {
                self.become_ready(&[thread], ReadyReason::Woken);
            }
            LeaveReason::Blocking => self.world.threads[thread].place = Place::Blocked,
            LeaveReason::Ending => self.world.threads[thread].place = Place::Gone,
            LeaveReason::Yielding | LeaveReason::Stopped => unreachable!("no thread yields or is stopped here"),
        }
    }

    fn become_ready(&mut self, threads: &[Thread], why: ReadyReason) {
        for &thread in threads {
            self.world.threads[thread].place = Place::Ready;
            self.tell(Event::ThreadReady(thread_id(thread), why));
        }
        self.kernel.ready(&self.world, threads, why);
    }

    fn end_computation(&mut self, thread: Thread, cpu: Cpu) {
        if let Activity::Fetching { counter, .. } = self.world.threads[thread].activity {
            return self.write(thread, cpu, counter);
        }
        let job = self.world.threads[thread].job;
        if !matches!(self.world.jobs[job].kind, JobKind::Barrier { .. }) {
            return self.finish_work(thread, cpu);
        }
        let number = self.world.threads[..thread].iter().filter(|other| other.job == job).count();
        match &self.world.jobs[job].counters {
            Some(counters) => self.fetch(thread, cpu, counters.leaf(number)),
            None => self.arrive(thread, cpu),
        }
    }

    /// A thread needs the line of a counter.
    fn fetch(&mut self, thread: Thread, cpu: Cpu, counter: counters::Place) {
        let now = self.world.now;
        let left = self.counters(thread).ask(counter, cpu, now);
        if left > 0 {
            self.world.threads[thread].activity = Activity::Fetching { left, counter };
        } else {
            self.write(thread, cpu, counter);
        }
    }

    /// A thread has the line of a counter.
    fn write(&mut self, thread: Thread, cpu: Cpu, counter: counters::Place) {
        match self.counters(thread).count(counter) {
            Some(next) => self.fetch(thread, cpu, next),
            None => self.arrive(thread, cpu),
        }
    }

    fn counters(&mut self, thread: Thread) -> &mut Counters {
        self.world.jobs[self.world.threads[thread].job].counters.as_mut().expect("it fetches a line")
    }

    fn finish_work(&mut self, thread: Thread, cpu: Cpu) {
        self.world.threads[thread].work_is_done = true;
        if !self.keep_running {
            return self.ends(thread, cpu);
        }
        let job = self.world.threads[thread].job;
        if self.world.threads.iter().all(|other| other.job != job || other.work_is_done) {
            self.complete(job);
        }
        self.begin_computation(thread);
        self.tell(Event::ThreadBegan(thread_id(thread), ThreadPhase::Computation));
    }

    fn ends(&mut self, thread: Thread, cpu: Cpu) {
        self.tell(Event::ThreadBegan(thread_id(thread), ThreadPhase::End));
        self.leave(thread, cpu, LeaveReason::Ending);
        let job = self.world.threads[thread].job;
        let has_ended = |place| matches!(place, Place::Gone | Place::SwitchingOut(LeaveReason::Ending));
        if self.world.threads.iter().all(|other| other.job != job || has_ended(other.place)) {
            self.complete(job);
        }
    }

    fn complete(&mut self, job: usize) {
        let now = self.world.now;
        self.world.jobs[job].completed.get_or_insert(now);
    }

    fn arrive(&mut self, thread: Thread, cpu: Cpu) {
        let job = self.world.threads[thread].job;
        self.world.jobs[job].arrived.push(thread);
        if self.world.jobs[job].arrived.len() == self.world.jobs[job].size {
            return self.complete_barrier(job, thread);
        }
        match self.ask_rule(thread, cpu, Observation::Arrived) {
            Decision::Spin(limit) => {
                // A rule that spins does so for at least a step.
                let limit = in_steps(limit, self.step).max(1);
                self.world.threads[thread].activity = Activity::Spinning { spun: 0, limit };
                self.tell(Event::ThreadBegan(thread_id(thread), ThreadPhase::Spin));
                self.count(thread, |counts| counts.spins += 1);
            }
            Decision::Block => self.blocks(thread, cpu),
            other => panic!("the reference only spins and blocks: {other:?}"),
        }
    }

    fn end_spin(&mut self, thread: Thread, cpu: Cpu) {
        let decision = self.ask_rule(thread, cpu, Observation::Spun(Span::MAX));
        assert_eq!(decision, Decision::Block);
        self.blocks(thread, cpu);
    }

    fn blocks(&mut self, thread: Thread, cpu: Cpu) {
        self.world.threads[thread].activity = Activity::Waiting;
        self.tell(Event::ThreadBegan(thread_id(thread), ThreadPhase::Block));
        self.count(thread, |counts| counts.blocked += 1);
        self.leave(thread, cpu, LeaveReason::Blocking);
    }

    fn ask_rule(&mut self, thread: Thread, cpu: Cpu, seen: Observation) -> Decision {
        let state = &mut self.world.threads[thread];
        let team = Team {
            now: Instant::from_nanos(self.world.now * self.step.as_nanos()),
            threads: self.world.jobs[state.job].size as u32,
            round: self.world.jobs[state.job].met,
            cpus: self.world.cpus.len() as u32,
            own_cpu: CpuId(cpu as u32),
            missing: &[],
            load: 0,
            movable: false,
            draw: 0,
            turn: Turn::NoTurns,
        };
        state.waiter.step(&team, &mut TeamState::default(), seen)
    }

    /// All threads of `job` have met. `last` was the last to arrive; the others spin, block, or
    /// have blocked. Those without a CPU are released first, so that they are offered the CPUs
    /// while those that now end still have theirs.
    fn complete_barrier(&mut self, job: usize, last: Thread) {
        self.tell(Event::BarrierCompletes(JobId(job as u32), thread_id(last)));
        self.world.jobs[job].met += 1;
        let arrived = std::mem::take(&mut self.world.jobs[job].arrived);
        let (running, others): (Vec<Thread>, Vec<Thread>) =
            arrived.into_iter().partition(|&thread| self.cpu_that_runs(thread).is_some());
        let mut woken = Vec::new();
        for thread in others {
            if self.world.threads[thread].activity == Activity::Waiting {
                self.tell(Event::Wakes { waker: thread_id(last), woken: thread_id(thread) });
                if self.world.threads[thread].place == Place::Blocked {
                    woken.push(thread);
                }
            }
            self.release(thread);
        }
        self.become_ready(&woken, ReadyReason::Woken);
        for thread in running {
            self.release(thread);
        }
        if self.world.jobs[job].completed.is_none() && self.has_met_as_often_as_it_should(job) && self.keep_running {
            self.complete(job);
        }
    }

    fn has_met_as_often_as_it_should(&self, job: usize) -> bool {
        let job = &self.world.jobs[job];
        matches!(job.kind, JobKind::Barrier { rounds, .. } if job.met >= rounds)
    }

    /// From the barrier to the next computation, or to the end.
    fn release(&mut self, thread: Thread) {
        if let Activity::Spinning { .. } = self.world.threads[thread].activity {
            self.count(thread, |counts| counts.spins_that_succeeded += 1);
        }
        if !self.has_met_as_often_as_it_should(self.world.threads[thread].job) || self.keep_running {
            self.begin_computation(thread);
            self.tell(Event::ThreadBegan(thread_id(thread), ThreadPhase::Computation));
        } else if let Some(cpu) = self.cpu_that_runs(thread) {
            self.ends(thread, cpu);
        } else {
            self.world.threads[thread].activity = Activity::Ending;
        }
    }

    fn cpu_that_runs(&self, thread: Thread) -> Option<Cpu> {
        (0..self.world.cpus.len()).find(|&cpu| self.world.running_on(cpu) == Some(thread))
    }

    fn begin_computation(&mut self, thread: Thread) {
        let thread = &mut self.world.threads[thread];
        thread.activity = match &self.world.jobs[thread.job].kind {
            JobKind::Barrier { compute, .. } => {
                Activity::Computing { left: 100 * in_steps(compute.draw(&mut thread.stream, self.step), self.step) }
            }
            JobKind::Cpu { work: Some(work) } => {
                // It computes for the same time however often it does.
                let left = work.draw(&mut thread.stream.clone(), self.step);
                Activity::Computing { left: 100 * in_steps(left, self.step) }
            }
            JobKind::Cpu { work: None } => Activity::Endless,
        };
    }

    /// Events after a job's own end are not counted.
    fn count(&mut self, thread: Thread, what: impl FnOnce(&mut Counts)) {
        let job = &mut self.world.jobs[self.world.threads[thread].job];
        if job.completed.is_none() {
            what(&mut job.counts);
        }
    }

    fn set_cpu_state(&mut self, cpu: Cpu, state: CpuState) {
        self.world.cpus[cpu].state = state;
        self.tell(Event::CpuChanged(CpuId(cpu as u32), state));
    }

    fn tell(&mut self, event: Event) {
        let at = Instant::from_nanos(self.world.now * self.step.as_nanos());
        self.events.tell(at, event);
    }
}

fn thread_id(thread: Thread) -> ThreadId {
    ThreadId(thread as u32)
}

/// How many whole steps a span has.
pub(crate) fn in_steps(span: Span, step: Span) -> u64 {
    span.as_nanos() / step.as_nanos()
}
