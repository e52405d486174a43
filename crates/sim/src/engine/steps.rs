//! The activities of threads: computations, waits, and the barrier. Locks, pipelines, fibers and
//! messages have modules of their own.

use policy::record::{RecordedStep, Recorder};
use policy::waiting::{Decision, Missing, Observation, Running, Team, Turn};
use policy::{CpuId, Instant, JobId, Span, ThreadId};

use super::Engine;
use super::device::TimedEvent;
use super::job::Task;
use super::observer::{CpuState, LeaveReason, Observer, ThreadPhase};
use super::scheduler::{ReadyReason, Scheduler};
use super::threads::{Activity, ENDLESS, Place};

/// The time that a check takes: two readings of the CPU clock of a thread on the host.
const CHECK: Span = Span::from_nanos(600);

impl<S: Scheduler, R: Recorder + Default, W: Observer + ?Sized> Engine<'_, S, R, W> {
    pub(super) fn dispatch(&mut self, cpu: CpuId, thread: ThreadId) {
        self.cpus[cpu.index()].alarm = self.scheduler.alarm(cpu, self.now);
        self.end_wait(thread);
        match self.workload.threads[thread.index()].activity {
            Activity::Spin { .. }
            | Activity::Yield { .. }
            | Activity::CheckRunning { .. }
            | Activity::Move
            | Activity::Look
                if self.can_end_wait(thread) =>
            {
                self.take_awaited(cpu, thread);
            }
            Activity::Look => self.look(cpu, thread),
            Activity::Yield { since, .. } => self.decide(cpu, thread, Observation::Yielded(self.now.since(since))),
            Activity::Move => self.decide(cpu, thread, Observation::Moved),
            Activity::Exit => self.end(cpu, thread),
            Activity::Compute { .. }
            | Activity::Fetch { .. }
            | Activity::Manage { .. }
            | Activity::Spin { .. }
            | Activity::CheckRunning { .. }
            | Activity::Block => self.await_event(cpu, thread),
        }
    }

    /// A thread that was woken, or that runs for the first time, looks what there is to do.
    fn look(&mut self, cpu: CpuId, thread: ThreadId) {
        let of = &self.workload.threads[thread.index()];
        match self.workload.jobs[of.job()].task {
            _ if of.is_waiting => self.decide(cpu, thread, Observation::Woken),
            Task::Fibers => self.run_fibers(cpu, thread),
            Task::Messages => self.run_rank(cpu, thread),
            _ => self.convey(cpu, thread),
        }
    }

    pub(super) fn end_activity(&mut self, cpu: CpuId, thread: ThreadId) {
        self.charge(cpu);
        match self.workload.threads[thread.index()].activity {
            Activity::Compute { .. } => self.end_computation(cpu, thread),
            Activity::Fetch { counter, .. } => self.count_arrival(cpu, thread, counter),
            Activity::Manage { .. } => self.run_fibers(cpu, thread),
            Activity::Spin { asked, .. } => self.decide(cpu, thread, Observation::Spun(asked)),
            Activity::Yield { since, .. } => self.yield_cpu(cpu, thread, since),
            Activity::CheckRunning { .. } if self.can_end_wait(thread) => self.take_awaited(cpu, thread),
            Activity::CheckRunning { .. } => {
                let running = self.workload.running(thread);
                self.decide(cpu, thread, Observation::Checked(running));
            }
            Activity::Move | Activity::Block | Activity::Look | Activity::Exit => {
                debug_assert!(false, "thread {thread} on CPU {cpu} has no activity that can end");
            }
        }
    }

    fn end_computation(&mut self, cpu: CpuId, thread: ThreadId) {
        match self.workload.jobs[self.workload.threads[thread.index()].job()].task {
            Task::Barrier { .. } => self.begin_arrival(cpu, thread),
            Task::Lock { rounds, .. } => self.reach_lock(cpu, thread, rounds),
            Task::Pipeline { .. } => self.finish_computation(cpu, thread),
            Task::Fibers => self.run_fibers(cpu, thread),
            Task::Messages => self.run_rank(cpu, thread),
            Task::Cpu { .. } if self.keep_running => {
                self.count_as_ended(thread);
                self.begin(thread);
                self.await_event(cpu, thread);
            }
            Task::Cpu { .. } => self.end(cpu, thread),
        }
    }

    fn begin_arrival(&mut self, cpu: CpuId, thread: ThreadId) {
        let (job, number) = self.workload.job_and_number(thread);
        match &self.workload.jobs[job].counters {
            Some(counters) => self.fetch_counter(cpu, thread, counters.first(number)),
            None => self.reach_barrier(cpu, thread),
        }
    }

    /// A thread needs the cache line of a counter.
    fn fetch_counter(&mut self, cpu: CpuId, thread: ThreadId, counter: u32) {
        let job = self.workload.threads[thread.index()].job();
        let counters = &mut self.workload.jobs[job].counters;
        let left = counters.as_mut().map_or(Span::ZERO, |counters| counters.fetch(counter, cpu, self.now));
        if left.is_zero() {
            return self.count_arrival(cpu, thread, counter);
        }
        self.workload.threads[thread.index()].activity = Activity::Fetch { left, counter };
        self.await_event(cpu, thread);
    }

    /// A thread writes a counter, and goes on to the next one or to the barrier.
    fn count_arrival(&mut self, cpu: CpuId, thread: ThreadId, counter: u32) {
        let job = self.workload.threads[thread.index()].job();
        match self.workload.jobs[job].counters.as_mut().and_then(|counters| counters.count(counter)) {
            Some(next) => self.fetch_counter(cpu, thread, next),
            None => self.reach_barrier(cpu, thread),
        }
    }

    /// On a machine with cells, the last thread to arrive waits, too, for the hardware barrier.
    fn reach_barrier(&mut self, cpu: CpuId, thread: ThreadId) {
        let is_last = self.workload.arrive(thread.index(), cpu);
        if is_last && self.machine.cells.is_none() {
            return self.complete_barrier(thread);
        }
        if is_last {
            self.workload.threads[thread.index()].is_last = true;
            let at = self.now + self.machine.network.barrier;
            self.set_timed_event(at, TimedEvent::BarrierCompletes(thread));
        }
        self.decide(cpu, thread, Observation::Arrived);
    }

    /// All threads have arrived. The threads without a CPU are released first, so that a thread
    /// which leaves its CPU for good leaves it to them.
    pub(super) fn complete_barrier(&mut self, last: ThreadId) {
        let job = self.workload.threads[last.index()].job();
        self.observer.barrier_completed(self.now, JobId(job as u32), last);
        let mut arrivals = self.workload.complete(job);
        let of = &self.workload.jobs[job];
        let done = matches!(of.task, Task::Barrier { rounds, .. } if of.rounds_done == rounds);
        let ends = done && !self.keep_running;
        for &thread in &arrivals {
            if !self.is_running(thread) {
                self.release(thread, last, ends);
            }
        }
        (0..self.woken.len()).for_each(|number| self.note_ready(self.woken[number], ReadyReason::Woken));
        self.scheduler.woken(&self.woken, self.now, &mut self.marks);
        self.woken.clear();
        for &thread in &arrivals {
            if self.is_running(thread) {
                self.release(thread, last, ends);
            }
        }
        // Reuses the memory.
        arrivals.clear();
        self.workload.jobs[job].arrivals = arrivals;
        if done && self.keep_running {
            self.freeze(job);
        }
    }

    fn is_running(&self, thread: ThreadId) -> bool {
        matches!(self.workload.threads[thread.index()].place, Place::Running(_))
    }

    fn release(&mut self, thread: ThreadId, last: ThreadId, ends: bool) {
        let place = self.workload.threads[thread.index()].place;
        if let Place::Running(cpu) = place {
            self.charge(cpu);
        }
        if thread != last && self.workload.threads[thread.index()].activity == Activity::Block {
            self.observer.thread_woken(self.now, last, thread);
        }
        self.workload.note_wait_over(thread.index());
        if ends {
            self.workload.threads[thread.index()].activity = Activity::Exit;
        } else {
            self.begin(thread);
        }
        match place {
            Place::Running(cpu) => {
                self.end_wait(thread);
                if ends { self.end(cpu, thread) } else { self.await_event(cpu, thread) }
            }
            Place::Blocked if self.may_not_run(thread) => self.put_aside(thread),
            Place::Blocked => self.woken.push(thread),
            // It continues when it next has a CPU.
            Place::Ready | Place::Stopped | Place::SwitchingIn(_) | Place::SwitchingOut(_) | Place::Gone => {}
        }
    }

    /// A thread that has a CPU finds that its wait is over, if it is, and tells its rule its last
    /// observation.
    #[inline]
    pub(super) fn end_wait(&mut self, thread: ThreadId) {
        if !std::mem::take(&mut self.workload.threads[thread.index()].has_waited) {
            return;
        }
        let (job, number) = self.workload.job_and_number(thread);
        let of = &mut self.workload.jobs[job];
        let (waiting, state) = (&mut of.members[number], &mut of.team_state);
        let seen = match waiting.waited {
            Activity::Spin { left, asked } => Observation::Spun(asked - left),
            Activity::Yield { since, .. } => Observation::Yielded(self.now.since(since)),
            Activity::Move => Observation::Moved,
            Activity::CheckRunning { .. } => Observation::Checked(Running::All),
            _ => Observation::Woken,
        };
        if R::ON {
            let entry = RecordedStep::over(waiting.recorded_as, self.now, *state, seen);
            self.recorders[job].record(entry);
        }
        waiting.waiter.over(self.now, state, seen);
    }

    /// A thread begins its next computation, with a CPU or without.
    pub(super) fn begin(&mut self, thread: ThreadId) {
        self.workload.begin(thread.index());
        self.observer.thread_began(self.now, thread, ThreadPhase::Computation);
    }

    /// Asks the waiting rule, and carries out its decision.
    pub(super) fn decide(&mut self, cpu: CpuId, thread: ThreadId, seen: Observation) {
        let index = thread.index();
        let inputs = self.workload.member(index).waiter.inputs();
        let load = if inputs.load { self.workload.load(thread) } else { 0 };
        let draw = if inputs.draw { self.workload.draw(index) } else { 0 };
        let lists_missing = inputs.missing || R::ON;
        if lists_missing {
            self.workload.list_missing(thread);
        }
        let (own_cpu, first) = self.number_in_cell(cpu);
        let (job, number) = self.workload.job_and_number(thread);
        let of = &mut self.workload.jobs[job];
        let threads = if of.is_team() { of.threads_on_cell_of(number) } else { 0 };
        let round = if of.is_team() { of.rounds_done } else { 0 };
        let missing = match &of.missing[..] {
            _ if !lists_missing => &[],
            all if self.machine.cells.is_none() => all,
            all => {
                // The CPUs of other cells are unknown to a thread.
                let seen =
                    |cpu: CpuId| cpu.0.checked_sub(first).filter(|number| *number < self.machine.cpus).map(CpuId);
                let in_cell = |missing: &Missing| Missing { last_seen: missing.last_seen.and_then(seen), ..*missing };
                self.missing.clear();
                self.missing.extend(all.iter().map(in_cell));
                &self.missing
            }
        };
        let (now, cpus, movable, turn) = (self.now, self.machine.cpus, self.scheduler.moves(), Turn::NoTurns);
        let team = Team { now, threads, round, cpus, own_cpu, missing, load, movable, draw, turn };
        let before = of.team_state;
        let member = &mut of.members[number];
        let decision = member.waiter.step(&team, &mut of.team_state, seen);
        if R::ON {
            self.recorders[job].record(RecordedStep::new(member.recorded_as, &team, before, seen, decision));
        }
        let begins = match decision {
            Decision::Spin(_) | Decision::CheckRunning => ThreadPhase::Spin,
            Decision::Yield | Decision::Move(_) => ThreadPhase::Yield,
            Decision::Block => ThreadPhase::Block,
        };
        self.observer.thread_began(self.now, thread, begins);
        let waiting = &mut self.workload.threads[index];
        let step = self.machine.step;
        match decision {
            Decision::Spin(span) => {
                let left = if span == ENDLESS { span } else { span.floor_to(step).max(step) };
                waiting.activity = Activity::Spin { left, asked: span };
                let is_first = !std::mem::replace(&mut waiting.has_spun, true) && !waiting.is_last;
                self.workload.jobs[job].account.spins += u64::from(is_first);
                self.await_event(cpu, thread);
            }
            Decision::Yield => {
                waiting.activity = Activity::Yield { left: self.machine.yield_cost.max(step), since: self.now };
                self.await_event(cpu, thread);
            }
            Decision::CheckRunning => {
                waiting.activity = Activity::CheckRunning { left: CHECK.floor_to(step).max(step) };
                self.await_event(cpu, thread);
            }
            Decision::Move(to) => self.migrate(cpu, thread, CpuId(first.saturating_add(to.0))),
            Decision::Block => {
                waiting.activity = Activity::Block;
                self.workload.sleep(thread);
                self.leave(cpu, thread, LeaveReason::Blocking);
            }
        }
    }

    /// A thread is blocked until another one or the device wakes it, or until this moment.
    pub(super) fn sleep(&mut self, cpu: CpuId, thread: ThreadId, until: Option<Instant>) {
        self.workload.threads[thread.index()].activity = Activity::Block;
        self.observer.thread_began(self.now, thread, ThreadPhase::Block);
        if let Some(until) = until {
            self.set_timed_event(until, TimedEvent::SleepOver(thread));
        }
        self.leave(cpu, thread, LeaveReason::Blocking);
    }

    /// A thread moves to another CPU that it has named.
    fn migrate(&mut self, cpu: CpuId, thread: ThreadId, to: CpuId) {
        let is_there = to.index() < self.cpus.len() && self.cell_of(to) == self.cell_of(cpu);
        if !self.scheduler.moves() || to == cpu || !is_there {
            return self.decide(cpu, thread, Observation::Moved);
        }
        self.workload.threads[thread.index()].activity = Activity::Move;
        self.move_away(cpu, thread, to);
    }

    /// The system call of a yield reaches the scheduler.
    fn yield_cpu(&mut self, cpu: CpuId, thread: ThreadId, since: Instant) {
        self.scheduler.note_yield(cpu, thread, self.now);
        self.pick_instead_of(cpu, thread, LeaveReason::Yielding);
        if self.cpus[cpu.index()].state != CpuState::Running(thread) {
            return;
        }
        if self.can_end_wait(thread) {
            self.take_awaited(cpu, thread);
        } else {
            self.decide(cpu, thread, Observation::Yielded(self.now.since(since)));
        }
    }

    /// A thread has completed its work.
    pub(super) fn end(&mut self, cpu: CpuId, thread: ThreadId) {
        self.workload.threads[thread.index()].activity = Activity::Exit;
        self.observer.thread_began(self.now, thread, ThreadPhase::End);
        self.count_as_ended(thread);
        self.leave(cpu, thread, LeaveReason::Ending);
    }

    /// Counts a thread's end, once. If jobs keep running, counts the first completion of its work.
    pub(super) fn count_as_ended(&mut self, thread: ThreadId) {
        let ending = &mut self.workload.threads[thread.index()];
        if std::mem::replace(&mut ending.has_ended, true) {
            return;
        }
        ending.is_awaited = false;
        let job = ending.job();
        self.workload.jobs[job].threads_left -= 1;
        if self.workload.jobs[job].threads_left == 0 {
            self.freeze(job);
        }
    }

    /// A job has ended or, if jobs keep running, has completed its work: stores its outcome.
    pub(super) fn freeze(&mut self, job: usize) {
        self.charge_all();
        self.workload.threads[self.workload.jobs[job].threads.clone()]
            .iter_mut()
            .for_each(|thread| thread.is_awaited = false);
        self.headway.ended(self.now);
        let of = &mut self.workload.jobs[job];
        of.outcome = Some(of.outcome_at(self.now, Some(self.now)));
        self.jobs_left -= 1;
        if !self.keep_running {
            self.release_cells(job);
        }
    }
}
