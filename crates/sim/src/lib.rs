#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod engine;
mod kernels;
mod workloads;

pub use crate::engine::{observer, scheduler};
pub use crate::kernels::{cfs, eevdf, feedback, linux_2_4, linux_o1, roster, rr};

use policy::record::{Log, Off, Recorder};
use policy::slices::{SliceError, check_request};
use policy::{CpuId, CpuSet, Instant, Span};
use scenario::result::Outcome;
use scenario::{JobKind, Machine, Scheduler, Setting};

use crate::cfs::Cfs;
use crate::eevdf::Eevdf;
use crate::engine::Engine;
use crate::feedback::Feedback;
use crate::kernels::cells::Cells;
use crate::linux_2_4::Linux24;
use crate::linux_o1::LinuxO1;
use crate::observer::Observer;
use crate::roster::Roster;
use crate::rr::RoundRobin;

/// The reason why a setting cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A command has no simulated counterpart before its CPU time is known.
    #[error(
        "the simulator cannot run the command of job `{job}`: its CPU time is not known; give it as `work = \"...\"`"
    )]
    CommandWithoutWork {
        /// The job's name.
        job: String,
    },
    /// A job is bound to CPUs that the machine does not have.
    #[error(
        "job `{job}` may run on CPUs {cpus} only, of which the simulated machine has none: its CPUs are 0 to {last}"
    )]
    NowhereToRun {
        /// The job's name.
        job: String,
        /// The CPUs that it is bound to.
        cpus: CpuSet,
        /// The last CPU of the machine.
        last: u32,
    },
    /// Every CPU has a thread that computes or spins without end and is never preempted.
    #[error(
        "the simulation makes no headway after {at}: every thread that has a CPU computes or spins without end and \
         keeps it, and job `{job}` never gets one (under fifo no thread is preempted: give the other jobs an end and \
         let waiting threads block, or use another scheduler)"
    )]
    Hogged {
        /// The simulated time.
        at: Instant,
        /// A job that has not ended.
        job: String,
    },
    /// The clock of 62 bits ran out before the jobs ended.
    #[error("the jobs have not ended after 146 simulated years")]
    TooLong,
    /// No thread of an awaited job runs, or none computes, although events continue.
    #[error(
        "the simulation has made no headway since {since}: job `{job}` does not run, or only waits. Possible causes: \
         under linux-2.4, `threshold` or `allocation` times `tick` is no longer than a context switch, so that the \
         incoming thread is preempted or spent before it runs (a longer `tick` helps); or a job without end is alone \
         on a CPU because other jobs are bound to other CPUs, so that an epoch begins for all whenever it is spent, \
         and threads elsewhere are never spent; or jobs without end are spent at the same time, so that the epoch \
         that one CPU begins refills the thread from which another CPU switches to a nice thread. Under cfs, jobs \
         that keep running sleep for no longer than a context switch, so that the incoming thread has paid for the \
         switch and is preempted before it runs (a longer `wakeup_granularity` helps). Under fifo, jobs that keep \
         running keep their CPUs."
    )]
    NoHeadway {
        /// The simulated time since which there was no headway.
        since: Instant,
        /// A job that has not ended.
        job: String,
    },
    /// A job waits for cells, and all jobs that have some keep them.
    #[error(
        "at {at}, job `{job}` waits for cells that no job releases: those that have cells have no end, or keep running"
    )]
    NeverPlaced {
        /// The simulated time.
        at: Instant,
        /// The job.
        job: String,
    },
    /// A job asks for more cells than the machine has.
    #[error("job `{job}`: {error}")]
    TooLarge {
        /// The job's name.
        job: String,
        /// The reason.
        error: SliceError,
    },
    /// The ways in which jobs share the machine are in conflict with it.
    #[error("{0}")]
    Conflict(String),
    /// No event is left although jobs have not ended: a defect of the engine or a scheduler.
    #[error(
        "the simulation is stuck at {at}: no CPU has anything to do, but job `{job}` has not ended (this is a defect of rowlock)"
    )]
    Stuck {
        /// The simulated time.
        at: Instant,
        /// A job that has not ended.
        job: String,
    },
}

/// Simulates the jobs of `setting` on `machine` until the last job that ends has ended. Ignores the
/// machine keys of the setting itself.
///
/// ```
/// use policy::Span;
/// use scenario::{Job, JobKind, Machine, MachineKeys, Setting};
///
/// let work = Some(Span::from_millis(1).into());
/// let job = Job::new("solo", 1, JobKind::Cpu { threads: 1, work });
/// let machine = MachineKeys::default();
/// let setting = Setting { machine, jobs: vec![job], coscheduling: None, keep_running: false };
/// let outcome = rowlock_sim::run(&Machine::with_cpus(2), &setting, 1)?;
/// // One switch from idleness, then one millisecond of work.
/// assert_eq!(outcome.jobs[0].completion_ns, Some(Span::from_micros(1_006)));
/// # Ok::<(), rowlock_sim::Error>(())
/// ```
///
/// # Errors
///
/// See [`Error`]. A setting without commands that a real machine would finish causes no error.
pub fn run(machine: &Machine, setting: &Setting, seed: u64) -> Result<Outcome, Error> {
    simulate::<Off, ()>(machine, setting, seed, Limit::NONE, &mut ()).map(|(outcome, ..)| outcome)
}

/// Where a simulation ends if its jobs have not ended before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The simulated time.
    pub at: Instant,
    /// The number of events.
    pub events: u64,
}

impl Limit {
    /// It ends with its jobs.
    pub const NONE: Limit = Limit { at: Instant::MAX, events: u64::MAX };
}

/// Like [`run`], but ends at the limit if jobs have not ended by then. They have no completion
/// time, and the rounds that they have made. Also returns the simulated time of the end.
///
/// # Errors
///
/// As [`run`], except [`Error::NoHeadway`]: jobs without headway are still there at the limit.
pub fn run_until(machine: &Machine, setting: &Setting, seed: u64, limit: Limit) -> Result<(Outcome, Instant), Error> {
    simulate::<Off, ()>(machine, setting, seed, limit, &mut ()).map(|(outcome, end, _)| (outcome, end))
}

/// Like [`run`], and reports every event to `observer`.
///
/// # Errors
///
/// As [`run`].
pub fn run_observed(
    machine: &Machine,
    setting: &Setting,
    seed: u64,
    observer: &mut dyn Observer,
) -> Result<Outcome, Error> {
    simulate::<Off, _>(machine, setting, seed, Limit::NONE, observer).map(|(outcome, ..)| outcome)
}

/// Like [`run`], and records the questions to the waiting rule of each job, and its decisions.
/// Copies of a job are counted one by one.
///
/// # Errors
///
/// As [`run`].
pub fn run_recorded(machine: &Machine, setting: &Setting, seed: u64) -> Result<(Outcome, Vec<Log>), Error> {
    simulate(machine, setting, seed, Limit::NONE, &mut ()).map(|(outcome, _, recorders)| (outcome, recorders))
}

/// The engine is compiled in this crate, three times for each scheduler and for the kernels of
/// cells, and not again for each observer type of another crate.
fn simulate<R: Recorder + Default, W: Observer + ?Sized>(
    machine: &Machine,
    setting: &Setting,
    seed: u64,
    limit: Limit,
    observer: &mut W,
) -> Result<(Outcome, Instant, Vec<R>), Error> {
    for (name, job) in setting.jobs_with_copies() {
        if matches!(job.kind, JobKind::Command { work: None, .. }) {
            return Err(Error::CommandWithoutWork { job: name });
        }
        if let Some(cpus) = job.attributes.cpus.clone().filter(|set| set.iter().all(|cpu| cpu.0 >= machine.cpus)) {
            return Err(Error::NowhereToRun { job: name, cpus, last: machine.cpus.saturating_sub(1) });
        }
    }
    check_cells(machine, setting)?;
    let machine = &on_grid(machine);
    let roster = Roster::new(setting, machine.cpus);
    let run = Run { machine, setting, seed, limit, observer };
    if machine.cells.is_some() {
        return run.with(roster, |roster| {
            Cells::new(machine, setting, seed, roster, |of_cell| kernel(machine, of_cell, seed))
        });
    }
    match machine.scheduler {
        Scheduler::Fifo | Scheduler::Rr => {
            let quantum = if machine.scheduler == Scheduler::Rr { machine.quantum } else { Span::MAX };
            run.with(roster, |roster| RoundRobin::new(quantum, machine, roster))
        }
        Scheduler::Linux24 => run.with(roster, |roster| Linux24::new(machine, roster)),
        Scheduler::LinuxO1 => run.with(roster, |roster| LinuxO1::new(machine, roster)),
        Scheduler::Cfs => run.with(roster, |roster| Cfs::new(machine, roster, seed)),
        Scheduler::Eevdf => run.with(roster, |roster| Eevdf::new(machine, roster, seed)),
        Scheduler::Feedback => run.with(roster, |roster| Feedback::new(machine, roster)),
    }
}

/// A run, as far as it does not depend on the scheduler.
struct Run<'a, W: ?Sized> {
    machine: &'a Machine,
    setting: &'a Setting,
    seed: u64,
    limit: Limit,
    observer: &'a mut W,
}

impl<W: Observer + ?Sized> Run<'_, W> {
    /// Runs with a scheduler, which only needs the roster at the start.
    fn with<S: scheduler::Scheduler, R: Recorder + Default>(
        self,
        roster: Roster,
        scheduler: impl FnOnce(&Roster) -> S,
    ) -> Result<(Outcome, Instant, Vec<R>), Error> {
        let scheduler = scheduler(&roster);
        drop(roster);
        Engine::new(self.machine, self.setting, self.seed, scheduler, self.observer).run(self.limit)
    }
}

/// Whether the jobs of a setting can share the cells of a machine.
fn check_cells(machine: &Machine, setting: &Setting) -> Result<(), Error> {
    let Some(mesh) = machine.cells else { return Ok(()) };
    if let Some(conflict) = setting.conflicts_on(machine).first() {
        return Err(Error::Conflict(conflict.to_string()));
    }
    for job in setting.jobs.iter().filter(|job| job.copies > 0) {
        let JobKind::Message(message) = &job.kind else { continue };
        check_request(message.request, mesh).map_err(|error| Error::TooLarge { job: job.name.clone(), error })?;
    }
    Ok(())
}

/// The kernel of a cell. It is called through a table, so that the engine is not compiled again for
/// the cells of each scheduler.
fn kernel(machine: &Machine, roster: &Roster, seed: u64) -> Box<dyn scheduler::Scheduler> {
    match machine.scheduler {
        Scheduler::Fifo => Box::new(RoundRobin::new(Span::MAX, machine, roster)),
        Scheduler::Rr => Box::new(RoundRobin::new(machine.quantum, machine, roster)),
        Scheduler::Linux24 => Box::new(Linux24::new(machine, roster)),
        Scheduler::LinuxO1 => Box::new(LinuxO1::new(machine, roster)),
        Scheduler::Cfs => Box::new(Cfs::new(machine, roster, seed)),
        Scheduler::Eevdf => Box::new(Eevdf::new(machine, roster, seed)),
        Scheduler::Feedback => Box::new(Feedback::new(machine, roster)),
    }
}

/// The machine with its durations rounded down to its step, so that all events fall on multiples of
/// it.
fn on_grid(machine: &Machine) -> Machine {
    let floor = |span: Span| span.floor_to(machine.step);
    Machine {
        context_switch: floor(machine.context_switch),
        wakeup_cost: floor(machine.wakeup_cost),
        yield_cost: floor(machine.yield_cost),
        cache_refill: floor(machine.cache_refill),
        node_refill: floor(machine.node_refill),
        line_transfer: floor(machine.line_transfer),
        quantum: floor(machine.quantum).max(machine.step),
        tick: floor(machine.tick).max(machine.step),
        slice: floor(machine.slice).max(machine.step),
        cfs: scenario::Cfs {
            latency: floor(machine.cfs.latency).max(machine.step),
            granularity: floor(machine.cfs.granularity).max(machine.step),
            wakeup_granularity: floor(machine.cfs.wakeup_granularity),
            migration_cost: floor(machine.cfs.migration_cost),
        },
        feedback: machine.feedback.floor_to(machine.step),
        network: scenario::Network {
            latency: floor(machine.network.latency),
            barrier: floor(machine.network.barrier),
            ..machine.network
        },
        ..*machine
    }
}

/// The numbers of `n` CPUs, ascending.
fn cpu_ids(n: usize) -> impl Iterator<Item = CpuId> {
    (0..n as u32).map(CpuId)
}
