//! The threads that carry out the stages of a pipeline job, as those of `rowlock-pipeline` do.
//!
//! * **Take.** A thread without a round takes a buffer if one waits for one of its stages. A thread
//!   with several stages takes one for the stage whose turn it is, a worker for the stage nearest
//!   to the end. Otherwise it waits, as its rule decides. Of the threads that spin with a CPU, the
//!   one that has waited longest takes the next buffer.
//! * **Compute, then wait.** A stage computes first. Then the device serves it, or its message is
//!   on its way, and its thread is blocked. The thread conveys the buffer when it has a CPU again.
//! * **Convey.** The rounds of a stage leave it in order, whichever copy ends first. A thread that
//!   conveys first takes what it can itself. Then it wakes sleepers for the rest: in each group of
//!   threads, as many as could take a buffer and are not awake. Those that went to sleep last are
//!   woken first.
//! * **End.** When the last round of a stage is taken, the threads that wait for nothing else end.
//! * **Restart.** If jobs keep running, the pipeline starts again with the same rounds when its
//!   last round is over.
//! * **Priorities.** The priority rule decides at every take and every conveyance, its controller
//!   periodically. A raised or lowered priority is worth five nice values, from that moment on. A
//!   thread with several stages has the highest priority of any of them, and the nice value of the
//!   first one that has its own. Workers are not subject to decisions at queues: they have the
//!   priority of their stages.
//!
//! Taking, conveying and waking cost nothing beyond the switches that they cause. No waiter knows
//! which thread will bring its buffer, so each wait starts with a fresh waiter.

use policy::priority::{MachineObservation, PriorityController};
use policy::record::Recorder;
use policy::waiting::Observation;
use policy::{CpuId, Span, ThreadId};

use super::Engine;
use super::device::TimedEvent;
use super::event::Event;
use super::job::Task;
use super::observer::{Observer, ThreadPhase};
use super::scheduler::{ReadyReason, Scheduler};
use super::threads::{Activity, Place};
use super::winner::Key;
use crate::Error;
use crate::workloads::pipeline::{Pipeline, Request};

impl<S: Scheduler, R: Recorder + Default, W: Observer + ?Sized> Engine<'_, S, R, W> {
    /// Sets the nice values and starts the controller of a job with stages, before it runs.
    pub(super) fn prepare_pipeline(&mut self, job: usize) {
        self.renice_all(job);
        let now = self.now;
        let Some(pipeline) = &mut self.workload.jobs[job].pipeline else { return };
        if pipeline.begin(now) {
            self.set_timed_event(now + PriorityController::PERIOD, TimedEvent::PriorityControl(job));
        }
    }

    fn pipeline(&mut self, thread: ThreadId) -> Option<(&mut Pipeline, usize)> {
        let (job, number) = self.workload.job_and_number(thread);
        self.workload.jobs[job].pipeline.as_mut().map(|pipeline| (pipeline, number))
    }

    pub(super) fn finish_computation(&mut self, cpu: CpuId, thread: ThreadId) {
        let now = self.now;
        let request = self.pipeline(thread).and_then(|(pipeline, number)| pipeline.computed(now, number));
        let Some(request) = request else { return self.convey(cpu, thread) };
        match request {
            Request::Message(time) => self.set_timed_event(now + time, TimedEvent::Delivered(thread)),
            Request::Device(time) => {
                if let Some(at) = self.device.ask(now, thread, time) {
                    self.set_timed_event(at, TimedEvent::Served(thread));
                }
            }
        }
        self.sleep(cpu, thread, None);
    }

    pub(super) fn process_timed_event(&mut self) -> Result<(), Error> {
        match self.agenda.pop() {
            Some(TimedEvent::Served(thread)) => {
                if let Some((next, at)) = self.device.served(self.now) {
                    self.set_timed_event(at, TimedEvent::Served(next));
                }
                self.finish_request(thread);
            }
            Some(TimedEvent::Delivered(thread)) => self.finish_request(thread),
            Some(TimedEvent::SleepOver(thread)) => self.end_sleep(thread),
            Some(TimedEvent::PriorityControl(job)) => self.control_priorities(job),
            Some(TimedEvent::JobArrival(job)) => self.note_arrival(job),
            Some(TimedEvent::MessageArrives { from, to }) => self.deliver_message(from, to),
            Some(TimedEvent::BarrierCompletes(last)) => self.complete_barrier(last),
            Some(TimedEvent::JobCreated(job)) => self.enter_job(job),
            Some(TimedEvent::Look(cell)) => {
                self.fail_if_only_turns_are_left()?;
                self.look_if_due(cell);
            }
            Some(TimedEvent::Follow { job, since }) => self.follow_first_cell(job, since),
            Some(TimedEvent::NeverPlaced(job)) => {
                return Err(Error::NeverPlaced { at: self.now, job: self.workload.jobs.name(job) });
            }
            Some(TimedEvent::Classify) => {
                self.fail_if_only_turns_are_left()?;
                self.classify_jobs();
            }
            Some(TimedEvent::Accompany) => self.let_all_cells_look(),
            #[cfg(test)]
            Some(TimedEvent::Act(action)) => self.act(action),
            None => {}
        }
        self.await_agenda();
        Ok(())
    }

    pub(super) fn set_timed_event(&mut self, at: policy::Instant, due: TimedEvent) {
        self.agenda.set(at, due);
        self.await_agenda();
    }

    pub(super) fn await_agenda(&mut self) {
        let key = self.agenda.next().map_or(u64::NEVER, |at| self.order.key(at, Event::ComputationEnds));
        self.queue.set(self.cpus.len(), key);
    }

    fn finish_request(&mut self, thread: ThreadId) {
        let now = self.now;
        if let Some((pipeline, number)) = self.pipeline(thread) {
            pipeline.finish_request(now, number);
        }
        self.wake(thread);
    }

    /// Makes a thread look again when it has a CPU.
    pub(super) fn wake(&mut self, thread: ThreadId) {
        self.workload.threads[thread.index()].activity = Activity::Look;
        // If it is still on its way to sleep, it becomes ready when its CPU has switched away.
        if self.workload.threads[thread.index()].place == Place::Blocked {
            self.ready(thread, ReadyReason::Woken);
        }
    }

    /// A thread conveys its round, if it has one, and takes the next buffer, waits or ends.
    pub(super) fn convey(&mut self, cpu: CpuId, thread: ThreadId) {
        let now = self.now;
        let job = self.workload.threads[thread.index()].job();
        let completed = self.pipeline(thread).and_then(|(pipeline, number)| pipeline.convey(now, number));
        let is_done = completed.is_some_and(|completed| self.workload.count_rounds(job, completed));
        self.renice(thread);
        let took = self.take_buffer(thread);
        self.hand_out_buffers(job, thread);
        let through = self.pipeline(thread).is_some_and(|(pipeline, number)| pipeline.is_through(number));
        if is_done && self.keep_running {
            self.freeze(job);
        }
        if took {
            self.await_event(cpu, thread);
        } else if through {
            self.end(cpu, thread);
        } else {
            self.workload.begin_wait(thread);
            self.decide(cpu, thread, Observation::Arrived);
        }
    }

    /// A thread takes a buffer and begins to compute, if there is one for it.
    fn take_buffer(&mut self, thread: ThreadId) -> bool {
        let now = self.now;
        let computation = self.pipeline(thread).and_then(|(pipeline, number)| pipeline.take(now, number));
        let Some(left) = computation else { return false };
        self.renice(thread);
        self.workload.threads[thread.index()].activity = Activity::Compute { left };
        self.observer.thread_began(now, thread, ThreadPhase::Computation);
        true
    }

    /// Whether a thread that waits for a lock, a buffer or messages can have them now.
    pub(super) fn can_end_wait(&self, thread: ThreadId) -> bool {
        self.is_lock_free_for(thread) || self.is_buffer_ready(thread) || self.workload.has_messages(thread)
    }

    pub(super) fn take_awaited(&mut self, cpu: CpuId, thread: ThreadId) {
        match self.workload.jobs[self.workload.threads[thread.index()].job()].task {
            Task::Pipeline { .. } => self.end_buffer_wait(cpu, thread),
            Task::Messages => self.end_message_wait(cpu, thread),
            _ => self.acquire_lock(cpu, thread),
        }
    }

    /// A waiting thread that has a CPU takes a buffer, or ends if none will come.
    pub(super) fn end_buffer_wait(&mut self, cpu: CpuId, thread: ThreadId) {
        let waiting = &mut self.workload.threads[thread.index()];
        let job = waiting.job();
        waiting.is_waiting = false;
        self.workload.note_wait_over(thread.index());
        if let Some((pipeline, number)) = self.pipeline(thread) {
            pipeline.stop_waiting(number, thread);
        }
        self.end_wait(thread);
        if self.take_buffer(thread) {
            self.hand_out_buffers(job, thread);
            self.await_event(cpu, thread);
        } else {
            self.end(cpu, thread);
        }
    }

    /// Whether a thread that waits for a buffer finds one, or finds that none will come.
    pub(super) fn is_buffer_ready(&self, thread: ThreadId) -> bool {
        let (job, number) = self.workload.job_and_number(thread);
        let finds = |pipeline: &Pipeline| pipeline.could_take(number) || pipeline.is_through(number);
        self.workload.threads[thread.index()].is_waiting && self.workload.jobs[job].pipeline.as_ref().is_some_and(finds)
    }

    /// Hands buffers to spinning threads, and wakes sleepers for the rest.
    fn hand_out_buffers(&mut self, job: usize, waker: ThreadId) {
        let groups = self.workload.jobs[job].pipeline.as_ref().map_or(0..0, Pipeline::groups);
        for group in groups {
            while let Some((spinner, cpu)) = self.first_spinner(job, group) {
                self.charge(cpu);
                self.end_buffer_wait(cpu, spinner);
            }
            let call = |pipeline: &mut Pipeline| pipeline.call_sleeper(group);
            while let Some(called) = self.workload.jobs[job].pipeline.as_mut().and_then(call) {
                self.observer.thread_woken(self.now, waker, called);
                self.wake(called);
            }
        }
    }

    /// The first thread of a group that spins with a CPU and finds a buffer, and that CPU.
    fn first_spinner(&self, job: usize, group: usize) -> Option<(ThreadId, CpuId)> {
        let mut awake = self.workload.jobs[job].pipeline.as_ref()?.awake(group).iter();
        awake.find_map(|&thread| {
            let cpu = self.workload.spins_on(thread)?;
            self.is_buffer_ready(thread).then_some((thread, cpu))
        })
    }

    /// Gives a thread the nice value that its stages require.
    fn renice(&mut self, thread: ThreadId) {
        let Some(nice) = self.pipeline(thread).map(|(pipeline, number)| pipeline.nice(number)) else { return };
        let of = &mut self.workload.threads[thread.index()];
        if std::mem::replace(&mut of.nice, nice) != nice {
            self.scheduler.set_nice(thread, nice, self.now, &mut self.marks);
        }
    }

    fn renice_all(&mut self, job: usize) {
        self.workload.jobs[job].threads.clone().for_each(|thread| self.renice(ThreadId(thread as u32)));
    }

    fn control_priorities(&mut self, job: usize) {
        if self.workload.jobs[job].outcome.is_some() {
            return;
        }
        self.charge_all();
        let (now, device) = (self.now, self.device.busy(self.now));
        let of = &mut self.workload.jobs[job];
        let threads = &self.workload.threads[of.threads.clone()];
        let cpu = of.account.cpu;
        let machine = MachineObservation {
            since: PriorityController::PERIOD,
            cpus: self.cpus.len() as u32,
            cpu_used: cpu - of.observed.0,
            device_busy: Some(device - of.observed.1),
            pressure_cpu: None,
            pressure_io: None,
        };
        of.observed = (cpu, device);
        let computing = |number: usize, length: Span| match threads[number].activity {
            Activity::Compute { left } => length - left,
            _ => Span::ZERO,
        };
        if let Some(pipeline) = &mut of.pipeline {
            pipeline.control_priorities(now, &machine, computing);
        }
        self.renice_all(job);
        self.set_timed_event(now + PriorityController::PERIOD, TimedEvent::PriorityControl(job));
    }
}
