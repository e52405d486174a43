//! The threads of a run, as a kernel knows them before any of them runs.

use std::ops::Range;

use policy::ThreadId;
use scenario::{Attributes, JobKind, Setting};

/// The threads of a run, job by job. Each copy of a job is a job. Threads are numbered through the
/// run.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    jobs: Vec<JobThreads>,
    job_of: Vec<u32>,
}

/// The threads of one job, which have the same scheduling attributes.
#[derive(Clone, Debug)]
pub struct JobThreads {
    /// Their numbers.
    pub threads: Range<usize>,
    /// Their scheduling attributes.
    pub attributes: Attributes,
    /// Whether they share an address space, as threads that wait for each other do. Otherwise each
    /// has its own.
    pub shares_memory: bool,
}

impl Roster {
    /// The threads of a setting on a machine with `cpus` CPUs.
    pub fn new(setting: &Setting, cpus: u32) -> Roster {
        let mut roster = Roster::default();
        for (_, job) in setting.jobs_with_copies() {
            let shares_memory = match job.kind {
                JobKind::Barrier { .. } | JobKind::Lock { .. } | JobKind::Pipeline(_) | JobKind::Fibers(_) => true,
                JobKind::Cpu { .. } | JobKind::Command { .. } | JobKind::Message(_) => false,
            };
            roster.enter(job.kind.threads(cpus), job.attributes.clone(), shares_memory);
        }
        roster
    }

    /// Adds the threads of a job.
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

    /// The scheduling attributes of a thread.
    #[inline]
    pub fn attributes(&self, thread: ThreadId) -> &Attributes {
        &self.jobs[self.job_of(thread)].attributes
    }

    /// The number of threads in each address space.
    pub fn address_spaces(&self) -> impl Iterator<Item = u32> {
        self.jobs.iter().flat_map(|job| {
            let threads = job.threads.len();
            if job.shares_memory { std::iter::repeat_n(threads as u32, 1) } else { std::iter::repeat_n(1, threads) }
        })
    }
}
