//! The simulator and this machine, as the worlds of an experiment.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use host::{Host, HostRun, Recording};
use scenario::result::World;
use scenario::{JobKind, Machine, MachineKeys, Scenario, Setting, Span};

use crate::disturbance::{Disturbance, Monitor};
use crate::states::Observer;
use crate::trace::end_of_simulation;
use crate::trace::ftrace::FtraceWriter;
use crate::trace::observed;
use crate::trace::simulated::SimulationTracer;
use crate::world::{Executed, Failure, Worlds};
use trace::file::{self, TraceFile};
use trace::model::MOST_CPUS;

/// How often a running simulation checks whether it should stop.
const CANCEL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Both worlds, the host only if it is needed.
#[derive(Clone, Debug)]
pub struct TwoWorlds {
    host: Option<Host>,
    workers: NonZeroUsize,
}

/// Whether a scenario needs a calibrated host: because it runs there, because the simulated machine
/// is like the host, or because the CPU time of a command is measured there.
pub fn needs_host(scenario: &Scenario, chosen: &[World]) -> bool {
    let settings = || scenario.arms.iter().map(|arm| &arm.setting);
    chosen.contains(&World::Host)
        || settings().any(|setting| setting.machine.like_host)
        || settings().any(|setting| setting.jobs.iter().any(|job| is_unmeasured(&job.kind)))
}

fn is_unmeasured(kind: &JobKind) -> bool {
    matches!(kind, JobKind::Command { work: None, .. })
}

impl TwoWorlds {
    /// The simulator with `workers` runs at a time, and this machine if [`needs_host`].
    pub fn new(host: Option<Host>, workers: NonZeroUsize) -> TwoWorlds {
        TwoWorlds { host, workers }
    }

    /// Rejects a scenario that this machine cannot run, before anything starts.
    pub fn check(&self, scenario: &Scenario, chosen: &[World]) -> Result<(), Failure> {
        let Some(host) = &self.host else { return Ok(()) };
        for arm in &scenario.arms {
            if chosen.contains(&World::Host) {
                host.check(&arm.setting).map_err(of_host)?;
                continue;
            }
            // Only the commands that are measured must be possible here, on this machine.
            let commands = arm.setting.jobs.iter().filter(|job| is_unmeasured(&job.kind)).cloned().collect::<Vec<_>>();
            if !commands.is_empty() {
                let (machine, coscheduling) = (MachineKeys::default(), None);
                let setting = Setting { machine, jobs: commands, coscheduling, keep_running: false };
                host.check(&setting).map_err(of_host)?;
            }
        }
        Ok(())
    }

    /// Rejects a trace with more CPUs than Perfetto reads.
    pub fn check_trace(&self, world: World, setting: &Setting) -> Result<(), Failure> {
        let cpus = match world {
            World::Sim => self.simulated(setting)?.total_cpus(),
            World::Host => self.host()?.calibration.machine.cpus_allowed.iter().max().map_or(1, |highest| highest + 1),
        };
        if cpus <= MOST_CPUS {
            return Ok(());
        }
        let message = format!("Perfetto reads traces of {MOST_CPUS} CPUs at the most, and this machine has {cpus}");
        Err(Failure::Input(message.into()))
    }

    /// Executes one run, writes its trace, and blocks until both are done. Returns the number of
    /// events that did not fit.
    ///
    /// Tracing slows down a run on the host, so its outcome is not a measurement.
    ///
    /// # Errors
    ///
    /// Those of [`Worlds::run`], or the trace cannot be written. There is then no trace.
    pub fn trace(
        &self,
        world: World,
        setting: &Setting,
        seed: u64,
        file: TraceFile,
        cancel: &AtomicBool,
    ) -> Result<u64, Failure> {
        let failed = |error: file::TraceError| Failure::Failed(error.into());
        let writer = file.writer().map_err(failed)?;
        let written = match world {
            World::Sim => {
                let simulation = move |machine: &Machine, setting: &Setting| {
                    let mut watch = SimulationTracer::new(writer, setting, machine.total_cpus());
                    let outcome = sim::run_observed(machine, setting, seed, &mut watch)?;
                    Ok(watch.finish(end_of_simulation(setting, machine.step, seed, &outcome)).map(|_| 0))
                };
                self.simulate(setting, simulation, cancel)?
            }
            World::Host => {
                let run = self.host()?.run(setting, seed, Recording::Events, cancel).map_err(of_host)?;
                observed::write(writer, &run.event_logs)
            }
        };
        let lost = written.map_err(|error| failed(file.error(error)))?;
        file.keep().map_err(failed)?;
        Ok(lost)
    }

    /// Simulates one run and returns its scheduling events in the kernel's format.
    pub fn ftrace(&self, setting: &Setting, seed: u64, cancel: &AtomicBool) -> Result<String, Failure> {
        let simulation = move |machine: &Machine, setting: &Setting| {
            let mut watch = FtraceWriter::new(setting, machine.total_cpus());
            let outcome = sim::run_observed(machine, setting, seed, &mut watch)?;
            Ok(watch.finish(end_of_simulation(setting, machine.step, seed, &outcome)))
        };
        self.simulate(setting, simulation, cancel)
    }

    /// Simulates on a separate thread, because the simulator cannot be cancelled.
    ///
    /// After a cancellation the simulation can be left to end with the process: it uses only memory
    /// and CPU time, and at most an unnamed file.
    ///
    /// # Errors
    ///
    /// [`Failure`]: the machine is not known, the simulation failed, or it was cancelled.
    pub fn simulate<T: Send + 'static>(
        &self,
        setting: &Setting,
        simulation: impl FnOnce(&Machine, &Setting) -> Result<T, sim::Error> + Send + 'static,
        cancel: &AtomicBool,
    ) -> Result<T, Failure> {
        let (machine, setting) = (self.simulated(setting)?, setting.clone());
        let (send, receive) = mpsc::channel();
        let work = move || {
            // The receiver is gone only if the outcome is no longer wanted.
            let _ = send.send(simulation(&machine, &setting));
        };
        thread::Builder::new()
            .name("simulation".to_owned())
            .spawn(work)
            .map_err(|error| Failure::Failed(format!("cannot start a thread for the simulation: {error}").into()))?;
        loop {
            match receive.recv_timeout(CANCEL_CHECK_INTERVAL) {
                Ok(outcome) => return outcome.map_err(|error| Failure::Failed(error.into())),
                Err(RecvTimeoutError::Timeout) if cancel.load(Ordering::Relaxed) => return Err(Failure::Cancelled),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::Failed("the simulator stopped (a defect of rowlock)".into()));
                }
            }
        }
    }

    /// Executes one run on this machine, at most until `limit`, and measures the disturbance by other
    /// programs. Blocks until it has ended, or until `cancel` is true and everything that the run
    /// started has ended.
    ///
    /// # Errors
    ///
    /// [`Failure`]: the run has no outcome, and all of it has ended.
    pub fn run_on_host(
        &self,
        setting: &Setting,
        seed: u64,
        limit: Duration,
        cancel: &AtomicBool,
    ) -> Result<(HostRun, Option<Disturbance>), Failure> {
        let monitor = Monitor::start();
        let run = self.host()?.run_until(setting, seed, Recording::Nothing, limit, cancel).map_err(of_host)?;
        Ok((run, monitor.finish(Duration::ZERO)))
    }

    fn host(&self) -> Result<&Host, Failure> {
        self.host.as_ref().ok_or_else(|| Failure::Failed("this machine was not calibrated, but it is needed".into()))
    }

    fn simulated(&self, setting: &Setting) -> Result<Machine, Failure> {
        let base = match setting.machine.like_host {
            true => host::twin(&self.host()?.calibration),
            false => Machine::with_cpus(setting.machine.cpus.unwrap_or(1)),
        };
        Ok(setting.machine.complete(&base))
    }
}

impl Worlds for TwoWorlds {
    fn run(
        &self,
        world: World,
        setting: &Setting,
        seed: u64,
        is_watched: bool,
        cancel: &AtomicBool,
    ) -> Result<Executed, Failure> {
        match world {
            World::Sim => {
                let simulation = move |machine: &Machine, setting: &Setting| {
                    if !is_watched {
                        return Ok(Executed { outcome: sim::run(machine, setting, seed)?, ..Executed::default() });
                    }
                    let mut observer = Observer::new(setting, machine.total_cpus());
                    let outcome = sim::run_observed(machine, setting, seed, &mut observer)?;
                    Ok(Executed { outcome, states: observer.into_run_states(), ..Executed::default() })
                };
                self.simulate(setting, simulation, cancel)
            }
            World::Host => {
                let (run, disturbance) = self.run_on_host(setting, seed, Duration::MAX, cancel)?;
                let HostRun { outcome, timeline, .. } = run;
                Ok(Executed { outcome, timeline, disturbance, ..Executed::default() })
            }
        }
    }

    fn measure_command(&self, argv: &[String], cancel: &AtomicBool) -> Result<Span, Failure> {
        self.host()?.measure_command(argv, cancel).map_err(of_host)
    }

    fn workers(&self) -> NonZeroUsize {
        self.workers
    }
}

fn of_host(error: host::Error) -> Failure {
    match error {
        host::Error::Cancelled => Failure::Cancelled,
        error if error.is_input() => Failure::Input(error.into()),
        error => Failure::Failed(error.into()),
    }
}
