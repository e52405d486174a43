#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod account;
#[cfg(debug_assertions)]
mod check;
pub mod eevdf;
mod engine;
mod event;
mod headway;
pub mod linux_2_4;
mod lock;
pub mod rr;
pub mod scheduler;
mod team;
pub mod watch;
mod winner;

use policy::record::{Off, Recorder};
use policy::{CpuId, Span};
use scenario::result::Outcome;
use scenario::{Kind, Machine, Scheduler, Setting};

use crate::eevdf::Eevdf;
use crate::engine::Engine;
use crate::linux_2_4::Linux24;
use crate::rr::RoundRobin;
use crate::watch::Watch;

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
    /// The clock of 62 bits ran out before the jobs ended.
    #[error("the jobs have not ended after 146 simulated years")]
    TooLong,
    /// No thread of a job that the run waits for gets to run, or none to compute, although events go on and on.
    #[error(
        "the simulation makes no headway since {since}: job `{job}` does not get to run, or only waits (under linux-2.4 that can \
         happen when `threshold` or `allocation` times `tick` is no longer than a context switch: then whoever was switched \
         to is preempted or spent before it runs; a longer `tick` helps)"
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
/// use scenario::{Job, Kind, Machine, MachineKeys, Setting};
///
/// let work = Some(Span::from_millis(1));
/// let job = Job { name: "solo".into(), copies: 1, kind: Kind::Cpu { threads: 1, work } };
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
    run_watched::<Off, ()>(machine, setting, seed, &mut ()).map(|(outcome, _)| outcome)
}

/// [`run`], with a recorder for each job (copies counted one by one) that takes down what its waiting rule is asked and
/// what it decides, and with somebody who looks on.
///
/// # Errors
///
/// As [`run`].
pub fn run_watched<R: Recorder + Default, W: Watch>(
    machine: &Machine,
    setting: &Setting,
    seed: u64,
    watch: &mut W,
) -> Result<(Outcome, Vec<R>), Error> {
    for (name, job) in setting.jobs_with_copies() {
        if matches!(job.kind, Kind::Command { work: None, .. }) {
            return Err(Error::CommandWithoutWork { job: name });
        }
    }
    let machine = &on_grid(machine);
    match machine.scheduler {
        Scheduler::Rr => {
            let scheduler = RoundRobin::new(machine.quantum);
            Engine::new(machine, setting, seed, scheduler, watch).run()
        }
        Scheduler::Linux24 => {
            let scheduler = Linux24::new(machine, address_spaces(setting));
            Engine::new(machine, setting, seed, scheduler, watch).run()
        }
        Scheduler::Eevdf => {
            let threads = setting.jobs.iter().map(|job| job.copies * job.kind.threads()).sum();
            let scheduler = Eevdf::new(machine.cpus, threads, machine.slice, machine.tick);
            Engine::new(machine, setting, seed, scheduler, watch).run()
        }
    }
}

/// How many threads share each address space: those that wait for each other one, all others have their own.
fn address_spaces(setting: &Setting) -> impl Iterator<Item = u32> {
    setting.jobs_with_copies().flat_map(|(_, job)| {
        let threads = job.kind.threads();
        match job.kind {
            Kind::Barrier { .. } | Kind::Lock { .. } => std::iter::repeat_n(threads, 1),
            Kind::Cpu { .. } | Kind::Command { .. } => std::iter::repeat_n(1, threads as usize),
        }
    })
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
        ..*machine
    }
}

/// The numbers of `n` CPUs, ascending.
fn cpu_ids(n: usize) -> impl Iterator<Item = CpuId> {
    (0..n as u32).map(CpuId)
}
