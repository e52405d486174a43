#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod engine;
mod kernels;
mod workloads;

pub use crate::engine::{observer, scheduler};
pub use crate::kernels::{cfs, eevdf, feedback, fifo, linux_2_4, linux_o1, roster, rr};

use policy::feedback::{Boost, FeedbackRules};
use policy::record::{Log, Off, Recorder};
use policy::{CpuId, CpuSet, Span};
use scenario::result::Outcome;
use scenario::{JobKind, Machine, Scheduler, Setting};

use crate::cfs::Cfs;
use crate::eevdf::Eevdf;
use crate::engine::Engine;
use crate::feedback::Feedback;
use crate::fifo::Fifo;
use crate::linux_2_4::Linux24;
use crate::linux_o1::LinuxO1;
use crate::observer::Observer;
use crate::roster::Roster;
use crate::rr::RoundRobin;

/// Why a setting cannot be simulated.
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
    /// A job may run on no CPU that the machine has.
    #[error(
        "job `{job}` may run on CPUs {cpus} only, of which the simulated machine has none: its CPUs are 0 to {last}"
    )]
    NowhereToRun {
        /// The job's name.
        job: String,
        /// Where it may run.
        cpus: CpuSet,
        /// The last CPU of the machine.
        last: u32,
    },
    /// Every CPU has a thread that computes or spins without end, and is never taken from it.
    #[error(
        "the simulation gets nowhere after {at}: whoever has a CPU computes or spins without end and keeps it, and job `{job}` never gets \
         one (under fifo nobody is preempted: give the other jobs an end, and let waiting threads block; or take another scheduler)"
    )]
    Hogged {
        /// The simulated time.
        at: policy::Instant,
        /// A job that has not ended.
        job: String,
    },
    /// The clock of 62 bits ran out before the jobs ended.
    #[error("the jobs have not ended after 146 simulated years")]
    TooLong,
    /// No thread of a job that the run waits for gets to run, or none to compute, although events go on and on.
    #[error(
        "the simulation makes no headway since {since}: job `{job}` does not get to run, or only waits (under linux-2.4 that can \
         happen when `threshold` or `allocation` times `tick` is no longer than a context switch: then whoever was switched \
         to is preempted or spent before it runs; a longer `tick` helps; or when a job without end is alone on a CPU because others are \
         bound elsewhere: each time it is spent an epoch begins for all, and who runs elsewhere is never spent; or when jobs without end \
         are spent at the same time: the epoch that one CPU begins refills the thread from which another switches to a nice thread; \
         under cfs, when jobs that keep running sleep for no longer than a context switch: then the thread that was switched to has paid for \
         the switch and is preempted before it runs; a longer `wakeup_granularity` helps; under fifo, jobs that keep running keep their CPUs)"
    )]
    NoHeadway {
        /// The simulated time from which on nothing was done.
        since: policy::Instant,
        /// A job that has not ended.
        job: String,
    },
    /// Nothing can happen any more although jobs have not ended: a defect of the engine or a scheduler.
    #[error(
        "the simulation is stuck at {at}: no CPU has anything to do, but job `{job}` has not ended (this is a defect of rowlock)"
    )]
    Stuck {
        /// The simulated time.
        at: policy::Instant,
        /// A job that has not ended.
        job: String,
    },
}

/// Simulates the jobs of `setting` on `machine`, to the end of the last job that ends. The setting's own machine keys
/// are not looked at.
///
/// ```
/// use policy::Span;
/// use scenario::{Job, JobKind, Machine, MachineKeys, Setting};
///
/// let work = Some(Span::from_millis(1).into());
/// let job = Job::new("solo", 1, JobKind::Cpu { threads: 1, work });
/// let setting = Setting { machine: MachineKeys::default(), jobs: vec![job], keep_running: false };
/// let outcome = rowlock_sim::run(&Machine::with_cpus(2), &setting, 1)?;
/// // One switch from idleness, then one millisecond of work.
/// assert_eq!(outcome.jobs[0].completion_ns, Some(Span::from_micros(1_006)));
/// # Ok::<(), rowlock_sim::Error>(())
/// ```
///
/// # Errors
///
/// See [`Error`]; a setting without commands that a real machine would finish is simulated without one.
pub fn run(machine: &Machine, setting: &Setting, seed: u64) -> Result<Outcome, Error> {
    simulate::<Off, ()>(machine, setting, seed, &mut ()).map(|(outcome, _)| outcome)
}

/// As [`run`], and tells `observer` what happens.
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
    simulate::<Off, _>(machine, setting, seed, observer).map(|(outcome, _)| outcome)
}

/// As [`run`], and records for each job (copies counted one by one) what its waiting rule is asked
/// and what it decides.
///
/// # Errors
///
/// As [`run`].
pub fn run_recorded(machine: &Machine, setting: &Setting, seed: u64) -> Result<(Outcome, Vec<Log>), Error> {
    simulate(machine, setting, seed, &mut ())
}

/// The engine is compiled here, three times for each scheduler, and not once more for each type
/// that watches in another crate.
fn simulate<R: Recorder + Default, W: Observer + ?Sized>(
    machine: &Machine,
    setting: &Setting,
    seed: u64,
    observer: &mut W,
) -> Result<(Outcome, Vec<R>), Error> {
    for (name, job) in setting.jobs_with_copies() {
        if matches!(job.kind, JobKind::Command { work: None, .. }) {
            return Err(Error::CommandWithoutWork { job: name });
        }
        if let Some(cpus) = &job.attributes.cpus
            && cpus.iter().all(|cpu| cpu.0 >= machine.cpus)
        {
            return Err(Error::NowhereToRun { job: name, cpus: cpus.clone(), last: machine.cpus.saturating_sub(1) });
        }
    }
    let machine = &on_grid(machine);
    let roster = &Roster::new(setting, machine.cpus);
    match machine.scheduler {
        Scheduler::Fifo => Engine::new(machine, setting, seed, Fifo::new(machine, roster), observer).run(),
        Scheduler::Rr => Engine::new(machine, setting, seed, RoundRobin::new(machine, roster), observer).run(),
        Scheduler::Linux24 => Engine::new(machine, setting, seed, Linux24::new(machine, roster), observer).run(),
        Scheduler::LinuxO1 => Engine::new(machine, setting, seed, LinuxO1::new(machine, roster), observer).run(),
        Scheduler::Cfs => Engine::new(machine, setting, seed, Cfs::new(machine, roster), observer).run(),
        Scheduler::Eevdf => Engine::new(machine, setting, seed, Eevdf::new(machine, roster), observer).run(),
        Scheduler::Feedback => Engine::new(machine, setting, seed, Feedback::new(machine, roster), observer).run(),
    }
}

/// The machine with its durations floored to its step, so that all events fall on the grid.
fn on_grid(machine: &Machine) -> Machine {
    let floor = |span: Span| span.floor_to(machine.step);
    Machine {
        context_switch: floor(machine.context_switch),
        wakeup_cost: floor(machine.wakeup_cost),
        yield_cost: floor(machine.yield_cost),
        quantum: floor(machine.quantum).max(machine.step),
        tick: floor(machine.tick).max(machine.step),
        slice: floor(machine.slice).max(machine.step),
        cfs: scenario::Cfs {
            latency: floor(machine.cfs.latency).max(machine.step),
            granularity: floor(machine.cfs.granularity).max(machine.step),
            wakeup_granularity: floor(machine.cfs.wakeup_granularity),
            migration_cost: floor(machine.cfs.migration_cost),
        },
        feedback: FeedbackRules {
            running_time: floor(machine.feedback.running_time).max(machine.step),
            boost: match machine.feedback.boost {
                Boost::Every(period) => Boost::Every(floor(period).max(machine.step)),
                Boost::Never => Boost::Never,
            },
            ..machine.feedback
        },
        ..*machine
    }
}

/// The numbers of `n` CPUs, ascending.
fn cpu_ids(n: usize) -> impl Iterator<Item = CpuId> {
    (0..n as u32).map(CpuId)
}
