//! One job that is there: its task, and the state of its threads' waits.

use policy::gang::Gang;
use policy::waiting::{Costs, Missing, TeamState, Waiter};
use policy::{Instant, Span, ThreadId};
use scenario::draw::Law;
use scenario::result::JobOutcome;
use scenario::{Distribution, JobKind};

use super::account::{Account, Demand};
use super::counters::Counters;
use super::threads::Member;
use crate::workloads::fibers::Fibers;
use crate::workloads::lock::Lock;
use crate::workloads::messages::Messages;
use crate::workloads::pipeline::Pipeline;

/// The task of a job's threads, resolved for the machine.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    /// Compute by this distribution and meet, `rounds` times.
    Barrier { compute: Law, rounds: u64 },
    /// Compute by one distribution without the lock and by the other with it, `rounds` times.
    Lock { compute: Law, critical: Law, rounds: u64 },
    /// Compute for a time that is drawn for each thread; without end if `None`.
    Cpu { work: Option<Law> },
    /// Carry out stages until `rounds` rounds have passed all of them.
    Pipeline { rounds: u64 },
    /// Run fibers until all have ended.
    Fibers,
    /// Exchange messages.
    Messages,
}

/// One job. Copies are counted one by one.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) task: Task,
    pub(crate) arrives: Instant,
    /// Its threads, by their numbers in the run.
    pub(crate) threads: std::ops::Range<usize>,
    /// The same threads, if they meet, share a lock or carry out stages. Empty if they only
    /// compute.
    pub(super) members: Vec<Member>,
    pub(super) team_state: TeamState,
    pub(crate) account: Account,
    pub(super) demand: Demand,
    /// The threads that wait at the barrier, in the order of arrival.
    pub(crate) arrivals: Vec<ThreadId>,
    /// The missing threads, in ascending order, if a rule has asked for them in this round.
    pub(crate) missing: Vec<Missing>,
    pub(super) is_missing_listed: bool,
    /// The counters of its barrier, if they take time.
    pub(super) counters: Option<Counters>,
    pub(crate) lock: Lock,
    pub(crate) pipeline: Option<Pipeline>,
    pub(crate) fibers: Option<Fibers>,
    pub(crate) messages: Option<Messages>,
    /// The times of the CPUs and of the device that its controller has seen.
    pub(crate) observed: (Span, Span),
    /// The initial state of a waiter.
    pub(super) fresh: Waiter,
    /// How often a thread has begun to wait for the lock or for a buffer.
    pub(super) waits: u32,
    /// How often they have met or had the lock.
    pub(crate) rounds_done: u64,
    pub(crate) threads_left: usize,
    /// How many of its threads are blocked on each of its cells.
    pub(super) blocked: Vec<usize>,
    /// When a rank began the work of a message job.
    pub(crate) began: Option<Instant>,
    /// Its outcome, once it has ended for the first time.
    pub(crate) outcome: Option<JobOutcome>,
}

impl Job {
    /// Whether a waiter knows for which threads it waits: those that are missing at the barrier, or
    /// those that send to it.
    pub(crate) fn is_team(&self) -> bool {
        matches!(self.task, Task::Barrier { .. } | Task::Messages)
    }

    /// The number of a thread's cell among those of the job, by its own number.
    #[inline]
    pub(super) fn cell_in_job(&self, number: usize) -> usize {
        if self.blocked.len() == 1 { 0 } else { number % self.blocked.len() }
    }

    /// On how many cells it has threads.
    pub(crate) fn cells(&self) -> usize {
        self.blocked.len()
    }

    /// The number of threads on the cell of this one.
    pub(crate) fn threads_on_cell_of(&self, number: usize) -> u32 {
        (self.threads.len() - self.cell_in_job(number)).div_ceil(self.blocked.len()) as u32
    }

    /// Its outcome if it ends, or is cut off, now.
    pub(crate) fn outcome_at(&self, now: Instant, completion: Option<Instant>) -> JobOutcome {
        let sum = &self.account;
        JobOutcome {
            job: self.name.clone(),
            completion_ns: completion.map(|at| at.since(self.arrives)),
            start_ns: self.began.map(|at| at.since(self.arrives)),
            rounds: (!matches!(self.task, Task::Cpu { .. })).then_some(self.rounds_done),
            ssr_percent: sum.ssr_percent(),
            cpu_ns: Some(sum.cpu),
            spin_ns: Some(sum.spin),
            delivered_work_ns: Some(sum.work),
            voluntary_switches: Some(sum.voluntary),
            involuntary_switches: Some(sum.involuntary),
            stages: self.pipeline.as_ref().map_or_else(Vec::new, |pipeline| pipeline.outcome(now)),
            fibers: self.fibers.as_ref().map(Fibers::outcome).map(Box::new),
        }
    }
}

/// The task of a job on a machine with these costs, co-scheduled like this, and the initial waiter
/// of each thread.
pub(super) fn resolve(kind: &JobKind, costs: Costs, how: Gang) -> (Task, Waiter) {
    let none_waits = policy::waiting::WaitingRule::AlwaysBlock.waiter(costs);
    match kind {
        JobKind::Barrier { compute, rounds, waiting, .. } => {
            (Task::Barrier { compute: compute.on(costs.cs), rounds: *rounds }, how.waiting(*waiting).waiter(costs))
        }
        JobKind::Lock { compute, critical, rounds, waiting, .. } => {
            let (compute, critical) = (compute.law(), critical.law());
            (Task::Lock { compute, critical, rounds: *rounds }, waiting.waiter(costs))
        }
        JobKind::Cpu { work, .. } => (Task::Cpu { work: work.as_ref().map(Distribution::law) }, none_waits),
        JobKind::Pipeline(pipeline) => (Task::Pipeline { rounds: pipeline.rounds }, pipeline.waiting.waiter(costs)),
        JobKind::Fibers(_) => (Task::Fibers, none_waits),
        JobKind::Message(message) => (Task::Messages, how.waiting(message.waiting).waiter(costs)),
        JobKind::Command { work, threads, .. } => {
            let share = work.map(|work| Span::from_nanos(work.as_nanos() / u64::from(*threads)));
            (Task::Cpu { work: share.map(|share| Distribution::exactly(share).law()) }, none_waits)
        }
    }
}
