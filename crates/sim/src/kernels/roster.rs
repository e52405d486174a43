//! Who there is: the threads of a run as a kernel knows them before any of them runs.

use std::ops::Range;

use policy::ThreadId;
use scenario::{Attributes, JobKind, Setting};

/// The threads of a run, job by job: copies of jobs are jobs of their own, and threads are numbered through.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    jobs: Vec<JobThreads>,
    /// The job of each thread.
    job_of: Vec<u32>,
}

/// The threads of one job, which the kernel is asked to schedule alike.
#[derive(Clone, Debug)]
pub struct JobThreads {
    /// Their numbers.
    pub threads: Range<usize>,
    /// How the kernel is asked to schedule them.
    pub attributes: Attributes,
    /// Whether they share an address space, as those do that wait for each other; otherwise each has its own.
    pub shares_memory: bool,
}

impl Roster {
    /// The threads of a setting on a machine with so many CPUs.
    pub fn new(setting: &Setting, cpus: u32) -> Roster {
        let mut roster = Roster::default();
        for (_, job) in setting.jobs_with_copies() {
            let shares_memory = match job.kind {
                JobKind::Barrier { .. } | JobKind::Lock { .. } | JobKind::Pipeline(_) | JobKind::Fibers(_) => true,
                JobKind::Cpu { .. } | JobKind::Command { .. } => false,
            };
            roster.enter(job.kind.threads(cpus), job.attributes.clone(), shares_memory);
        }
        roster
    }

    /// Adds the threads of one more job.
    pub fn enter(&mut self, threads: u32, attributes: Attributes, shares_memory: bool) {
        let (job, first) = (self.jobs.len() as u32, self.job_of.len());
        self.job_of.extend((0..threads).map(|_| job));
        self.jobs.push(JobThreads { threads: first..first + threads as usize, attributes, shares_memory });
    }

    /// How many threads there are.
    pub fn len(&self) -> usize {
        self.job_of.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.job_of.is_empty()
    }

    /// The jobs, in the order of their threads.
    pub fn jobs(&self) -> &[JobThreads] {
        &self.jobs
    }

    /// The number of a thread's job.
    #[inline]
    pub fn job_of(&self, thread: ThreadId) -> usize {
        self.job_of[thread.index()] as usize
    }

    /// How the kernel is asked to schedule a thread.
    #[inline]
    pub fn attributes(&self, thread: ThreadId) -> &Attributes {
        &self.jobs[self.job_of(thread)].attributes
    }

    /// How many threads share each address space.
    pub fn address_spaces(&self) -> impl Iterator<Item = u32> {
        self.jobs.iter().flat_map(|job| {
            let threads = job.threads.len();
            if job.shares_memory { std::iter::repeat_n(threads as u32, 1) } else { std::iter::repeat_n(1, threads) }
        })
    }

    /// So many threads about which there is nothing to say, each a job of its own.
    #[cfg(test)]
    pub(crate) fn of_independent(threads: u32) -> Roster {
        let mut roster = Roster::default();
        (0..threads).for_each(|_| roster.enter(1, Attributes::default(), false));
        roster
    }
}
