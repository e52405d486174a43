//! The errors of simulations that make no headway.

use policy::Instant;
use policy::record::Recorder;

use super::observer::{CpuState, Observer};
use super::scheduler::Scheduler;
use super::threads::{Activity, ENDLESS};
use super::{Cpu, Engine};
use crate::Error;

impl<S: Scheduler, R: Recorder + Default, W: Observer + ?Sized> Engine<'_, S, R, W> {
    /// Counts a step without headway, once all jobs have arrived.
    #[inline]
    pub(super) fn count_step_without_headway(&mut self) -> Result<(), Error> {
        if self.workload.to_come > 0 {
            return Ok(());
        }
        match self.headway.switch(self.now) {
            Some(since) => Err(self.stall_error(Some(since))),
            None => Ok(()),
        }
    }

    pub(super) fn stall_error(&self, no_headway_since: Option<Instant>) -> Error {
        let unfinished = self.workload.jobs.iter().find(|job| job.outcome.is_none() && !job.is_endless());
        if let (Some(since), Some(job)) = (no_headway_since, unfinished) {
            return Error::NoHeadway { since, job: job.name().to_owned() };
        }
        let runs_for_ever = self.cpus.iter().any(|cpu| cpu.state != CpuState::Idle);
        match unfinished {
            // The other jobs arrive after the clock has run out.
            Some(_) if self.workload.to_come > 0 => Error::TooLong,
            Some(job) if !runs_for_ever => Error::Stuck { at: self.now, job: job.name().to_owned() },
            Some(job) if self.cpus.iter().any(|cpu| self.is_hogged(cpu)) => {
                Error::Hogged { at: self.now, job: job.name().to_owned() }
            }
            _ => Error::TooLong,
        }
    }

    /// Whether the thread of a CPU continues for ever unless it is preempted.
    fn is_hogged(&self, cpu: &Cpu) -> bool {
        let CpuState::Running(thread) = cpu.state else { return false };
        let activity = self.workload.threads[thread.index()].activity;
        matches!(activity, Activity::Compute { left: ENDLESS } | Activity::Spin { left: ENDLESS, .. })
    }
}
