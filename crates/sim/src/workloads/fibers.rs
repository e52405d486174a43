//! The fibers of a job, and the simulated library that runs them.
//!
//! It works like `rowlock-fiber`, with the same queue, [`policy::feedback`]:
//!
//! * **Scheduling.** Each worker has a queue. Whenever its fiber stops, it takes the first fiber of
//!   the highest level. A worker with an empty queue steals a fiber that has not started from
//!   another worker. If there is none, it sleeps until a fiber is created, until another worker
//!   gives it fibers, until one of its own fibers is woken, or until the sleep of one of its own
//!   fibers is over.
//! * **Moving.** When a fiber stops or reaches a safepoint, its worker gives ready fibers to those
//!   that sleep, by [`policy::feedback::given_share`], but keeps the next one if the fiber has
//!   stopped. A `preemptible` fiber lets its worker do so as soon as another one finds nothing to
//!   run. The first fiber stays. (The worker that requests fibers of the real library naps for some
//!   50 us before. Cooperative fibers go to a queue of all workers, in which they count as at the
//!   highest level. A fiber that another worker wakes again and again goes there; here it stays.)
//! * **Time.** Turns are measured by the clock, from the end of the previous turn. They include the
//!   switch, and the time in which the worker had no CPU. The library reads the clock when a fiber
//!   stops and at *safepoints*: when it creates another fiber, wants a lock, or has computed up to
//!   a checkpoint. There the library boosts and ends sleeps if it is time. The fiber goes behind
//!   the others if its running time is used up and a fiber of the same level waits, or if a fiber
//!   of a higher level waits. (The real library does not read the clock at each safepoint, but
//!   often compared with a running time.)
//! * **Preemption.** A fiber of a `preemptible` job also reaches a safepoint in the middle of a
//!   computation when its running time is over and when a sleep is over. That costs nothing. (The
//!   real library uses a timer that fires up to half a running time earlier or later, which costs
//!   some microseconds in the kernel. There, a fiber that holds a lock continues once for one more
//!   running time.)
//! * **Locks.** A release makes the lock free and wakes the first waiter of the highest level. It
//!   may find that another fiber was faster, but only once. The owner inherits the level of the
//!   first waiter.
//! * **Costs** are charged when a fiber is created, when it continues after others, and when it
//!   acquires a lock. All else is free.

mod lock;
mod worker;

use policy::feedback::{Level, given_share};
use policy::{Instant, Span, ThreadId};
use scenario::draw::Stream;
use scenario::fibers::{Burst, FiberCosts, FiberProgram};
use scenario::result::{FibersOutcome, GroupOutcome};

use self::lock::Lock;
use self::worker::{Sleep, Worker};

/// The number of the fiber that creates the others, which have the numbers after it.
const FIRST: u32 = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerAction {
    /// A fiber computes.
    Compute(Span),
    /// The library works.
    Manage(Span),
    /// It sleeps until this moment, if any, or until it is woken.
    Sleep(Option<Instant>),
    /// It ends: all fibers have ended.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FiberStep {
    /// The first fiber creates the others, from this number on.
    Create(u32),
    /// It has created this one.
    Created(u32),
    /// It joins the others, from this number on, except those that other fibers join.
    JoinAll(u32),
    /// It begins a burst.
    Burst,
    /// It computes for this time, with its lock or without.
    Compute { left: Span, locked: bool },
    /// It has computed up to the end or a checkpoint.
    Computed { left: Span, locked: bool },
    /// It wants its lock.
    Lock,
    /// It acquires its lock, for the first time or because it was woken for it.
    Take { was_woken: bool },
    /// It waits for the end of the fiber before it.
    Join,
    /// It ends.
    End,
}

#[derive(Clone, Debug)]
struct Fiber {
    group: u32,
    number: u32,
    next: FiberStep,
    /// The worker to which it belongs, once it has started.
    home: Option<u32>,
    /// Its random numbers, once it has started.
    stream: Option<Stream>,
    burst: Burst,
    bursts_left: u32,
    /// Since when it could run its burst.
    could_run: Instant,
    /// The fiber that waits for its end.
    joiner: Option<u32>,
    has_ended: bool,
}

/// A job's fibers; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Fibers {
    programs: Vec<FiberProgram>,
    costs: FiberCosts,
    preemptible: bool,
    seed: u64,
    step: Span,
    fibers: Vec<Fiber>,
    locks: Vec<Lock>,
    workers: Vec<Worker>,
    /// How many created fibers have not started.
    unstarted: usize,
    /// The workers to wake, the last one first.
    pub(crate) woken: Vec<usize>,
    pub(crate) is_over: bool,
    pub(crate) bursts: u64,
    switches: u64,
    demotions: u64,
    /// The measured response times of each group.
    responses: Vec<Vec<Span>>,
}

impl Fibers {
    /// The fibers of the job called `name`. Times are rounded down to the step.
    pub(crate) fn new(job: &scenario::Fibers, name: &str, seed: u64, step: Span) -> Fibers {
        let floor = |span: Span| span.floor_to(step);
        let FiberCosts { create, switch, lock } = job.costs;
        let program = |group: &scenario::fibers::FiberGroup| {
            let checkpoint = group.checkpoint.map(|every| floor(every).max(step));
            FiberProgram { checkpoint, ..group.program(name) }
        };
        let mut fibers = Fibers {
            programs: job.groups.iter().map(program).collect(),
            costs: FiberCosts { create: floor(create), switch: floor(switch), lock: floor(lock) },
            preemptible: job.preemptible,
            seed,
            step,
            fibers: Vec::with_capacity(job.fibers() as usize + 1),
            locks: vec![Lock::default(); job.locks as usize],
            workers: vec![Worker::new(job.rules.floor_to(step)); job.workers as usize],
            unstarted: 0,
            woken: Vec::new(),
            is_over: false,
            bursts: 0,
            switches: 0,
            demotions: 0,
            responses: vec![Vec::new(); job.groups.len()],
        };
        fibers.begin();
        fibers
    }

    /// Resets the program to its start: the first fiber is about to run on the first worker.
    pub(crate) fn begin(&mut self) {
        self.is_over = false;
        let fiber = |group: usize, number, bursts_left| Fiber {
            group: group as u32,
            number,
            next: FiberStep::Burst,
            home: None,
            stream: None,
            burst: Burst { compute: Span::ZERO, critical: None, think: None },
            bursts_left,
            could_run: Instant::ZERO,
            joiner: None,
            has_ended: false,
        };
        self.fibers.clear();
        self.fibers.push(Fiber { next: FiberStep::Create(FIRST + 1), home: Some(0), ..fiber(0, 0, 0) });
        for (group, program) in self.programs.iter().enumerate() {
            self.fibers.extend((0..program.fibers).map(|number| fiber(group, number, program.bursts)));
        }
        self.workers[0].ready.add(ThreadId(FIRST));
        self.workers[0].current = Some(FIRST);
    }

    /// A worker continues: its last action is over, or it was woken. Returns its next action.
    pub(crate) fn resume(&mut self, now: Instant, worker: usize) -> WorkerAction {
        self.workers[worker].resume(now);
        loop {
            if self.is_over {
                return WorkerAction::End;
            }
            let action = match self.workers[worker].current {
                Some(fiber) => self.run(now, worker, fiber),
                None => self.take_next(worker),
            };
            match action {
                Some(WorkerAction::Compute(span) | WorkerAction::Manage(span)) if span.is_zero() => {}
                Some(action) => return action,
                None => {}
            }
        }
    }

    /// A worker without a fiber takes the next one.
    fn take_next(&mut self, worker: usize) -> Option<WorkerAction> {
        if self.workers[worker].ready.waiting() == 0 {
            self.request_fibers(worker);
        }
        let Some(ThreadId(next)) = self.workers[worker].ready.take().or_else(|| self.steal(worker)) else {
            self.workers[worker].sleep = Sleep::Asleep;
            return Some(WorkerAction::Sleep(self.workers[worker].until()));
        };
        self.workers[worker].current = Some(next);
        let fiber = &mut self.fibers[next as usize];
        if fiber.home.replace(worker as u32).is_some() {
            self.switches += 1;
            return Some(WorkerAction::Manage(self.costs.switch));
        }
        let program = &self.programs[fiber.group as usize];
        fiber.stream = Some(program.stream(self.seed, fiber.number));
        self.unstarted -= 1;
        None
    }

    /// Steals a fiber that has not started from another worker.
    fn steal(&mut self, worker: usize) -> Option<ThreadId> {
        let count = self.workers.len();
        for other in (1..count).map(|step| (worker + step) % count) {
            let fibers = &self.fibers;
            let has_not_begun = |thread: ThreadId| fibers[thread.index()].home.is_none();
            if let Some(taken) = self.workers[other].ready.take_if(has_not_begun) {
                self.workers[worker].ready.add(taken);
                return Some(taken);
            }
        }
        None
    }

    /// A worker without fibers gets some of another one that computes and can be interrupted.
    fn request_fibers(&mut self, worker: usize) {
        let count = self.workers.len();
        for other in (1..count).map(|step| (worker + step) % count) {
            if self.preemptible && self.workers[other].current.is_some() {
                self.give(other, worker, given_share(self.workers[other].ready.waiting(), 1));
            }
            if self.workers[worker].ready.waiting() > 0 {
                break;
            }
        }
    }

    /// A worker gives ready fibers to those that sleep. It keeps some if its fiber has stopped.
    fn give_to_others(&mut self, worker: usize, kept: usize) {
        let sleeps = |of: &Worker| of.sleep == Sleep::Asleep;
        let takers = self.workers.iter().filter(|of| sleeps(of)).count();
        let share = given_share(self.workers[worker].ready.waiting().saturating_sub(kept), takers);
        for taker in 0..self.workers.len() {
            if sleeps(&self.workers[taker]) && self.give(worker, taker, share) {
                self.call(taker);
            }
        }
    }

    /// A worker gives up to so many ready fibers to another one. Returns whether there was one.
    /// They have all started, because created ones are stolen before.
    fn give(&mut self, worker: usize, taker: usize, share: usize) -> bool {
        let share = if self.unstarted == 0 { share } else { 0 };
        let mut gives = false;
        for _ in 0..share {
            let Some(fiber) = self.workers[worker].ready.take_if(|fiber| fiber != ThreadId(FIRST)) else { break };
            let standing = self.workers[worker].ready.release(fiber);
            let of = &mut self.workers[taker].ready;
            of.admit(fiber, standing);
            of.enqueue(fiber);
            self.fibers[fiber.index()].home = Some(taker as u32);
            gives = true;
        }
        gives
    }

    /// Runs the next step of a worker's fiber. `None` if the step takes no time.
    fn run(&mut self, now: Instant, worker: usize, fiber: u32) -> Option<WorkerAction> {
        let me = fiber as usize;
        match self.fibers[me].next {
            FiberStep::Create(number) if number as usize == self.fibers.len() => {
                self.fibers[me].next = FiberStep::JoinAll(FIRST + 1);
            }
            FiberStep::Create(number) => {
                self.fibers[me].next = FiberStep::Created(number);
                return Some(WorkerAction::Manage(self.costs.create));
            }
            FiberStep::Created(number) => {
                self.fibers[me].next = FiberStep::Create(number + 1);
                self.add_created(now, worker, number);
                self.reach_safepoint(now, worker, fiber);
            }
            FiberStep::JoinAll(number) => self.join_all(now, worker, number),
            FiberStep::Burst => {
                let Fiber { group, stream: Some(stream), .. } = &mut self.fibers[me] else {
                    return Some(WorkerAction::End);
                };
                let burst = self.programs[*group as usize].burst(stream, self.step);
                self.fibers[me].burst = burst;
                self.fibers[me].next = FiberStep::Compute { left: burst.compute, locked: false };
            }
            FiberStep::Compute { left, locked } => {
                let program = &self.programs[self.fibers[me].group as usize];
                let mut piece = program.checkpoint.map_or(left, |every| every.min(left));
                if self.preemptible {
                    let tick = self.workers[worker].until_tick(now, fiber).floor_to(self.step).max(self.step);
                    piece = piece.min(tick);
                }
                self.fibers[me].next = FiberStep::Computed { left: left - piece, locked };
                return Some(WorkerAction::Compute(piece));
            }
            FiberStep::Computed { left, locked } if !left.is_zero() => {
                self.fibers[me].next = FiberStep::Compute { left, locked };
                self.reach_safepoint(now, worker, fiber);
            }
            FiberStep::Computed { locked: false, .. } if self.fibers[me].burst.critical.is_some() => {
                self.fibers[me].next = FiberStep::Lock;
                self.reach_safepoint(now, worker, fiber);
            }
            FiberStep::Computed { locked, .. } => {
                if locked {
                    self.unlock(fiber);
                }
                self.burst_is_over(now, worker, fiber);
            }
            FiberStep::Lock => {
                self.fibers[me].next = FiberStep::Take { was_woken: false };
                return Some(WorkerAction::Manage(self.costs.lock));
            }
            FiberStep::Take { was_woken } => {
                if self.acquire_lock(fiber, was_woken) {
                    let left = self.fibers[me].burst.critical.unwrap_or(Span::ZERO);
                    self.fibers[me].next = FiberStep::Compute { left, locked: true };
                } else {
                    self.fibers[me].next = FiberStep::Take { was_woken: true };
                    self.stop(now, worker, fiber);
                }
            }
            FiberStep::Join => {
                self.fibers[me].next = FiberStep::End;
                let before = &mut self.fibers[me - 1];
                if !before.has_ended {
                    before.joiner = Some(fiber);
                    self.stop(now, worker, fiber);
                }
            }
            FiberStep::End => {
                self.workers[worker].skip_time(now);
                self.workers[worker].current = None;
                self.give_to_others(worker, 1);
                self.fibers[me].has_ended = true;
                if let Some(joiner) = self.fibers[me].joiner {
                    self.wake(joiner);
                }
            }
        }
        None
    }

    /// The first fiber has created another one, which is ready. An idle worker may take it.
    fn add_created(&mut self, now: Instant, worker: usize, number: u32) {
        self.fibers[number as usize].could_run = now;
        self.unstarted += 1;
        self.workers[worker].ready.add(ThreadId(number));
        self.workers[worker].ready.enqueue(ThreadId(number));
        if let Some(idle) = self.workers.iter().position(|worker| worker.sleep == Sleep::Asleep) {
            self.call(idle);
        }
    }

    /// The first fiber joins the next one.
    fn join_all(&mut self, now: Instant, worker: usize, from: u32) {
        let joins = |fiber: &Fiber| self.programs[fiber.group as usize].joins(fiber.number);
        let is_left = |number: &u32| {
            let [fiber, after] = [*number, *number + 1].map(|number| self.fibers.get(number as usize));
            let is_joined = after.is_some_and(joins);
            fiber.is_some_and(|fiber| !fiber.has_ended && !is_joined)
        };
        match (from..self.fibers.len() as u32).find(is_left) {
            Some(number) => {
                self.fibers[FIRST as usize].next = FiberStep::JoinAll(number + 1);
                self.fibers[number as usize].joiner = Some(FIRST);
                self.stop(now, worker, FIRST);
            }
            None => {
                self.is_over = true;
                (0..self.workers.len()).for_each(|worker| self.call(worker));
            }
        }
    }

    fn burst_is_over(&mut self, now: Instant, worker: usize, fiber: u32) {
        self.bursts += 1;
        let of = &mut self.fibers[fiber as usize];
        let program = &self.programs[of.group as usize];
        if program.is_timed(of.number) {
            self.responses[of.group as usize].push(now.since(of.could_run));
        }
        of.bursts_left -= 1;
        of.next = match of.bursts_left {
            0 if program.joins(of.number) => FiberStep::Join,
            0 => FiberStep::End,
            _ => FiberStep::Burst,
        };
        if of.bursts_left == 0 {
            return;
        }
        let think = of.burst.think;
        of.could_run = now + think.unwrap_or(Span::ZERO);
        match think {
            None => self.requeue(now, worker, fiber),
            Some(span) => {
                self.workers[worker].add_sleeper(fiber, now + span);
                self.stop(now, worker, fiber);
            }
        }
    }

    fn lock_of(&self, fiber: u32) -> usize {
        (fiber - FIRST - 1) as usize % self.locks.len()
    }

    /// A fiber acquires its lock, or waits for it. While others wait, the owner inherits the level
    /// of the first waiter. With several workers, levels of different workers cannot be compared,
    /// and there is no inheritance.
    fn acquire_lock(&mut self, fiber: u32, was_woken: bool) -> bool {
        let lock = self.lock_of(fiber);
        let [alone] = &mut self.workers[..] else {
            return self.locks[lock].acquire(fiber, was_woken, |_| Level::default());
        };
        let level = |fiber: u32| alone.ready.level(ThreadId(fiber));
        let is_taken = self.locks[lock].acquire(fiber, was_woken, level);
        if let Some((owner, first)) = self.locks[lock].owner_and_first()
            && (was_woken || !is_taken)
        {
            let level = level(first);
            alone.ready.inherit(ThreadId(owner), level);
        }
        is_taken
    }

    /// A fiber releases its lock, and returns to its own level.
    fn unlock(&mut self, fiber: u32) {
        let lock = self.lock_of(fiber);
        if let [alone] = &mut self.workers[..] {
            alone.ready.disinherit(ThreadId(fiber));
        }
        if let Some(next) = self.locks[lock].release() {
            self.wake(next);
        }
    }

    fn wake(&mut self, fiber: u32) {
        let home = self.fibers[fiber as usize].home.unwrap_or_default() as usize;
        self.workers[home].ready.enqueue(ThreadId(fiber));
        self.call(home);
    }

    fn call(&mut self, worker: usize) {
        let sleep = &mut self.workers[worker].sleep;
        if *sleep == Sleep::Asleep {
            *sleep = Sleep::Called;
            self.woken.push(worker);
        }
    }
}

/// Time accounting.
impl Fibers {
    /// The fiber of a worker stops.
    fn stop(&mut self, now: Instant, worker: usize, fiber: u32) {
        self.demotions += u64::from(self.workers[worker].charge(now, fiber).is_used_up);
        self.workers[worker].current = None;
        self.give_to_others(worker, 1);
    }

    /// The fiber of a worker goes behind the others of its level.
    fn requeue(&mut self, now: Instant, worker: usize, fiber: u32) {
        self.stop(now, worker, fiber);
        self.workers[worker].ready.enqueue(ThreadId(fiber));
    }

    /// A safepoint, at which the fiber of a worker may have to let others run.
    fn reach_safepoint(&mut self, now: Instant, worker: usize, fiber: u32) {
        let charged = self.workers[worker].charge(now, fiber);
        self.demotions += u64::from(charged.is_used_up);
        self.give_to_others(worker, 0);
        let of = &mut self.workers[worker];
        let level = of.ready.level(ThreadId(fiber));
        if of.ready.highest().is_some_and(|highest| highest < level || charged.turn_is_over && highest == level) {
            of.current = None;
            of.ready.enqueue(ThreadId(fiber));
        }
    }
}

/// The interface to the engine.
impl Fibers {
    /// Whether a worker sleeps, and its sleep is over.
    pub(crate) fn has_slept_enough(&self, now: Instant, worker: usize) -> bool {
        let of = &self.workers[worker];
        of.sleep == Sleep::Asleep && of.until().is_some_and(|until| until <= now)
    }

    pub(crate) fn outcome(&self) -> FibersOutcome {
        let groups = self.programs.iter().zip(&self.responses);
        let groups = groups.map(|(program, times)| GroupOutcome::new(program.group.clone(), &mut times.clone()));
        FibersOutcome { switches: Some(self.switches), demotions: Some(self.demotions), groups: groups.collect() }
    }

    /// Checks the invariant after an event: no worker sleeps while it has a fiber to run.
    pub(crate) fn check(&self) {
        for worker in &self.workers {
            let sleeps = worker.sleep == Sleep::Asleep;
            assert!(!sleeps || worker.ready.waiting() == 0, "a worker sleeps while it has a ready fiber");
            assert!(worker.current.is_none() || worker.sleep == Sleep::Awake, "a worker sleeps and has a fiber");
        }
    }
}
