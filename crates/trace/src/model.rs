//! What a trace tells, before it is bytes: a cast, and events.

use policy::{CpuId, JobId, ThreadId};
use scenario::Setting;

/// Perfetto takes a higher number of a CPU for a broken file.
pub const MOST_CPUS: u32 = 1024;

/// Who appears in a trace. Events name jobs, threads and CPUs by their places here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cast {
    /// How many CPUs there are; at most [`MOST_CPUS`].
    pub cpus: u32,
    /// The jobs, copies counted one by one, and what else has threads.
    pub jobs: Vec<Job>,
    /// The threads of all jobs.
    pub threads: Vec<Thread>,
}

/// A job: a process to Perfetto.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its process id, positive and no other's.
    pub id: i32,
    /// Its name.
    pub name: String,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its thread id, positive and no other's; that of its job for a process's first thread.
    pub id: i32,
    /// Its job, by its place in the cast.
    pub job: usize,
    /// Its name.
    pub name: String,
}

impl Cast {
    /// The jobs and threads of a setting on a machine with so many CPUs, in the order in which a simulation numbers them, with ids
    /// that are made up.
    pub fn of(setting: &Setting, cpus: u32) -> Cast {
        let mut cast = Cast { cpus, ..Cast::default() };
        for (name, job) in setting.jobs_with_copies() {
            cast.add(name, job.kind.threads(cpus));
        }
        cast
    }

    /// Adds a job with so many threads, each named after it and its number.
    pub fn add(&mut self, name: String, threads: u32) {
        // Small ids mean something to Linux, and so to those who read its traces: 0 is idleness, 1 is init.
        const FIRST: usize = 1000;
        let id = |place: usize| i32::try_from(FIRST + place).unwrap_or(i32::MAX);
        let job = self.jobs.len();
        let first = self.threads.len();
        self.jobs.push(Job { id: id(first), name: name.clone() });
        let thread = |number: usize| Thread { id: id(first + number), job, name: format!("{name}/{number}") };
        self.threads.extend((0..threads as usize).map(thread));
    }
}

/// What happens at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A CPU goes from what it did to something else. All are idle at the beginning.
    Switch {
        /// The CPU.
        cpu: CpuId,
        /// In what state whoever ran there leaves it; of no meaning where it was idle.
        leaves: Leaves,
        /// Who runs there from now on; none of the cast where the CPU is idle, or nobody knows what it does.
        to: Option<ThreadId>,
    },
    /// A thread becomes ready to run.
    Wakes {
        /// On which CPU this is brought about.
        cpu: CpuId,
        /// By whom; by nobody of the cast when the run begins.
        waker: Option<ThreadId>,
        /// The thread.
        woken: ThreadId,
    },
    /// A thread ends what it was at, if anything, and begins something else.
    Begins {
        /// The thread.
        thread: ThreadId,
        /// What it is at from now on.
        phase: Phase,
    },
    /// A thread is through with everything.
    Ends {
        /// The thread.
        thread: ThreadId,
    },
    /// All threads of a job have met. What they did since they last met, or since the beginning, was a round.
    Round {
        /// The job.
        job: JobId,
    },
}

/// In what state a thread leaves its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// It could go on: it was preempted.
    Preempted,
    /// It could go on: it has yielded.
    Ready,
    /// It waits for something.
    Asleep,
    /// It does not come back.
    Ended,
}

/// What a thread is at, on a CPU or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It computes.
    Compute,
    /// It spins until the others have come.
    Spin,
    /// It yields its CPU.
    Yield,
    /// It sleeps until it is woken.
    Block,
    /// It waits for a lock; how, is not known.
    Wait,
}

impl Phase {
    /// All phases.
    pub const ALL: [Phase; 5] = [Phase::Compute, Phase::Spin, Phase::Yield, Phase::Block, Phase::Wait];

    /// As Perfetto shows it.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Compute => "compute",
            Phase::Spin => "spin",
            Phase::Yield => "yield",
            Phase::Block => "block",
            Phase::Wait => "wait",
        }
    }
}
