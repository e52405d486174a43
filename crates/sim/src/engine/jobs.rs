//! The jobs of a run: those to come, those that are there, and those that have ended.
//!
//! Only a job that is there has all of its state. A job to come is known by the scenario, and one
//! that has ended by its outcome, so that a run may have a hundred thousand of both.

use std::ops::{Index, IndexMut, Range};

use policy::Span;
use scenario::result::JobOutcome;
use scenario::{JobKind, Setting};

use super::job::Job;

/// The jobs, by their numbers. Those that are there are indexed; no other has an event.
#[derive(Clone, Debug)]
pub(crate) struct Jobs<'a> {
    slots: Vec<Slot>,
    sources: Vec<Source<'a>>,
}

#[derive(Clone, Debug)]
enum Slot {
    ToCome,
    There(Box<Job>),
    Ended(Box<Ended>),
}

/// A job of the scenario, whose copies are jobs of the run.
#[derive(Clone, Copy, Debug)]
struct Source<'a> {
    job: &'a scenario::Job,
    /// The numbers of its first copy and of that copy's first thread.
    first: usize,
    first_thread: usize,
    /// The threads of each copy.
    threads: usize,
}

/// The outcome of a job that has ended and has no parts.
#[derive(Clone, Copy, Debug)]
struct Ended {
    completion: Span,
    rounds: Option<u64>,
    ssr_percent: Option<f64>,
    cpu: Span,
    spin: Span,
    work: Span,
    voluntary_switches: u64,
    involuntary_switches: u64,
}

impl<'a> Jobs<'a> {
    /// Jobs to come.
    pub(crate) fn new(setting: &'a Setting, cpus: u32) -> Jobs<'a> {
        let (mut first, mut first_thread) = (0, 0);
        let source = |job: &'a scenario::Job| {
            let source = Source { job, first, first_thread, threads: job.kind.threads(cpus) as usize };
            first += job.copies as usize;
            first_thread += job.copies as usize * source.threads;
            source
        };
        let sources: Vec<_> = setting.jobs.iter().filter(|job| job.copies > 0).map(source).collect();
        Jobs { slots: vec![Slot::ToCome; first], sources }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    fn source(&self, job: usize) -> &Source<'a> {
        &self.sources[self.sources.partition_point(|source| source.first <= job) - 1]
    }

    /// The job of the scenario of which this one is a copy.
    pub(crate) fn of_scenario(&self, job: usize) -> &'a scenario::Job {
        self.source(job).job
    }

    pub(crate) fn name(&self, job: usize) -> String {
        let Source { job: of, first, .. } = self.source(job);
        of.name_of_copy((job - first) as u32)
    }

    /// The threads of a job, by their numbers in the run.
    pub(crate) fn threads(&self, job: usize) -> Range<usize> {
        let Source { first, first_thread, threads, .. } = *self.source(job);
        let begin = first_thread + (job - first) * threads;
        begin..begin + threads
    }

    /// Whether a job never ends, so that the run does not wait for it.
    pub(crate) fn is_endless(&self, job: usize) -> bool {
        matches!(self.of_scenario(job).kind, JobKind::Cpu { work: None, .. })
    }

    /// Those that are there.
    pub(crate) fn there(&self) -> impl Iterator<Item = &Job> {
        self.slots.iter().filter_map(|slot| if let Slot::There(job) = slot { Some(&**job) } else { None })
    }

    pub(crate) fn enter(&mut self, number: usize, job: Job) {
        self.slots[number] = Slot::There(Box::new(job));
    }

    /// No thread of a job is left: only its outcome remains, if that is small.
    pub(crate) fn leave(&mut self, number: usize) {
        if let Some(ended) = self[number].outcome.as_ref().and_then(Ended::new) {
            self.slots[number] = Slot::Ended(Box::new(ended));
        }
    }

    /// The numbers of those to come.
    pub(crate) fn to_come(&self) -> Vec<usize> {
        (0..self.len()).filter(|&job| matches!(self.slots[job], Slot::ToCome)).collect()
    }

    /// The first job that has neither ended nor is endless.
    pub(crate) fn first_unfinished(&self) -> Option<usize> {
        let has_ended = |slot: &Slot| match slot {
            Slot::ToCome => false,
            Slot::There(job) => job.outcome.is_some(),
            Slot::Ended(_) => true,
        };
        (0..self.len()).find(|&job| !has_ended(&self.slots[job]) && !self.is_endless(job))
    }

    /// The outcomes of all jobs. `outcome` gives that of one that is there.
    pub(crate) fn into_outcomes(mut self, outcome: impl Fn(&mut Job) -> JobOutcome) -> Vec<JobOutcome> {
        let slots = std::mem::take(&mut self.slots);
        let finish = |(number, slot)| match slot {
            Slot::There(mut job) => outcome(&mut job),
            Slot::Ended(ended) => ended.outcome(self.name(number)),
            Slot::ToCome => JobOutcome { job: self.name(number), ..JobOutcome::default() },
        };
        slots.into_iter().enumerate().map(finish).collect()
    }
}

impl Index<usize> for Jobs<'_> {
    type Output = Job;

    #[inline]
    fn index(&self, job: usize) -> &Job {
        match &self.slots[job] {
            Slot::There(job) => job,
            Slot::ToCome | Slot::Ended(_) => unreachable!("job {job} is not there"),
        }
    }
}

impl IndexMut<usize> for Jobs<'_> {
    #[inline]
    fn index_mut(&mut self, job: usize) -> &mut Job {
        match &mut self.slots[job] {
            Slot::There(job) => job,
            Slot::ToCome | Slot::Ended(_) => unreachable!("job {job} is not there"),
        }
    }
}

impl Ended {
    /// `None` for a job with parts.
    fn new(of: &JobOutcome) -> Option<Ended> {
        let has_parts = !of.stages.is_empty() || of.fibers.is_some() || of.start_ns.is_some();
        if has_parts {
            return None;
        }
        Some(Ended {
            completion: of.completion_ns?,
            rounds: of.rounds,
            ssr_percent: of.ssr_percent,
            cpu: of.cpu_ns?,
            spin: of.spin_ns?,
            work: of.delivered_work_ns?,
            voluntary_switches: of.voluntary_switches?,
            involuntary_switches: of.involuntary_switches?,
        })
    }

    fn outcome(&self, job: String) -> JobOutcome {
        JobOutcome {
            job,
            completion_ns: Some(self.completion),
            rounds: self.rounds,
            ssr_percent: self.ssr_percent,
            cpu_ns: Some(self.cpu),
            spin_ns: Some(self.spin),
            delivered_work_ns: Some(self.work),
            voluntary_switches: Some(self.voluntary_switches),
            involuntary_switches: Some(self.involuntary_switches),
            ..JobOutcome::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_is_to_come_or_has_ended_is_small() {
        assert!(size_of::<Slot>() <= 16, "{}", size_of::<Slot>());
        assert!(size_of::<Ended>() <= 80, "{}", size_of::<Ended>());
        assert!(size_of::<JobOutcome>() <= 200, "{}", size_of::<JobOutcome>());
    }
}
