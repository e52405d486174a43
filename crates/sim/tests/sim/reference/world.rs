//! The visible state at one moment. Times are in steps; threads and CPUs are numbers.

use crate::reference::counters::{self, Counters};
use policy::waiting::Waiter;
use rowlock_sim::observer::{CpuState, LeaveReason};
use scenario::draw::{Law, Stream};

pub(crate) type Cpu = usize;
pub(crate) type Thread = usize;

pub(crate) struct World {
    /// How many steps have passed.
    pub(crate) now: u64,
    /// The CPU of the current event, if any.
    pub(crate) here: Option<Cpu>,
    pub(crate) cpus: Vec<SimulatedCpu>,
    pub(crate) threads: Vec<ThreadState>,
    /// The jobs, with each copy as a job.
    pub(crate) jobs: Vec<JobState>,
}

pub(crate) struct SimulatedCpu {
    pub(crate) state: CpuState,
    /// While it switches: the remaining steps.
    pub(crate) switch_left: u64,
    /// The last steps of this switch, in which the incoming thread fills its cache.
    pub(crate) refill: u64,
    /// When it last became idle.
    pub(crate) idle_since: u64,
    /// While it switches: where the outgoing thread goes, if that is another CPU.
    pub(crate) moved_to: Option<Cpu>,
}

pub(crate) struct ThreadState {
    pub(crate) job: usize,
    pub(crate) place: Place,
    pub(crate) activity: Activity,
    /// The CPU that it last had.
    pub(crate) last_cpu: Option<Cpu>,
    /// For the times that it computes between barriers.
    pub(crate) stream: Stream,
    pub(crate) waiter: Waiter,
    /// Whether it has done the work of its `cpu` job once.
    pub(crate) work_is_done: bool,
}

/// The place of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// It could run, and no CPU has it.
    Ready,
    /// A CPU runs it or is switching to it.
    On(Cpu),
    /// A CPU is switching away from it.
    SwitchingOut(LeaveReason),
    /// It waits to be woken.
    Blocked,
    /// It has ended.
    Gone,
}

/// The activity of a thread that has a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Activity {
    /// It computes for `left` hundredths of a step, as long as no other CPU slows it down.
    Computing { left: u64 },
    /// It writes a counter on its way to the barrier, after `left` more steps.
    Fetching { left: u64, counter: counters::Place },
    /// It computes without end.
    Endless,
    /// It is at the barrier and spins. It has done so for `spun` steps and will for at most
    /// `limit`.
    Spinning { spun: u64, limit: u64 },
    /// It is at the barrier and blocks or has blocked.
    Waiting,
    /// It has only to end.
    Ending,
}

pub(crate) struct JobState {
    pub(crate) name: String,
    pub(crate) kind: JobKind,
    pub(crate) size: usize,
    /// The threads at the barrier, in the order of arrival.
    pub(crate) arrived: Vec<Thread>,
    /// The counters at which they arrive, if those take time.
    pub(crate) counters: Option<Counters>,
    /// How often its threads have met.
    pub(crate) met: u64,
    /// When it completed.
    pub(crate) completed: Option<u64>,
    /// Its counts until then.
    pub(crate) counts: Counts,
}

pub(crate) enum JobKind {
    Barrier { compute: Law, rounds: u64 },
    Cpu { work: Option<Law> },
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) spins: u64,
    pub(crate) spins_that_succeeded: u64,
    pub(crate) blocked: u64,
    pub(crate) preempted: u64,
    /// Steps in which its threads had a CPU, including switches to them.
    pub(crate) cpu: u64,
    pub(crate) spinning: u64,
    pub(crate) working: u64,
}

impl World {
    /// The thread that a CPU runs or is switching to.
    pub(crate) fn thread_on(&self, cpu: Cpu) -> Option<Thread> {
        match self.cpus[cpu].state {
            CpuState::Idle => None,
            CpuState::Running(thread) => Some(thread.index()),
            CpuState::Switching { to, .. } => to.map(policy::ThreadId::index),
        }
    }

    /// The thread that a CPU runs.
    pub(crate) fn running_on(&self, cpu: Cpu) -> Option<Thread> {
        match self.cpus[cpu].state {
            CpuState::Running(thread) => Some(thread.index()),
            _ => None,
        }
    }

    pub(crate) fn is_switching(&self, cpu: Cpu) -> bool {
        matches!(self.cpus[cpu].state, CpuState::Switching { .. })
    }
}
