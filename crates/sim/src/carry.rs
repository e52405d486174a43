//! How threads carry out the stages of a pipeline job.
//!
//! It is a likeness of `rowlock-pipeline`:
//!
//! * **Take.** A thread that has nothing in its hands takes a buffer if one waits for a stage of its: a thread with several stages for
//!   that whose turn it is, a worker for the stage nearest to the end. Else it waits, as its rule says. Of those that spin with a CPU the one
//!   that has waited longest takes what comes.
//! * **Compute, then wait.** A stage computes first. Then the device serves it, or a message is on its way, and its thread is
//!   blocked meanwhile; it conveys when it has a CPU again.
//! * **Convey.** The rounds of a stage go on in their order, whichever copy ends first. Who conveys first takes what it can
//!   itself, and then wakes for the rest: in each group of threads as many as could take something and are not awake, those that
//!   went to sleep last first.
//! * **End.** When the last round of a stage is taken, those that wait for nothing else end.
//! * **Begin anew.** If jobs keep running, the pipeline starts again with the same rounds when its
//!   last round is over.
//! * **Priorities.** A rule is asked at every take and every conveyance, its overseer from time to time. A favour is worth five of
//!   nice, from that moment on. A thread with several stages is as favoured as the most favoured of them, and has the nice value of the first that
//!   has one of its own. Workers are not asked at queues: they are as favoured as their stages are by themselves.
//!
//! Taking, conveying and waking cost nothing here beyond the switches that they bring about. Nobody knows who will bring a buffer, so a
//! waiting rule is asked with a fresh waiter in each wait.

use policy::priority::{MachineObservation, Overseer};
use policy::record::Recorder;
use policy::waiting::Observation;
use policy::{CpuId, Span, ThreadId};

use crate::device::Due;
use crate::engine::Engine;
use crate::event::Event;
use crate::pipeline::{Pipeline, Request};
use crate::scheduler::{Scheduler, Why};
use crate::team::{Activity, Place, Task};
use crate::watch::{Begins, Leaving, Watch};
use crate::winner::Key;

impl<S: Scheduler, R: Recorder + Default, W: Watch + ?Sized> Engine<'_, S, R, W> {
    /// The nice values and the overseer of a job that has stages, before it runs.
    pub(crate) fn prepare_pipeline(&mut self, job: usize) {
        self.renice_all(job);
        let now = self.now;
        let Some(pipeline) = &mut self.crew.jobs[job].pipeline else { return };
        pipeline.begins(now);
        if pipeline.has_overseer() {
            self.set(now + Overseer::PERIOD, Due::Oversees(job));
        }
    }

    fn pipeline(&mut self, thread: ThreadId) -> Option<(&mut Pipeline, usize)> {
        let of = &self.crew.threads[thread.index()];
        let (job, number) = (of.job(), self.crew.number(thread.index()));
        self.crew.jobs[job].pipeline.as_mut().map(|pipeline| (pipeline, number))
    }

    /// A thread of a pipeline has a CPU, and was not computing when it last had one.
    pub(crate) fn looks(&mut self, cpu: CpuId, thread: ThreadId) {
        if self.crew.threads[thread.index()].is_waiting {
            self.decide(cpu, thread, Observation::Woken);
        } else {
            // From the device, or for the first time.
            self.conveys(cpu, thread);
        }
    }

    /// A thread of a pipeline has computed.
    pub(crate) fn has_computed(&mut self, cpu: CpuId, thread: ThreadId) {
        let now = self.now;
        let request = self.pipeline(thread).and_then(|(pipeline, number)| pipeline.computed(now, number));
        let Some(request) = request else { return self.conveys(cpu, thread) };
        match request {
            Request::Message(time) => self.set(now + time, Due::Delivered(thread)),
            Request::Device(time) => {
                if let Some(at) = self.device.ask(now, thread, time) {
                    self.set(at, Due::Served(thread));
                }
            }
        }
        self.crew.threads[thread.index()].activity = Activity::Block;
        self.watch.thread_begins(now, thread, Begins::Block);
        self.leave(cpu, thread, Leaving::Blocking);
    }

    /// Something is due that no CPU decides.
    pub(crate) fn is_due(&mut self) {
        let due = self.agenda.pop();
        match due {
            Some(Due::Served(thread)) => {
                if let Some((next, at)) = self.device.served(self.now) {
                    self.set(at, Due::Served(next));
                }
                self.comes_back(thread);
            }
            Some(Due::Delivered(thread)) => self.comes_back(thread),
            Some(Due::Rested(thread)) => self.has_rested(thread),
            Some(Due::Oversees(job)) => self.oversees(job),
            Some(Due::Arrives(job)) => self.arrives(job),
            None => {}
        }
        self.await_agenda();
    }

    pub(crate) fn set(&mut self, at: policy::Instant, due: Due) {
        self.agenda.set(at, due);
        self.await_agenda();
    }

    fn await_agenda(&mut self) {
        let key = self.agenda.next().map_or(u64::NEVER, |at| self.order.key(at, Event::ComputationEnds));
        self.queue.set(self.cpus.len(), key);
    }

    /// What a thread waited for has come.
    fn comes_back(&mut self, thread: ThreadId) {
        let now = self.now;
        if let Some((pipeline, number)) = self.pipeline(thread) {
            pipeline.came_back(now, number);
        }
        self.wake(thread);
    }

    /// A thread looks again when it has a CPU.
    pub(crate) fn wake(&mut self, thread: ThreadId) {
        self.crew.threads[thread.index()].activity = Activity::Look;
        // On its way to sleep, it is ready when its CPU has switched away.
        if self.crew.threads[thread.index()].place == Place::Blocked {
            self.ready(thread, Why::Woken);
        }
    }

    /// A thread conveys what it has in its hands, if anything, and goes on with what there is.
    fn conveys(&mut self, cpu: CpuId, thread: ThreadId) {
        let now = self.now;
        let job = self.crew.threads[thread.index()].job();
        let completed = self.pipeline(thread).and_then(|(pipeline, number)| pipeline.convey(now, number));
        let is_done = completed.is_some_and(|completed| self.crew.count_rounds(job, completed));
        self.renice(thread);
        let took = self.takes(thread);
        self.calls(job, thread);
        let through = self.pipeline(thread).is_some_and(|(pipeline, number)| pipeline.is_through(number));
        if is_done && self.keep_running {
            self.freeze(job);
        }
        if took {
            self.await_event(cpu, thread);
        } else if through {
            self.end(cpu, thread);
        } else {
            let wait = self.pipeline(thread).map_or(0, |(pipeline, number)| pipeline.is_waited_for(number, thread));
            self.crew.begin_wait(thread.index(), wait);
            self.decide(cpu, thread, Observation::Arrived);
        }
    }

    /// A thread takes a buffer and begins to compute, if there is one for it.
    fn takes(&mut self, thread: ThreadId) -> bool {
        let now = self.now;
        let Some(left) = self.pipeline(thread).and_then(|(pipeline, number)| pipeline.take(now, number)) else {
            return false;
        };
        self.renice(thread);
        self.crew.threads[thread.index()].activity = Activity::Compute { left };
        self.watch.thread_begins(now, thread, Begins::Computation);
        true
    }

    /// Whether a thread that waits for a lock or a buffer finds it.
    pub(crate) fn finds_what_it_waits_for(&self, thread: ThreadId) -> bool {
        self.finds_lock_free(thread) || self.finds_buffer(thread)
    }

    pub(crate) fn takes_what_it_waited_for(&mut self, cpu: CpuId, thread: ThreadId) {
        match self.crew.jobs[self.crew.threads[thread.index()].job()].task {
            Task::Pipeline { .. } => self.ends_its_wait(cpu, thread),
            _ => self.takes_lock(cpu, thread),
        }
    }

    /// A thread that waits, and has a CPU, takes a buffer; or ends if none will come.
    pub(crate) fn ends_its_wait(&mut self, cpu: CpuId, thread: ThreadId) {
        let waiting = &mut self.crew.threads[thread.index()];
        let job = waiting.job();
        waiting.is_waiting = false;
        self.crew.has_come(thread.index());
        if let Some((pipeline, number)) = self.pipeline(thread) {
            pipeline.waits_no_more(number, thread);
        }
        self.wait_is_over(thread);
        if self.takes(thread) {
            self.calls(job, thread);
            self.await_event(cpu, thread);
        } else {
            self.end(cpu, thread);
        }
    }

    /// Whether a thread that waits for a buffer finds one, or that none will come.
    pub(crate) fn finds_buffer(&self, thread: ThreadId) -> bool {
        let of = &self.crew.threads[thread.index()];
        let number = self.crew.number(thread.index());
        let finds = |pipeline: &Pipeline| pipeline.could_take(number) || pipeline.is_through(number);
        of.is_waiting && self.crew.jobs[of.job()].pipeline.as_ref().is_some_and(finds)
    }

    /// Lets those go on that spin for what is there now, and wakes others for the rest.
    fn calls(&mut self, job: usize, waker: ThreadId) {
        let groups = self.crew.jobs[job].pipeline.as_ref().map_or(0..0, Pipeline::groups);
        for group in groups {
            while let Some((spinner, cpu)) = self.first_to_find(job, group) {
                self.charge(cpu);
                self.ends_its_wait(cpu, spinner);
            }
            while let Some(called) = self.crew.jobs[job].pipeline.as_mut().and_then(|pipeline| pipeline.calls(group)) {
                self.watch.wakes(self.now, waker, called);
                self.wake(called);
            }
        }
    }

    /// Who of a group spins with a CPU, and where, and finds something.
    fn first_to_find(&self, job: usize, group: usize) -> Option<(ThreadId, CpuId)> {
        let pipeline = self.crew.jobs[job].pipeline.as_ref()?;
        pipeline.awake(group).iter().find_map(|&thread| {
            let waiting = &self.crew.threads[thread.index()];
            match (waiting.activity, waiting.place) {
                (Activity::Spin { .. }, Place::Running(cpu)) if self.finds_buffer(thread) => Some((thread, cpu)),
                _ => None,
            }
        })
    }

    /// Gives a thread the nice value that it ought to have.
    fn renice(&mut self, thread: ThreadId) {
        let Some(nice) = self.pipeline(thread).map(|(pipeline, number)| pipeline.nice(number)) else { return };
        let of = &mut self.crew.threads[thread.index()];
        if std::mem::replace(&mut of.nice, nice) != nice {
            self.scheduler.set_nice(thread, nice, self.now, &mut self.marks);
        }
    }

    fn renice_all(&mut self, job: usize) {
        self.crew.jobs[job].threads.clone().for_each(|thread| self.renice(ThreadId(thread as u32)));
    }

    fn oversees(&mut self, job: usize) {
        if self.crew.jobs[job].outcome.is_some() {
            return;
        }
        self.charge_all();
        let (now, device_busy) = (self.now, self.device.busy(self.now));
        let of = &mut self.crew.jobs[job];
        let threads = &self.crew.threads[of.threads.clone()];
        let (cpu, device) = (of.account.cpu, device_busy);
        let machine = MachineObservation {
            since: Overseer::PERIOD,
            cpus: self.cpus.len() as u32,
            cpu_used: cpu - of.overseen.0,
            device_busy: Some(device - of.overseen.1),
            pressure_cpu: None,
            pressure_io: None,
        };
        of.overseen = (cpu, device);
        let computing = |number: usize, length: Span| match threads[number].activity {
            Activity::Compute { left } => length - left,
            _ => Span::ZERO,
        };
        if let Some(pipeline) = &mut of.pipeline {
            pipeline.oversee(now, &machine, computing);
        }
        self.renice_all(job);
        self.set(now + Overseer::PERIOD, Due::Oversees(job));
    }
}
