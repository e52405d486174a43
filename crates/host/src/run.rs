//! Runs of settings on this machine.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use policy::record::RecordedStep;
use policy::{JobId, Span};
use scenario::model::{JobKind, MachineKeys, Setting};
use scenario::result::{JobOutcome, MachineOutcome, Outcome};
use sys::load::CpuTime;

use crate::calibration::{HostCalibration, twin};
use crate::error::Error;
use crate::event_log::EventLog;
use crate::jobs::{Job, Jobs};
use crate::limits::{check_command, check_ranks, check_threads, check_threads_per_process};
use crate::machine::idle_time;
use crate::protocol::{Order, Recording};
use crate::scheduling;
use crate::timeline::{Sampler, StateSample};
use crate::turns::{self, Turns, check_lowering, only_simulated, sharing};

/// The time that endless jobs run before the others start, in which the kernel spreads them over
/// the CPUs.
const EARLY_START: Duration = Duration::from_millis(20);

/// Shorter runs have no idle time, because the kernel counts it in coarse ticks.
const SHORTEST_FOR_IDLE: Span = Span::from_nanos(CpuTime::TICK.as_nanos() as u64).scaled(20_000);

/// The host: the machine on which this program runs.
#[derive(Clone, Debug)]
pub struct Host {
    /// The program to start as the process of a job. Its `main` begins with
    /// [`run_if_asked`](crate::child::run_if_asked).
    pub program: PathBuf,
    /// The costs of this machine.
    pub calibration: HostCalibration,
}

/// The results of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct HostRun {
    /// The figures.
    pub outcome: Outcome,
    /// How long each copy of a job had run when it was cut off by the limit. `None` if it was not.
    pub cut_off: Vec<Option<Span>>,
    /// Samples of thread states, as far as these are cheap: they take at most half a percent of one
    /// CPU. Command jobs and runs of more than 256 threads have none.
    pub timeline: Vec<StateSample>,
    /// When the jobs began that arrive at once, by the monotonic clock.
    pub began: policy::Instant,
    /// The ids of the computing threads of each copy of a job, as far as the host knows them: those
    /// of barriers, locks and CPU-bound jobs.
    pub threads: Vec<Vec<i32>>,
    /// The questions to each job's waiting rule and the decisions, if they were recorded. Each copy
    /// of a job has its own record.
    pub records: Vec<Vec<RecordedStep>>,
    /// The event logs of each copy of a job. They are empty if none were written.
    pub event_logs: Vec<JobEventLogs>,
}

/// The event logs of the threads of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEventLogs {
    /// The job's name, with the number of the copy if there are several.
    pub job: String,
    /// The id of its process.
    pub process: u32,
    /// The logs of its threads, by number. Empty for a command, which runs threads of another
    /// program.
    pub event_logs: Vec<EventLog>,
}

impl Host {
    /// Refuses what this machine cannot do, before anything starts: missing commands, more threads
    /// than the limits allow, nice values, CPUs and slices that the kernel does not grant,
    /// ways to share cells, numbers of ranks, and settings without a job that ends.
    ///
    /// # Errors
    /// Only errors for which [`Error::is_input`] is true.
    pub fn check(&self, setting: &Setting) -> Result<(), Error> {
        if setting.jobs.iter().all(|job| job.kind.is_endless()) {
            return Err(Error::Endless);
        }
        if let Some(what) = only_simulated(setting) {
            return Err(Error::OnlySimulated(what));
        }
        check_lowering(setting, cosched::find_lower_mechanism)?;
        for job in &setting.jobs {
            let refused = |why| Error::Refused { job: job.name.clone(), why };
            scheduling::check(&job.attributes).map_err(refused)?;
            if let JobKind::Command { argv, .. } = &job.kind {
                check_command(argv.first().map_or("", String::as_str)).map_err(refused)?;
            }
            if let JobKind::Message(message) = &job.kind {
                check_ranks(message.ranks()).map_err(refused)?;
            }
        }
        // Each job has a process with two threads besides those that compute. A command has a
        // keeper and at least one more process. A rank is a process with a further thread. Turns
        // take a keeper, an agent, and two processes that succeed the agent.
        let cpus = self.calibration.machine.cpus;
        let of_turns = if sharing(setting).is_some() { 4 } else { 0 };
        let threads_of = |kind: &JobKind| match kind {
            JobKind::Command { .. } => 3 + of_turns,
            JobKind::Message(message) => 2 * u64::from(message.ranks()) + 2 + of_turns,
            kind => u64::from(kind.threads(cpus)) + 2 + of_turns,
        };
        let most = setting.jobs.iter().map(|job| threads_of(&job.kind)).max().unwrap_or(0);
        check_threads_per_process(most)?;
        let total = setting.jobs.iter().map(|job| u64::from(job.copies).saturating_mul(threads_of(&job.kind)));
        check_threads(total.fold(0, u64::saturating_add))
    }

    /// Runs all jobs of `setting`, each as a child process with real threads, until all jobs have
    /// ended except the endless ones. All are ready before any starts. Endless jobs that arrive at
    /// the beginning start 20 ms before the others, and count from the start of the others. Jobs
    /// that arrive later are ready until then, and count from their arrival.
    ///
    /// Random draws depend only on `seed` and the jobs' names. No process is left when it returns
    /// or unwinds, nor when this process is killed. It blocks, and the calling thread must not end
    /// before it returns, because the kernel treats the end of that thread as the end of the
    /// children's parent.
    ///
    /// # Errors
    /// As [`Host::check`]; [`Error::Cancelled`] soon after `cancel` is set (50 ms, and the time
    /// that the kernel needs to end the processes); otherwise the reason why a job failed.
    pub fn run(
        &self,
        setting: &Setting,
        seed: u64,
        recording: Recording,
        cancel: &AtomicBool,
    ) -> Result<HostRun, Error> {
        self.run_until(setting, seed, recording, Duration::MAX, cancel)
    }

    /// Like [`Host::run`], but ends at `limit`, as soon as the jobs notice it, if they have not
    /// ended by then. They have no completion time, and those that meet at a barrier have the rounds
    /// that they have made.
    ///
    /// # Errors
    /// As [`Host::run`].
    pub fn run_until(
        &self,
        setting: &Setting,
        seed: u64,
        recording: Recording,
        limit: Duration,
        cancel: &AtomicBool,
    ) -> Result<HostRun, Error> {
        self.check(setting)?;
        let step = setting.machine.complete(&twin(&self.calibration)).step;
        let arrivals = setting.arrivals(seed, step);
        let cpus = &self.calibration.machine.cpus_allowed;
        let orders = self.orders(setting, seed, recording);
        let turns = sharing(setting).map(|of| Turns::begin(&of, &self.calibration.machine)).transpose()?;
        let mut jobs = Jobs::start(&self.program, &orders, turns, cancel)?;
        for (job, arrival) in jobs.jobs.iter_mut().zip(arrivals) {
            job.arrival = arrival.into();
        }

        jobs.start_endless_early()?;
        if jobs.jobs.iter().any(Job::starts_early) {
            jobs.run_for(cancel, EARLY_START)?;
        }
        let watched = jobs.jobs.iter().zip(0..).filter_map(|(job, number)| {
            Some((JobId(number), job.threads.as_deref().filter(|threads| !threads.is_empty())?))
        });
        let mut sampler = Sampler::new(watched);
        let (began, start, idle) = (cosched::now(), Instant::now(), idle_time(cpus));
        jobs.limit = start.checked_add(limit);
        jobs.start_arrived(start)?;
        jobs.wait_until(cancel, Some(start), Some(&mut sampler), |jobs| {
            let have_ended = jobs.iter().all(|job| job.endless || job.outcome.is_some());
            (have_ended || start.elapsed() >= limit).then_some(())
        })?;
        jobs.cut_off()?;
        let length = Span::from(start.elapsed());
        let idle = idle_time(cpus).zip(idle).map(|(end, start)| end - start);
        jobs.stop()?;
        let outcomes: Vec<_> =
            jobs.wait_until(cancel, None, None, |jobs| jobs.iter().map(|job| job.outcome.clone()).collect())?;
        let coscheduling = jobs.turns.as_ref().map(Turns::outcome);
        let machine = MachineOutcome { coscheduling, ..self.machine_outcome(setting, &outcomes, length, idle) };
        let cut_off = jobs.jobs.iter().map(|job| job.cut_off).collect();
        let records = jobs.jobs.iter_mut().map(|job| std::mem::take(&mut job.record)).collect();
        let event_logs = jobs.jobs.iter_mut().map(|job| {
            // They arrived in the order in which the threads ended.
            let mut event_logs = std::mem::take(&mut job.event_logs);
            event_logs.sort_by_key(|log| log.number);
            JobEventLogs { job: job.name.clone(), process: job.process(), event_logs }
        });
        let event_logs = event_logs.collect();
        let threads = jobs.jobs.iter_mut().map(|job| job.threads.take().unwrap_or_default()).collect();
        jobs.end()?;
        let outcome = Outcome { jobs: outcomes, machine };
        Ok(HostRun { outcome, cut_off, timeline: sampler.samples, began, threads, records, event_logs })
    }

    /// Runs a command alone, once, and returns the CPU time of all of its processes.
    ///
    /// # Errors
    /// As [`Host::run`].
    pub fn measure_command(&self, argv: &[String], cancel: &AtomicBool) -> Result<Span, Error> {
        let name = argv.first().cloned().unwrap_or_default();
        let kind = JobKind::Command { argv: argv.to_vec(), threads: 1, work: None };
        let jobs = vec![scenario::Job::new(name, 1, kind)];
        let setting = Setting { machine: MachineKeys::default(), jobs, coscheduling: None, keep_running: false };
        let run = self.run(&setting, 0, Recording::Nothing, cancel)?;
        Ok(run.outcome.jobs.iter().filter_map(|job| job.cpu_ns).sum())
    }

    /// The orders to the jobs' processes. Multiples of CS and granularities have the same meaning
    /// as in the simulated twin.
    pub(crate) fn orders(&self, setting: &Setting, seed: u64, recording: Recording) -> Vec<Order> {
        // The costs are those measured here, regardless of the simulated machine. Only the margin
        // comes from the scenario.
        let twin = twin(&self.calibration);
        let machine = setting.machine.complete(&twin);
        let costs = scenario::Machine { spin_margin: machine.spin_margin, ..twin }.costs();
        let order = |(name, job): (String, &scenario::Job)| Order {
            job: scenario::Job { name, kind: turns::with_waiting(setting, job.kind.clone()), ..job.clone() },
            seed,
            step: machine.step,
            costs,
            cpus: self.calibration.machine.cpus,
            device_depth: machine.device_depth,
            rate: self.calibration.rate,
            keep_running: setting.keep_running,
            recording,
            rank: None,
        };
        setting.jobs_with_copies().map(order).collect()
    }

    fn machine_outcome(
        &self,
        setting: &Setting,
        jobs: &[JobOutcome],
        length: Span,
        idle: Option<Span>,
    ) -> MachineOutcome {
        let cpus = self.calibration.machine.cpus;
        let percent = |part: Span, cpus: u32| 100.0 * part.as_secs_f64() / (length.as_secs_f64() * f64::from(cpus));
        // The activity of jobs after their counted end is unknown, so there are no shares of the
        // whole.
        let share = |part: fn(&JobOutcome) -> Option<Span>| {
            let sum = jobs.iter().filter_map(part).sum();
            (!setting.keep_running).then(|| percent(sum, cpus))
        };
        let allowed = self.calibration.machine.cpus_allowed.len() as u32;
        MachineOutcome {
            cpus,
            scheduler: self.calibration.machine.scheduler(),
            // It is unknown how a command uses its CPU time.
            work_percent: share(|job| job.delivered_work_ns.or(job.cpu_ns)),
            spin_percent: share(|job| job.spin_ns),
            switch_percent: None,
            idle_percent: idle.filter(|_| length >= SHORTEST_FOR_IDLE).map(|idle| percent(idle, allowed).min(100.0)),
            events: None,
            coscheduling: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::sample_calibration;
    use crate::machine::Machine;

    #[test]
    fn multiples_of_cs_use_the_measured_cost_for_any_simulated_machine() {
        let host = Host { program: "/nowhere".into(), calibration: sample_calibration(Machine::current().unwrap()) };
        let crew = JobKind::Barrier {
            threads: 2,
            compute: scenario::Compute::Granularity(scenario::Granularity::Fine),
            rounds: 1,
            waiting: policy::waiting::WaitingRule::AlwaysBlock,
        };
        let costs = |machine| {
            let jobs = vec![scenario::Job::new("crew", 1, crew.clone())];
            let setting = Setting { machine, jobs, coscheduling: None, keep_running: false };
            host.orders(&setting, 1, Recording::Nothing).remove(0).costs
        };
        let like_host = MachineKeys { like_host: true, ..MachineKeys::default() };
        let measured = costs(like_host.clone());
        assert_eq!(measured, twin(&host.calibration).costs());
        let simulated = MachineKeys { context_switch: Some(Span::from_millis(1)), ..like_host };
        assert_eq!(costs(simulated), measured);
        let margin = Some("2 us".parse().unwrap());
        let with_margin = MachineKeys { spin_margin: margin, ..MachineKeys::default() };
        assert_eq!(costs(with_margin).margin, Span::from_micros(2));
    }
}
