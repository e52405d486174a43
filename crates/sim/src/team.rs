//! Threads and the jobs that they belong to.

use policy::waiting::{Costs, Missing, Team, Waiter};
use policy::{CpuId, Instant, Span, ThreadId};
use scenario::draw::{Normal, Stream};
use scenario::result::JobOutcome;
use scenario::{Kind, Machine, Setting};

use crate::account::{Account, Use};
use crate::lock::Lock;

/// Longer than any run: what an endless thread has left to do.
pub(crate) const ENDLESS: Span = Span::MAX;

/// Where a thread is: in exactly one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the scheduler's hands.
    Ready,
    /// A CPU is switching to it.
    Coming(CpuId),
    /// On a CPU.
    Running(CpuId),
    /// A CPU is switching away from it.
    Leaving(CpuId),
    /// Off the CPUs until its barrier completes, or its lock is given back.
    Blocked,
    /// It has ended.
    Gone,
}

impl Place {
    /// Whether a thread there neither has a CPU nor wants one.
    fn is_away(self) -> bool {
        matches!(self, Place::Blocked | Place::Gone)
    }
}

/// What a thread does with a CPU when it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// It computes for so much longer.
    Compute { left: Span },
    /// It spins for so much longer; it was told to for `asked`.
    Spin { left: Span, asked: Span },
    /// It is inside `sched_yield`, called at `since`, for so much longer.
    Yield { left: Span, since: Instant },
    /// It is on its way to this CPU.
    Move { to: CpuId },
    /// It waits to be woken.
    Block,
    /// It was woken, and looks whether its lock is free.
    Look,
    /// Its job is done with it.
    Exit,
}

impl Activity {
    /// What a CPU that it runs on is used for.
    pub(crate) fn use_of_cpu(self) -> Use {
        match self {
            Activity::Compute { .. } => Use::Work,
            Activity::Spin { .. } => Use::Spin,
            Activity::Yield { .. } | Activity::Move { .. } | Activity::Block | Activity::Look | Activity::Exit => {
                Use::Switch
            }
        }
    }
}

/// One simulated thread.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) job: usize,
    /// Its number within the job.
    pub(crate) number: u32,
    /// Its number in the records of decisions: that within the job, but for a lock, where each wait has its own.
    pub(crate) recorded_as: ThreadId,
    pub(crate) place: Place,
    pub(crate) activity: Activity,
    pub(crate) waiter: Waiter,
    stream: Stream,
    /// The draws of its waiting rule: apart from the others, so that a rule changes nobody's work.
    draws: Stream,
    /// Whether it waits at the barrier.
    arrived: bool,
    pub(crate) waits_for_lock: bool,
    /// How often it has had the lock.
    turns: u64,
    /// Whether it has spun in its last wait.
    pub(crate) has_spun: bool,
    /// How it waited for what has meanwhile come, until it has a CPU to find that out.
    pub(crate) waited_by: Option<Activity>,
    /// Where it was when it last arrived.
    last_seen: Option<CpuId>,
    /// Whether the run waits for its job.
    pub(crate) is_awaited: bool,
    /// Whether it has done once what it is there for.
    pub(crate) has_ended: bool,
    pub(crate) account: Account,
}

impl Thread {
    /// Charges running time: to its account, and against what it has left to do.
    #[inline]
    pub(crate) fn ran(&mut self, span: Span) {
        self.account.charge(self.activity.use_of_cpu(), span);
        match &mut self.activity {
            Activity::Compute { left } | Activity::Spin { left, .. } | Activity::Yield { left, .. } => {
                if *left != ENDLESS {
                    *left -= span;
                }
            }
            Activity::Move { .. } | Activity::Block | Activity::Look | Activity::Exit => {}
        }
    }
}

/// What the threads of a job do, resolved for the machine.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    /// Compute by this distribution and meet so many times.
    Barrier { compute: Normal, rounds: u64 },
    /// Compute by the one distribution without the lock and by the other with it, so many times.
    Lock { compute: Normal, critical: Normal, rounds: u64 },
    /// Compute for so long.
    Cpu { work: Span },
}

/// One job, copies counted one by one.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    name: String,
    pub(crate) task: Task,
    /// Its threads, by their numbers in the run.
    pub(crate) threads: std::ops::Range<usize>,
    /// Who waits at the barrier, in the order of arrival.
    arrivals: Vec<ThreadId>,
    pub(crate) lock: Lock,
    /// What a waiter is without a past.
    fresh: Waiter,
    /// How often they have met, or had the lock.
    pub(crate) rounds_done: u64,
    pub(crate) threads_left: usize,
    /// How many of its threads are blocked.
    blocked: usize,
    /// What it came to, once it has ended for the first time.
    pub(crate) outcome: Option<JobOutcome>,
}

impl Job {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether its threads take turns at a lock.
    pub(crate) fn has_lock(&self) -> bool {
        matches!(self.task, Task::Lock { .. })
    }

    /// Whether the run waits for it.
    pub(crate) fn is_endless(&self) -> bool {
        matches!(self.task, Task::Cpu { work: ENDLESS })
    }
}

/// All threads and jobs of a run.
#[derive(Clone, Debug)]
pub(crate) struct Crew {
    pub(crate) threads: Vec<Thread>,
    pub(crate) jobs: Vec<Job>,
    /// How many threads are neither on a CPU nor ready for one.
    away: usize,
    step: Span,
    cpus: u32,
    /// An empty list for the next barrier to fill.
    spare: Vec<ThreadId>,
}

impl Crew {
    pub(crate) fn new(machine: &Machine, setting: &Setting, seed: u64) -> Crew {
        let costs = machine.costs();
        let (threads, jobs, spare) = (Vec::new(), Vec::new(), Vec::new());
        let mut crew = Crew { threads, jobs, away: 0, step: machine.step, cpus: machine.cpus, spare };
        for (name, job) in setting.jobs_with_copies() {
            let (task, waiter) = resolve(&job.kind, costs, machine.step);
            let first = crew.threads.len();
            let threads = first..first + job.kind.threads() as usize;
            let index = crew.jobs.len();
            crew.threads.extend((0..job.kind.threads()).map(|number| Thread {
                job: index,
                number,
                recorded_as: ThreadId(number),
                place: Place::Ready,
                activity: Activity::Exit,
                waiter,
                stream: Stream::named(seed, &name, number),
                draws: Stream::named(seed, &format!("waiting in {name}"), number),
                arrived: false,
                waits_for_lock: false,
                turns: 0,
                has_spun: false,
                waited_by: None,
                last_seen: None,
                is_awaited: !matches!(task, Task::Cpu { work: ENDLESS }),
                has_ended: false,
                account: Account::default(),
            }));
            crew.jobs.push(Job {
                name,
                task,
                arrivals: Vec::with_capacity(threads.len()),
                lock: Lock::default(),
                fresh: waiter,
                rounds_done: 0,
                threads_left: threads.len(),
                blocked: 0,
                threads,
                outcome: None,
            });
        }
        for thread in 0..crew.threads.len() {
            crew.begin(thread);
        }
        crew
    }

    /// Gives a thread its next computation.
    pub(crate) fn begin(&mut self, number: usize) {
        let thread = &mut self.threads[number];
        let job = &self.jobs[thread.job];
        let left = match job.task {
            Task::Barrier { compute, .. } => compute.draw(&mut thread.stream, self.step),
            Task::Lock { compute, critical, .. } => {
                let has_it = job.lock.is_held_by(ThreadId(number as u32));
                let normal = if has_it { critical } else { compute };
                normal.draw(&mut thread.stream, self.step)
            }
            Task::Cpu { work } => work,
        };
        thread.activity = Activity::Compute { left };
    }

    /// A thread is at another place from now on.
    pub(crate) fn put(&mut self, thread: ThreadId, place: Place) {
        let moved = &mut self.threads[thread.index()];
        let before = std::mem::replace(&mut moved.place, place);
        let job = &mut self.jobs[moved.job];
        job.blocked = job.blocked + usize::from(place == Place::Blocked) - usize::from(before == Place::Blocked);
        self.away = self.away + usize::from(place.is_away()) - usize::from(before.is_away());
    }

    /// The load as threads of `job` see it: all threads that run or are ready, and those of the job that have blocked.
    pub(crate) fn load(&self, job: usize) -> u32 {
        (self.threads.len() - self.away + self.jobs[job].blocked) as u32
    }

    /// A random number for the waiting rule of a thread.
    pub(crate) fn draw(&mut self, thread: usize) -> u32 {
        self.threads[thread].draws.below(1 << 32) as u32
    }

    /// A thread has come to its job's barrier; returns whether it is the last.
    pub(crate) fn arrive(&mut self, thread: usize, on: CpuId) -> bool {
        let arriving = &mut self.threads[thread];
        arriving.arrived = true;
        arriving.has_spun = false;
        arriving.last_seen = Some(on);
        let job = &mut self.jobs[arriving.job];
        job.arrivals.push(ThreadId(thread as u32));
        job.arrivals.len() == job.threads.len()
    }

    /// A thread begins to wait for its job's lock, as so many have done before.
    pub(crate) fn begin_wait(&mut self, thread: usize, before: u32) {
        let waiting = &mut self.threads[thread];
        let job = &self.jobs[waiting.job];
        waiting.waits_for_lock = true;
        waiting.has_spun = false;
        waiting.waiter = job.fresh;
        waiting.recorded_as = ThreadId(before.wrapping_add(job.threads.len() as u32));
    }

    /// A thread has had its job's lock once more; returns how often that makes. What a thread that has ended does is not counted.
    pub(crate) fn count_turn(&mut self, thread: usize) -> u64 {
        let thread = &mut self.threads[thread];
        thread.turns += 1;
        self.jobs[thread.job].rounds_done += u64::from(!thread.has_ended);
        thread.turns
    }

    /// The barrier of `job` is complete: empties it, and returns who waited there in the order of arrival. The list comes back
    /// by [`keep`](Crew::keep).
    pub(crate) fn complete(&mut self, job: usize) -> Vec<ThreadId> {
        let job = &mut self.jobs[job];
        job.rounds_done += 1;
        for thread in &job.arrivals {
            self.threads[thread.index()].arrived = false;
        }
        std::mem::replace(&mut job.arrivals, std::mem::take(&mut self.spare))
    }

    /// Keeps the memory of a list for the next barrier.
    pub(crate) fn keep(&mut self, mut arrivals: Vec<ThreadId>) {
        arrivals.clear();
        self.spare = arrivals;
    }

    /// Who is missing at the barrier of `job`, as its members know each other, or has its lock.
    pub(crate) fn missing(&self, job: usize) -> Vec<Missing> {
        if self.jobs[job].has_lock() {
            return self.jobs[job].lock.missing(self.jobs[job].threads.start);
        }
        let members = &self.threads[self.jobs[job].threads.clone()];
        let missing = members.iter().filter(|member| !member.arrived);
        missing.map(|member| Missing { thread: ThreadId(member.number), last_seen: member.last_seen }).collect()
    }

    /// The team of `job` as a member on `own_cpu` sees it.
    pub(crate) fn team<'a>(&self, job: usize, own_cpu: CpuId, now: Instant, missing: &'a [Missing]) -> Team<'a> {
        let threads = if self.jobs[job].has_lock() { 0 } else { self.jobs[job].threads.len() as u32 };
        Team { now, threads, cpus: self.cpus, own_cpu, missing, load: 0, movable: false, draw: 0 }
    }

    /// What `job` comes to if it ends, or is cut off, now.
    pub(crate) fn outcome(&self, job: usize, completion: Option<Instant>) -> JobOutcome {
        let job = &self.jobs[job];
        let mut sum = Account::default();
        self.threads[job.threads.clone()].iter().for_each(|thread| sum.add(&thread.account));
        JobOutcome {
            job: job.name.clone(),
            completion_ns: completion.map(|at| at.since(Instant::ZERO)),
            rounds: (!matches!(job.task, Task::Cpu { .. })).then_some(job.rounds_done),
            ssr_percent: sum.ssr_percent(),
            cpu_ns: Some(sum.cpu),
            spin_ns: Some(sum.spin),
            delivered_work_ns: Some(sum.work),
            voluntary_switches: Some(sum.voluntary),
            involuntary_switches: Some(sum.involuntary),
        }
    }
}

/// A job's kind on a machine with these costs, and the waiter that each of its threads starts with.
fn resolve(kind: &Kind, costs: Costs, step: Span) -> (Task, Waiter) {
    let nobody_waits = policy::waiting::Rule::AlwaysBlock.waiter(costs);
    match kind {
        Kind::Barrier { compute, rounds, waiting, .. } => {
            (Task::Barrier { compute: compute.on(costs.cs), rounds: *rounds }, waiting.waiter(costs))
        }
        Kind::Lock { compute, critical, rounds, waiting, .. } => {
            let (compute, critical) = (compute.normal(), critical.normal());
            (Task::Lock { compute, critical, rounds: *rounds }, waiting.waiter(costs))
        }
        Kind::Cpu { work, .. } => (Task::Cpu { work: on_grid(*work, step) }, nobody_waits),
        Kind::Command { work, threads, .. } => {
            let share = work.map(|work| Span::from_nanos(work.as_nanos() / u64::from(*threads)));
            (Task::Cpu { work: on_grid(share, step) }, nobody_waits)
        }
    }
}

/// Work in whole steps, at least one; endless where there is no end to it.
fn on_grid(work: Option<Span>, step: Span) -> Span {
    work.map_or(ENDLESS, |work| work.floor_to(step).max(step))
}
