//! CPUs: what they run, and the switch from one thread to the next.

use policy::record::Recorder;
use policy::{CpuId, Span, ThreadId};

use super::Engine;
use super::account::CpuUse;
use super::event::Event;
use super::observer::{CpuState, LeaveReason, Observer};
use super::scheduler::{Push, ReadyReason, Scheduler};
use super::threads::{Activity, Place};
use super::winner::Key;
use crate::Error;

/// An outgoing thread.
type Leaving = (ThreadId, LeaveReason);

impl<S: Scheduler, R: Recorder + Default, W: Observer + ?Sized> Engine<'_, S, R, W> {
    pub(super) fn ready(&mut self, thread: ThreadId, why: ReadyReason) {
        let may_not_run = self.may_not_run(thread);
        // Of a thread that becomes ready for another reason, the scheduler must know that first.
        if may_not_run && why == ReadyReason::Woken {
            return self.put_aside(thread);
        }
        self.note_ready(thread, why);
        self.scheduler.ready(thread, why, self.now, &mut self.marks);
        if may_not_run {
            self.dequeue(thread);
        }
    }

    pub(super) fn note_ready(&mut self, thread: ThreadId, why: ReadyReason) {
        self.workload.put(thread, Place::Ready, self.now);
        self.observer.thread_ready(self.now, thread, why);
    }

    #[inline]
    pub(super) fn let_marked_cpus_pick(&mut self) {
        self.marks.pending.sort_unstable();
        let count = self.marks.pending.len();
        for number in 0..count {
            let cpu = self.marks.pending[number];
            match self.cpus[cpu.index()].state {
                _ if !self.marks.is_marked(cpu) => {}
                // It picks when its switch is over.
                CpuState::Switching { .. } => {}
                CpuState::Idle => self.pick_when_idle(cpu),
                CpuState::Running(thread) if self.may_not_run(thread) => {
                    self.leave(cpu, thread, LeaveReason::Stopped);
                }
                CpuState::Running(thread) => self.pick_instead_of(cpu, thread, LeaveReason::Preempted),
            }
        }
        self.marks.pending.drain(..count);
    }

    fn pick_when_idle(&mut self, cpu: CpuId) {
        self.note_choice(cpu);
        self.marks.clear(cpu);
        match self.scheduler.pick(cpu, None, self.now) {
            None => self.marks.insert_idle(cpu),
            to => self.switch(cpu, None, to, self.machine.context_switch + self.machine.wakeup_cost),
        }
    }

    /// Lets the scheduler choose between the running thread, if it can continue, and the waiting
    /// ones.
    pub(super) fn pick_instead_of(&mut self, cpu: CpuId, running: ThreadId, how: LeaveReason) {
        self.charge(cpu);
        self.note_choice(cpu);
        self.marks.clear(cpu);
        let can_continue = matches!(how, LeaveReason::Preempted | LeaveReason::Yielding);
        let to = self.scheduler.pick(cpu, can_continue.then_some(running), self.now);
        if to == Some(running) {
            return;
        }
        let account = self.workload.account(running);
        match how {
            // As Linux counts: a thread that yields could have continued.
            LeaveReason::Preempted | LeaveReason::Yielding => account.involuntary += 1,
            LeaveReason::Blocking => account.voluntary += 1,
            LeaveReason::Stopped => {
                account.voluntary += 1;
                account.stops += 1;
            }
            LeaveReason::Ending => {}
        }
        self.switch(cpu, Some((running, how)), to, self.machine.context_switch);
    }

    /// The running thread cannot continue: it blocks, ends or is stopped.
    pub(super) fn leave(&mut self, cpu: CpuId, thread: ThreadId, how: LeaveReason) {
        match how {
            LeaveReason::Blocking => self.scheduler.block(cpu, thread, self.now),
            _ => self.scheduler.leave(cpu, thread, self.now),
        }
        self.pick_instead_of(cpu, thread, how);
    }

    /// Begins a switch that takes `span`.
    pub(super) fn switch(&mut self, cpu: CpuId, from: Option<Leaving>, to: Option<ThreadId>, span: Span) {
        self.charge(cpu);
        self.note_switch(cpu, to);
        let refill = to.map_or(Span::ZERO, |to| self.cores.refill(to, cpu));
        let span = span + self.take_turn_cost(cpu) + refill;
        if let Some((from, _)) = from {
            self.workload.put(from, Place::SwitchingOut(cpu), self.now);
        }
        if let Some(to) = to {
            self.workload.put(to, Place::SwitchingIn(cpu), self.now);
        }
        self.set_cpu_state(cpu, CpuState::Switching { from, to });
        // The thread pays for the switch, but not for waking the CPU.
        self.cpus[cpu.index()].owed = self.machine.context_switch + refill;
        self.queue.set(cpu.index(), self.order.key(self.now + span, Event::SwitchEnds));
    }

    pub(super) fn end_switch(&mut self, cpu: CpuId, from: Option<Leaving>, to: Option<ThreadId>) {
        self.charge(cpu);
        self.set_cpu_state(cpu, to.map_or(CpuState::Idle, CpuState::Running));
        if let Some(to) = to {
            self.workload.put(to, Place::Running(cpu), self.now);
        }
        let moved_to = self.cpus[cpu.index()].moved_to.take();
        match (from, moved_to) {
            // Even if its wait has ended meanwhile, the thread is on its way to that CPU.
            (Some((from, _)), Some(to)) => self.ready(from, ReadyReason::Moved(to)),
            (Some((from, how)), None) => self.finish_leaving(from, how),
            (None, _) => {}
        }
        if let Some((from, _)) = from
            && self.workload.threads[from.index()].is_moving
        {
            self.arrive_in_cell(from);
        }
        match to {
            // It was stopped during the switch.
            Some(to) if self.may_not_run(to) => self.marks.mark(cpu),
            Some(to) => self.dispatch(cpu, to),
            None => self.queue.set(cpu.index(), u64::NEVER),
        }
        if self.marks.is_marked(cpu) || (to.is_none() && self.scheduler.looks_when_idle()) {
            self.marks.mark(cpu);
        } else if to.is_none() {
            self.marks.insert_idle(cpu);
        }
    }

    fn set_cpu_state(&mut self, cpu: CpuId, state: CpuState) {
        let before = self.cpus[cpu.index()].state;
        if (before == CpuState::Idle) == (state == CpuState::Idle) {
            self.cpus[cpu.index()].state = state;
        } else {
            self.with_speeds_of_siblings(cpu, |engine| engine.cpus[cpu.index()].state = state);
        }
        self.observer.cpu_changed(self.now, cpu, state);
    }

    /// The switch away from a thread is over.
    pub(super) fn finish_leaving(&mut self, thread: ThreadId, how: LeaveReason) {
        let activity = self.workload.threads[thread.index()].activity;
        match how {
            LeaveReason::Preempted => self.ready(thread, ReadyReason::Preempted),
            LeaveReason::Yielding => self.ready(thread, ReadyReason::Yielded),
            LeaveReason::Blocking if activity == Activity::Block => self.workload.put(thread, Place::Blocked, self.now),
            // Its barrier completed during the switch.
            LeaveReason::Blocking => self.ready(thread, ReadyReason::Woken),
            LeaveReason::Stopped if self.may_not_run(thread) => self.put_aside(thread),
            // It was resumed during the switch.
            LeaveReason::Stopped => self.ready(thread, ReadyReason::Woken),
            LeaveReason::Ending => {
                self.workload.put(thread, Place::Gone, self.now);
                // Cells still classify jobs that have ended.
                if self.coscheduling.is_none() {
                    self.workload.leave(thread);
                }
            }
        }
    }

    /// The scheduler wants to look at a CPU.
    pub(super) fn alarm(&mut self, cpu: CpuId, thread: ThreadId) -> Result<(), Error> {
        self.charge(cpu);
        let picks = self.scheduler.alarmed(cpu, self.now, &mut self.marks);
        if let Some(another) = picks.another {
            self.marks.mark(another);
            self.pick_when_idle(another);
        }
        if let Some(push) = picks.push {
            self.push(push);
        }
        if picks.this_cpu && self.cpus[cpu.index()].state == CpuState::Running(thread) {
            self.pick_instead_of(cpu, thread, LeaveReason::Preempted);
        }
        if self.cpus[cpu.index()].state == CpuState::Running(thread) {
            if self.scheduler.can_starve() {
                self.count_step_without_headway()?;
            }
            self.cpus[cpu.index()].alarm = self.scheduler.alarm(cpu, self.now);
            self.await_event(cpu, thread);
        }
        Ok(())
    }

    /// The scheduler moves a running thread to another CPU.
    fn push(&mut self, push: Push) {
        if let CpuState::Running(thread) = self.cpus[push.from.index()].state
            && !self.may_not_run(thread)
        {
            self.move_away(push.from, thread, push.to);
        }
    }

    /// A thread leaves its CPU, and is ready on another one when the switch away from it is over.
    pub(super) fn move_away(&mut self, cpu: CpuId, thread: ThreadId, to: CpuId) {
        // As Linux counts: the kernel takes it off its CPU.
        self.workload.account(thread).involuntary += 1;
        self.scheduler.leave(cpu, thread, self.now);
        self.charge(cpu);
        self.marks.clear(cpu);
        let next = self.scheduler.pick(cpu, None, self.now);
        self.switch(cpu, Some((thread, LeaveReason::Preempted)), next, self.machine.context_switch);
        self.cpus[cpu.index()].moved_to = Some(to);
    }

    /// Queues the next event of a CPU that runs `thread`: the end of the thread's activity, or the
    /// alarm.
    pub(super) fn await_event(&mut self, cpu: CpuId, thread: ThreadId) {
        let (left, event) = match self.workload.threads[thread.index()].activity {
            Activity::Compute { left } | Activity::Manage { left } => {
                (self.duration(cpu, thread, left), Event::ComputationEnds)
            }
            Activity::Fetch { left, .. } => (left, Event::ComputationEnds),
            Activity::Spin { left, .. } | Activity::Yield { left, .. } | Activity::CheckRunning { left } => {
                (left, Event::SpinEnds)
            }
            Activity::Move | Activity::Block | Activity::Look | Activity::Exit => (Span::ZERO, Event::ComputationEnds),
        };
        let alarm = self.order.key(self.cpus[cpu.index()].alarm, Event::Alarm);
        self.queue.set(cpu.index(), alarm.min(self.order.key(self.now + left, event)));
    }

    /// Charges the time of a CPU to its use and to the thread that it runs or switches to.
    #[inline]
    pub(super) fn charge(&mut self, cpu: CpuId) {
        let of = &mut self.cpus[cpu.index()];
        let span = self.now.since(of.charged);
        of.charged = self.now;
        match of.state {
            CpuState::Idle => self.time.charge(CpuUse::Idle, span),
            CpuState::Switching { to, .. } => {
                self.time.charge(CpuUse::Switch, span);
                if let Some(to) = to {
                    let switch = span.min(of.owed);
                    of.owed -= switch;
                    self.workload.account(to).charge(CpuUse::Switch, switch);
                }
            }
            CpuState::Running(thread) => {
                let running = &self.workload.threads[thread.index()];
                let (used, job) = (running.activity.use_of_cpu(), running.job());
                self.time.charge(used, span);
                if running.is_awaited {
                    self.headway.ran(self.now, used, span);
                }
                self.advance(cpu, thread, span);
                self.workload.jobs[job].account.charge(used, span);
            }
        }
    }

    pub(super) fn charge_all(&mut self) {
        crate::cpu_ids(self.cpus.len()).for_each(|cpu| self.charge(cpu));
    }
}
