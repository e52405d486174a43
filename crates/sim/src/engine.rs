//! The event loop of the simulated machine.
//!
//! It takes the earliest event of any CPU, processes it, and lets the marked CPUs pick again, at
//! the same moment and after everything that the event caused. It knows no scheduler and no waiting
//! rule.

mod account;
pub(crate) mod cells;
mod check;
mod cores;
pub(crate) mod coscheduling;
pub(crate) mod counters;
mod cpus;
mod device;
mod event;
mod fibers;
mod headway;
mod idling;
mod job;
mod jobs;
mod lock;
mod messages;
mod network;
pub mod observer;
mod pipeline;
pub mod scheduler;
#[cfg(test)]
mod script;
mod speed;
mod steps;
mod stop;
mod threads;
mod turns;
pub(crate) mod winner;
mod workload;

use policy::record::Recorder;
use policy::waiting::Missing;
use policy::{CpuId, Instant, Span, ThreadId};
use scenario::draw::Stream;
use scenario::result::{MachineOutcome, Outcome};
use scenario::{Machine, Setting};

use self::account::{CpuUse, MachineTime};
use self::cores::Cores;
use self::coscheduling::Coscheduling;
use self::device::{Agenda, Device};
use self::event::{Event, Order};
use self::headway::Headway;
use self::network::Network;
use self::observer::{CpuState, Observer};
use self::scheduler::{Marks, ReadyReason, Scheduler};
use self::threads::Place;
use self::winner::{Key, WinnerTree};
use self::workload::Workload;
use crate::{Error, Limit};

#[derive(Clone, Copy, Debug)]
struct Cpu {
    state: CpuState,
    /// The moment up to which its time has been charged.
    charged: Instant,
    /// While it runs a thread: when the scheduler wants to look at the CPU.
    alarm: Instant,
    /// While it switches: the part of the switch that is still to be charged to the incoming
    /// thread.
    owed: Span,
    /// While it switches: the CPU to which the outgoing thread has moved, if any.
    moved_to: Option<CpuId>,
}

pub(crate) struct Engine<'a, S, R, W: ?Sized> {
    machine: &'a Machine,
    keep_running: bool,
    now: Instant,
    scheduler: S,
    cpus: Vec<Cpu>,
    marks: Marks,
    /// The next event of each CPU. If there can be timed events, the last slot has the next one of
    /// the agenda.
    queue: WinnerTree<u64>,
    order: Order,
    agenda: Agenda,
    device: Device,
    network: Network,
    cores: Cores,
    workload: Workload<'a>,
    /// On a machine with cells.
    coscheduling: Option<Coscheduling>,
    /// The threads that the current event has woken. Empty between events.
    woken: Vec<ThreadId>,
    /// The spinning ranks whose messages have arrived in the current event. Empty between events.
    receivers: Vec<ThreadId>,
    /// The memory for the missing threads as a thread of one cell sees them.
    missing: Vec<Missing>,
    recorders: Vec<R>,
    observer: &'a mut W,
    /// The number of jobs that the run still waits for.
    jobs_left: usize,
    time: MachineTime,
    events: u64,
    headway: Headway,
}

impl<'a, S: Scheduler, R: Recorder + Default, W: Observer + ?Sized> Engine<'a, S, R, W> {
    pub(crate) fn new(
        machine: &'a Machine,
        setting: &'a Setting,
        seed: u64,
        scheduler: S,
        observer: &'a mut W,
    ) -> Self {
        let workload = Workload::new(machine, setting, seed);
        let coscheduling = Coscheduling::new(machine, setting, seed, workload.threads.len());
        let has_agenda = cfg!(test) || machine.cells.is_some() || workload.to_come > 0 || workload.has_timed_events();
        let start = Instant::ZERO;
        let idle = Cpu { state: CpuState::Idle, charged: start, alarm: start, owed: Span::ZERO, moved_to: None };
        let cpus = vec![idle; machine.total_cpus() as usize];
        let mut engine = Engine {
            machine,
            keep_running: setting.keep_running,
            now: start,
            scheduler,
            marks: Marks::new(cpus.len()),
            queue: WinnerTree::new(cpus.len() + usize::from(has_agenda)),
            cpus,
            order: Order::new(machine.tie),
            agenda: Agenda::default(),
            device: Device::new(machine.device_depth),
            network: Network::new(machine),
            cores: Cores::new(machine, workload.threads.len()),
            coscheduling,
            woken: Vec::new(),
            receivers: Vec::new(),
            missing: Vec::new(),
            recorders: (0..workload.jobs.len()).map(|_| R::default()).collect(),
            observer,
            headway: Headway::new(machine, setting, workload.threads.len()),
            jobs_left: (0..workload.jobs.len()).filter(|&job| !workload.jobs.is_endless(job)).count(),
            workload,
            time: MachineTime::default(),
            events: 0,
        };
        engine.start(seed);
        engine
    }

    /// Makes the threads of all jobs that start with the run ready, in random order, schedules the
    /// arrivals of the others, and lets all CPUs pick.
    fn start(&mut self, seed: u64) {
        #[cfg(test)]
        self.load_script();
        for job in 0..self.workload.jobs.len() {
            match self.workload.arrives(job) {
                Instant::ZERO if self.coscheduling.is_some() => self.request_cells(job),
                Instant::ZERO => self.prepare_pipeline(job),
                later => self.agenda.set_arrival(later, job),
            }
        }
        if self.workload.to_come > 0 {
            self.agenda.sort_arrivals();
            self.await_agenda();
        }
        let mut order: Vec<u32> = (0..self.workload.threads.len() as u32).collect();
        Stream::named(seed, "initial queue order", 0).shuffle(&mut order);
        for thread in order {
            if self.workload.threads[thread as usize].place == Place::Ready {
                self.ready(ThreadId(thread), ReadyReason::New);
            }
        }
        self.begin_coscheduling();
        crate::cpu_ids(self.cpus.len()).for_each(|cpu| self.marks.mark(cpu));
        self.let_marked_cpus_pick();
    }

    /// A job arrives.
    fn note_arrival(&mut self, job: usize) {
        if self.coscheduling.is_some() {
            return self.request_cells(job);
        }
        self.workload.to_come -= 1;
        self.workload.create(job);
        self.admit_job(job);
    }

    /// A job begins: its threads become ready, in the order of their numbers. Until then they add
    /// no load, and no kernel knows them.
    fn admit_job(&mut self, job: usize) {
        self.prepare_pipeline(job);
        for thread in self.workload.jobs[job].threads.clone() {
            self.ready(ThreadId(thread as u32), ReadyReason::New);
        }
    }

    /// Runs until the last job that ends has ended, but not beyond `limit`. Also returns the time
    /// of the end.
    pub(crate) fn run(mut self, limit: Limit) -> Result<(Outcome, Instant, Vec<R>), Error> {
        if limit != Limit::NONE {
            self.headway.wait_forever();
        }
        while self.jobs_left > 0 && self.events < limit.events {
            let (slot, key) = self.queue.winner();
            if key == u64::NEVER {
                return Err(self.stall_error(None));
            }
            let at = Instant::from_nanos(key >> 2);
            debug_assert!(at >= self.now, "time runs backwards: {at} after {}", self.now);
            if at > limit.at {
                self.now = limit.at;
                break;
            }
            self.now = at;
            self.events += 1;
            self.marks.begin_event((slot < self.cpus.len()).then_some(CpuId(slot as u32)));
            if slot == self.cpus.len() {
                self.process_timed_event()?;
            } else {
                self.process_event(CpuId(slot as u32), key)?;
            }
            self.continue_receivers();
            self.let_marked_cpus_pick();
            if cfg!(debug_assertions) {
                self.check();
            }
        }
        Ok(self.finish())
    }

    /// Processes the next event of a CPU.
    #[inline]
    fn process_event(&mut self, cpu: CpuId, key: u64) -> Result<(), Error> {
        match self.cpus[cpu.index()].state {
            CpuState::Switching { from, to } => {
                self.count_step_without_headway()?;
                self.end_switch(cpu, from, to);
            }
            CpuState::Running(thread) if self.order.is_event(key, Event::Alarm) => self.alarm(cpu, thread)?,
            CpuState::Running(thread) => {
                // A thread that the run does not wait for could continue forever without a switch.
                if !self.workload.threads[thread.index()].is_awaited {
                    self.count_step_without_headway()?;
                }
                self.end_activity(cpu, thread);
            }
            CpuState::Idle => self.queue.set(cpu.index(), u64::NEVER),
        }
        Ok(())
    }

    fn finish(mut self) -> (Outcome, Instant, Vec<R>) {
        self.charge_all();
        // Many outcomes take much memory, so the threads leave theirs first.
        drop(self.scheduler);
        let outcome = Outcome {
            jobs: self.workload.into_outcomes(self.now),
            machine: MachineOutcome {
                cpus: self.machine.total_cpus(),
                scheduler: self.machine.scheduler.name().to_owned(),
                work_percent: self.time.percent(CpuUse::Work),
                spin_percent: self.time.percent(CpuUse::Spin),
                switch_percent: self.time.percent(CpuUse::Switch),
                idle_percent: self.time.percent(CpuUse::Idle),
                events: Some(self.events),
                coscheduling: self.coscheduling.as_ref().map(Coscheduling::outcome),
            },
        };
        (outcome, self.now, self.recorders)
    }
}
