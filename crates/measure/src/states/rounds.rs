//! The threads that passed each round of a barrier awake, and those that had to be woken.

use std::ops::Range;

use policy::{CpuId, Instant, JobId, ThreadId};
use scenario::{Job, JobKind, Setting};
use sim::observer::{CpuState, Observer, ThreadPhase};

/// The most rounds that are kept, from the first one.
pub const MOST_ROUNDS: usize = 100_000;

/// The rounds of a barrier job, from the first one: when each completed, and which threads were
/// awake.
///
/// Threads that spin or yield, on a CPU or preempted, are awake, and so is the last to arrive. All
/// others are asleep.
#[derive(Clone, Debug, PartialEq)]
pub struct Rounds {
    /// The number of threads of the barrier.
    pub threads: usize,
    /// When each round completed.
    pub at: Vec<Instant>,
    /// One bit per thread, in the same number of words for every round.
    awake: Vec<u64>,
}

impl Rounds {
    /// No rounds yet, of a job with `threads` threads.
    pub fn new(threads: usize) -> Rounds {
        Rounds { threads, at: Vec::new(), awake: Vec::new() }
    }

    /// Adds a round. `awake` has one item per thread. Drops rounds after [`MOST_ROUNDS`].
    pub fn push(&mut self, at: Instant, awake: impl Iterator<Item = bool>) {
        if self.at.len() == MOST_ROUNDS {
            return;
        }
        self.at.push(at);
        let first = self.awake.len();
        self.awake.resize(first + self.words(), 0);
        for (thread, _) in awake.take(self.threads).enumerate().filter(|(_, is)| *is) {
            self.awake[first + thread / 64] |= 1 << (thread % 64);
        }
    }

    fn words(&self) -> usize {
        self.threads.div_ceil(64)
    }

    /// Whether a thread passed a round awake.
    pub fn is_awake(&self, round: usize, thread: usize) -> bool {
        self.side(round)[thread / 64] >> (thread % 64) & 1 == 1
    }

    /// The number of threads that passed a round awake.
    pub fn awake(&self, round: usize) -> usize {
        self.side(round).iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The number of threads that passed both this round and the one before awake.
    pub fn awake_twice(&self, round: usize) -> usize {
        self.count(round, |now, before| now & before)
    }

    /// The number of threads that were awake in exactly one of this round and the one before.
    pub fn changes(&self, round: usize) -> usize {
        self.count(round, |now, before| now ^ before)
    }

    /// Counts the bits of `what(this round, the round before)`.
    fn count(&self, round: usize, what: impl Fn(u64, u64) -> u64) -> usize {
        let pairs = self.side(round).iter().zip(self.side(round - 1));
        pairs.map(|(now, before)| what(*now, *before).count_ones() as usize).sum()
    }

    fn side(&self, round: usize) -> &[u64] {
        let words = self.words();
        &self.awake[round * words..(round + 1) * words]
    }
}

/// The first copy of each job that has copies: the job, its number in the run, and its threads by
/// their numbers in the run.
pub(super) fn first_copies(setting: &Setting, cpus: u32) -> impl Iterator<Item = (&Job, JobId, Range<usize>)> {
    let (mut first, mut number) = (0, 0);
    setting.jobs.iter().filter(|job| job.copies > 0).map(move |job| {
        let (threads, id) = (job.kind.threads(cpus) as usize, JobId(number));
        let numbers = first..first + threads;
        first += threads * job.copies as usize;
        number += job.copies;
        (job, id, numbers)
    })
}

/// Records the rounds of one job.
#[derive(Clone, Debug)]
pub struct RoundRecorder {
    job: JobId,
    /// Its threads, by their numbers in the run.
    threads: Range<usize>,
    is_awake: Vec<bool>,
    /// The rounds so far.
    pub rounds: Rounds,
}

impl RoundRecorder {
    /// A recorder for the first copy of the job of this name, on a machine with `cpus` CPUs. `None`
    /// if there is no such job or it has no barrier.
    pub fn of(setting: &Setting, cpus: u32, name: &str) -> Option<RoundRecorder> {
        let (_, job, threads) = first_copies(setting, cpus)
            .find(|(job, ..)| job.name == name && matches!(job.kind, JobKind::Barrier { .. }))?;
        Some(RoundRecorder { job, is_awake: vec![true; threads.len()], rounds: Rounds::new(threads.len()), threads })
    }
}

impl Observer for RoundRecorder {
    fn cpu_changed(&mut self, _: Instant, _: CpuId, _: CpuState) {}

    fn thread_began(&mut self, _: Instant, thread: ThreadId, what: ThreadPhase) {
        if self.threads.contains(&thread.index()) {
            self.is_awake[thread.index() - self.threads.start] = what != ThreadPhase::Block;
        }
    }

    fn barrier_completed(&mut self, at: Instant, job: JobId, _last: ThreadId) {
        if job == self.job {
            self.rounds.push(at, self.is_awake.iter().copied());
        }
    }
}
