//! The content of a trace: its participants and events.

use policy::{CpuId, JobId, ThreadId};
use scenario::Setting;

/// The largest number of CPUs: Perfetto rejects files with more.
pub const MOST_CPUS: u32 = 1024;

/// The CPUs, jobs and threads of a trace. Events refer to them by their indices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Participants {
    /// The number of CPUs; at most [`MOST_CPUS`].
    pub cpus: u32,
    /// The jobs, each copy as one, and other processes.
    pub jobs: Vec<Job>,
    /// The threads of all jobs.
    pub threads: Vec<Thread>,
}

/// A job; a process in Perfetto.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its process id, positive and unique.
    pub id: i32,
    /// Its name.
    pub name: String,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its thread id, positive and unique; that of its job for a process's first thread.
    pub id: i32,
    /// The index of its job.
    pub job: usize,
    /// Its name.
    pub name: String,
}

impl Participants {
    /// The jobs and threads of a setting on a machine with this many CPUs, numbered as in a
    /// simulation, with artificial ids.
    pub fn of(setting: &Setting, cpus: u32) -> Participants {
        let mut participants = Participants { cpus, ..Participants::default() };
        for (name, job) in setting.jobs_with_copies() {
            participants.add(name, job.kind.threads(cpus));
        }
        participants
    }

    /// Adds a job with this many threads, which are named after the job and their number.
    pub fn add(&mut self, name: String, threads: u32) {
        // Small ids have a meaning in Linux: 0 is the idle task, 1 is init.
        const FIRST: usize = 1000;
        let id = |place: usize| i32::try_from(FIRST + place).unwrap_or(i32::MAX);
        let job = self.jobs.len();
        let first = self.threads.len();
        self.jobs.push(Job { id: id(first), name: name.clone() });
        let thread = |number: usize| Thread { id: id(first + number), job, name: format!("{name}/{number}") };
        self.threads.extend((0..threads as usize).map(thread));
    }
}

/// An event at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A CPU switches. All are idle at the start.
    Switch {
        /// The CPU.
        cpu: CpuId,
        /// The state in which the previous thread leaves; ignored if the CPU was idle.
        previous: PreviousState,
        /// The next thread; `None` if the CPU is idle, or its thread is unknown.
        to: Option<ThreadId>,
    },
    /// A thread becomes ready to run.
    Wakeup {
        /// The CPU of the waker.
        cpu: CpuId,
        /// The waker; `None` when the run starts.
        waker: Option<ThreadId>,
        /// The thread.
        woken: ThreadId,
    },
    /// A thread ends its present phase, if any, and begins another.
    PhaseBegin(ThreadId, Phase),
    /// A thread ends.
    ThreadEnd(ThreadId),
    /// All threads of a job have met, which ends a round. The first round begins at the start.
    RoundEnd(JobId),
}

/// The state in which a thread leaves its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreviousState {
    /// It was preempted.
    Preempted,
    /// It has yielded.
    Yielded,
    /// It is blocked.
    Blocked,
    /// It is stopped.
    Stopped,
    /// It has ended.
    Ended,
}

/// The phase of a thread, on a CPU or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It computes.
    Compute,
    /// It spins until the others arrive.
    Spin,
    /// It yields its CPU.
    Yield,
    /// It sleeps until it is woken.
    Block,
    /// It waits for a lock, in an unknown way.
    Wait,
}

impl Phase {
    /// All phases.
    pub const ALL: [Phase; 5] = [Phase::Compute, Phase::Spin, Phase::Yield, Phase::Block, Phase::Wait];

    /// The name in Perfetto.
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
