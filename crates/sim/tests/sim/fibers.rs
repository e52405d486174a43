//! Fibers: small cases by hand, and random ones against a slow interpreter of their programs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use proptest::prelude::*;
use rowlock_sim::run;
use scenario::fibers::{FiberCosts, FiberGroup};
use scenario::result::{FibersOutcome, GroupOutcome, JobOutcome};
use scenario::{Distribution, Fibers, Job, JobKind, Machine, Scheduler};

use crate::timeline::{assert_timeline, cpu, setting, timeline};

pub(crate) fn us(n: u64) -> Span {
    Span::from_micros(n)
}

pub(crate) fn exactly(n: u64) -> Distribution {
    Distribution::exactly(us(n))
}

/// Fibers that compute once, for `compute` microseconds.
pub(crate) fn group(name: &str, fibers: u32, compute: u64) -> FiberGroup {
    FiberGroup {
        name: name.into(),
        fibers,
        bursts: 1,
        compute: exactly(compute),
        critical: None,
        checkpoint: None,
        think: None,
        join_every: None,
    }
}

/// One worker and a running time of 10 us, without costs.
pub(crate) fn fibers(groups: Vec<FiberGroup>) -> Fibers {
    let rules = FeedbackRules { levels: 10, running_time: us(10), boost: Boost::Never };
    let costs = FiberCosts { create: Span::ZERO, switch: Span::ZERO, lock: Span::ZERO };
    Fibers { groups, workers: 1, rules, locks: 1, preemptible: false, costs }
}

fn job(fibers: Fibers) -> Job {
    Job::new("crew", 1, JobKind::Fibers(fibers))
}

/// Round robin without costs.
pub(crate) fn free(cpus: u32) -> Machine {
    Machine { scheduler: Scheduler::Rr, context_switch: Span::ZERO, ..Machine::with_cpus(cpus) }
}

pub(crate) fn outcome(machine: &Machine, fibers: Fibers) -> (JobOutcome, FibersOutcome) {
    let job = run(machine, &setting(vec![job(fibers)]), 1).unwrap().jobs.remove(0);
    let of = *job.fibers.clone().unwrap();
    (job, of)
}

/// The longest response of each group, in microseconds.
fn worst(of: &FibersOutcome) -> Vec<u64> {
    of.groups.iter().map(|group| group.response_worst_ns.unwrap().as_nanos() / 1_000).collect()
}

#[test]
fn fibers_without_safepoints_run_one_after_the_other() {
    let (job, of) = outcome(&free(1), fibers(vec![group("a", 1, 30), group("b", 2, 20)]));
    assert_eq!((job.completion_ns, job.rounds, job.delivered_work_ns), (Some(us(70)), Some(3), Some(us(70))));
    assert_eq!(worst(&of), [30, 70]);
    // The running time of an ended fiber is not checked.
    assert_eq!(of.demotions, Some(0));
}

#[test]
fn a_fiber_that_has_used_up_its_running_time_is_preempted_at_its_next_checkpoint() {
    let long = FiberGroup { checkpoint: Some(us(4)), ..group("long", 1, 30) };
    let few = FeedbackRules { levels: 2, ..fibers(Vec::new()).rules };
    let (job, of) = outcome(&free(1), Fibers { rules: few, ..fibers(vec![long, group("short", 1, 5)]) });
    // It has had its 10 us at 12, and the other one runs until 17.
    assert_eq!((job.completion_ns, worst(&of)), (Some(us(35)), vec![35, 17]));
    // At 12, and at the lowest level at 29.
    assert_eq!(of.demotions, Some(2));
}

#[test]
fn a_preemptible_fiber_without_checkpoints_lets_others_run_when_its_running_time_is_over() {
    let with = |preemptible| {
        let of = fibers(vec![group("long", 1, 30), group("short", 1, 5)]);
        let (job, of) = outcome(&free(1), Fibers { preemptible, ..of });
        (job.completion_ns, worst(&of), of.demotions)
    };
    assert_eq!(with(false), (Some(us(35)), vec![30, 35], Some(0)));
    // It falls at 10, when the other one has its turn until 15, and at 25.
    assert_eq!(with(true), (Some(us(35)), vec![35, 15], Some(2)));
}

#[test]
fn a_fiber_of_a_higher_level_preempts_a_preemptible_one_when_its_sleep_is_over() {
    let sleeper = FiberGroup { bursts: 2, think: Some(exactly(50)), ..group("sleeper", 1, 5) };
    let of = fibers(vec![sleeper, group("long", 1, 100)]);
    let (job, of) = outcome(&free(1), Fibers { preemptible: true, ..of });
    // From 5 on only the long one exists. It is interrupted at 55 for the other's 5 us.
    assert_eq!((job.completion_ns, worst(&of)), (Some(us(110)), vec![5, 110]));
}

#[test]
fn a_boost_lets_a_fiber_of_a_lower_level_continue() {
    let long = || FiberGroup { checkpoint: Some(us(10)), ..group("long", 1, 40) };
    let many = || FiberGroup { bursts: 4, checkpoint: Some(us(10)), ..group("short", 1, 10) };
    let with = |boost| {
        let rules = FeedbackRules { levels: 2, boost, ..fibers(Vec::new()).rules };
        worst(&outcome(&free(1), Fibers { rules, ..fibers(vec![long(), many()]) }).1)
    };
    // long until 10, then short, which has also fallen by then. From 20 on they take turns.
    assert_eq!(with(Boost::Never), [70, 20]);
    // Both are boosted at 10 and at 20. The one that stops goes behind the other in either case.
    assert_eq!(with(Boost::Every(us(10))), [70, 20]);
}

#[test]
fn operations_of_the_library_take_their_costs() {
    let costs = FiberCosts { create: Span::from_nanos(45), switch: Span::from_nanos(14), lock: Span::from_nanos(2) };
    let two = FiberGroup { bursts: 2, critical: Some(exactly(1)), ..group("two", 2, 1) };
    let (job, of) = outcome(&free(1), Fibers { costs, ..fibers(vec![two]) });
    // 90: both are created. 2092: a has had its burst, and b begins. 4094: b has had its burst.
    // 4108: a continues, after a switch. 6110: a has had its second burst and wakes the first
    // fiber, which is behind b. 6124: b continues. 8126: b ends. 8140: the first fiber continues,
    // and joins b.
    assert_eq!(job.completion_ns, Some(Span::from_nanos(8_140)));
    assert_eq!((of.switches, job.rounds, job.delivered_work_ns), (Some(3), Some(4), Some(us(8))));
    assert_eq!(job.cpu_ns, Some(Span::from_nanos(8_140)));
}

#[test]
fn a_released_lock_goes_to_the_first_waiter() {
    // a has the lock from 1 on, and falls at 11. b and c want it at 12 and 13. a releases it at 23
    // for b, which falls with it at 33.
    let lockers = FiberGroup { critical: Some(exactly(20)), checkpoint: Some(us(10)), ..group("lockers", 3, 1) };
    let (job, of) = outcome(&free(1), fibers(vec![lockers]));
    assert_eq!(job.completion_ns, Some(us(63)));
    assert_eq!(of.groups[0].response_p50_ns, Some(us(43)));
    assert_eq!(of.groups[0].responses, 3);
}

#[test]
fn fibers_wait_for_the_one_before_them_at_regular_intervals() {
    let sleeper = FiberGroup { bursts: 2, think: Some(exactly(50)), join_every: Some(2), ..group("all", 2, 10) };
    let (text, outcome) =
        timeline(&Machine { context_switch: us(6), ..free(1) }, &setting(vec![job(fibers(vec![sleeper]))]), "w", "w");
    // The worker has no fiber from 26 on. The sleep of one is over at 66, and that of the other at
    // 76. The worker notices that when the first ends, at 82.
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then w
         6 us cpu0: w
         26 us cpu0: w blocks, then idle
         32 us cpu0: idle
         66 us cpu0: idle, then w
         72 us cpu0: w
         92 us cpu0: w ends, then idle",
    );
    let of = outcome.jobs[0].fibers.as_ref().unwrap();
    assert_eq!(outcome.jobs[0].completion_ns, Some(us(92)));
    // From 76, when it could have run, to 92. In its first burst it came after the other.
    assert_eq!((of.groups[0].response_p50_ns, of.groups[0].response_worst_ns), (Some(us(16)), Some(us(20))));
}

#[test]
fn fibers_are_charged_while_their_worker_has_no_cpu() {
    let machine = Machine { quantum: us(20), ..free(1) };
    let long = FiberGroup { checkpoint: Some(us(5)), ..group("long", 1, 40) };
    let of = fibers(vec![long, group("short", 1, 4)]);
    let alone = outcome(&machine, of.clone()).1;
    let beside = run(&machine, &setting(vec![job(of), cpu("crowd", None)]), 1).unwrap();
    let of = beside.jobs[0].fibers.as_ref().unwrap();
    // long falls at 10 and is overtaken, also when it is alone. Beside the other job everything
    // else takes twice as long.
    assert_eq!(worst(&alone), [44, 14]);
    assert!(worst(of)[0] >= 64, "{of:?}");
}

#[test]
fn a_job_that_keeps_running_counts_once() {
    let short = fibers(vec![group("all", 3, 10)]);
    let other = Job::new("other", 1, JobKind::Cpu { threads: 1, work: Some(exactly(500)) });
    let mut both = setting(vec![job(short), other]);
    both.keep_running = true;
    let outcome = run(&free(2), &both, 1).unwrap();
    assert_eq!((outcome.jobs[0].completion_ns, outcome.jobs[0].rounds), (Some(us(30)), Some(3)));
    assert_eq!(outcome.jobs[0].fibers.as_ref().unwrap().groups[0].responses, 3);
}

/// The steps of a fiber.
#[derive(Clone, Copy, Debug)]
enum Step {
    Work(u64),
    Cost(u64),
    Point,
    Take(usize),
    Give(usize),
    BurstIsOver,
    Yield,
    Sleep(u64),
    Join(usize),
    Make(usize),
}

/// All steps of each fiber. Those of the first fiber are first.
fn written_out(of: &Fibers, seed: u64) -> Vec<Vec<Step>> {
    let nanos = Span::as_nanos;
    let mut all = vec![Vec::new()];
    let mut joined = Vec::new();
    for group in &of.groups {
        let program = group.program("crew");
        for number in 0..group.fibers {
            let (mut steps, me) = (Vec::new(), all.len());
            let mut stream = program.stream(seed, number);
            for burst in 0..group.bursts {
                let drawn = program.burst(&mut stream, Span::from_nanos(1));
                let compute = |length: u64, steps: &mut Vec<Step>| {
                    let every = group.checkpoint.map_or(length, nanos);
                    (0..length.div_ceil(every)).for_each(|piece| {
                        steps.extend((piece > 0).then_some(Step::Point));
                        steps.push(Step::Work(every.min(length - piece * every)));
                    });
                };
                compute(nanos(drawn.compute), &mut steps);
                if let Some(critical) = drawn.critical {
                    let lock = (me - 1) % of.locks as usize;
                    steps.extend([Step::Point, Step::Cost(nanos(of.costs.lock)), Step::Take(lock)]);
                    compute(nanos(critical), &mut steps);
                    steps.push(Step::Give(lock));
                }
                steps.push(Step::BurstIsOver);
                if burst + 1 < group.bursts {
                    steps.push(drawn.think.map_or(Step::Yield, |think| Step::Sleep(nanos(think))));
                }
            }
            if program.joins(number) {
                steps.push(Step::Join(me - 1));
                joined.push(me - 1);
            }
            all.push(steps);
        }
    }
    let others = 1..all.len();
    all[0]
        .extend(others.clone().flat_map(|other| [Step::Cost(nanos(of.costs.create)), Step::Make(other), Step::Point]));
    all[0].extend(others.filter(|other| !joined.contains(other)).map(Step::Join));
    all
}

/// The owner, the waiters, those that were woken and have not run yet, and those that were woken in
/// vain.
#[derive(Clone, Debug, Default)]
struct Lock {
    owner: Option<usize>,
    waiting: Vec<usize>,
    awake: BTreeSet<usize>,
    vain: BTreeSet<usize>,
}

/// One worker with its own CPU, step by step, without the policy.
struct Interpreter {
    now: u64,
    since: u64,
    boost: Option<(u64, u64)>,
    levels: Vec<VecDeque<usize>>,
    running_time: u64,
    /// The level and the used time of each fiber.
    standing: Vec<(usize, u64)>,
    /// The level that each fiber has inherited.
    lent: Vec<Option<usize>>,
    asleep: BTreeMap<(u64, u64), usize>,
    demotions: u64,
}

impl Interpreter {
    /// Whether the turn of this fiber is over.
    fn read_clock(&mut self, me: usize) -> bool {
        let (span, level) = (self.now - self.since, self.level(me));
        self.since = self.now;
        self.process_due();
        let lowest = self.levels.len() - 1;
        let (at, used) = &mut self.standing[me];
        *used += span;
        let is_over = *used >= self.running_time;
        if is_over {
            self.demotions += 1;
            (*at, *used) = ((*at + 1).min(lowest), 0);
        }
        is_over || self.level(me) != level
    }

    fn level(&self, fiber: usize) -> usize {
        let own = self.standing[fiber].0;
        self.lent[fiber].map_or(own, |lent| own.min(lent))
    }

    /// A waiter changes its place if its level changes.
    fn lend(&mut self, fiber: usize, lent: Option<usize>) {
        let before = self.level(fiber);
        self.lent[fiber] = lent;
        let is_here = |other: &usize| *other == fiber;
        if self.level(fiber) != before
            && let Some(place) = self.levels[before].iter().position(is_here)
        {
            self.levels[before].remove(place);
            self.queue(fiber);
        }
    }

    fn process_due(&mut self) {
        if let Some((due, period)) = self.boost
            && due <= self.now
        {
            self.boost = Some((self.now + period, period));
            let all: VecDeque<usize> = self.levels.iter_mut().flat_map(|level| level.drain(..)).collect();
            self.levels[0] = all;
            self.standing.iter_mut().for_each(|(level, _)| *level = 0);
            self.lent.iter_mut().flatten().for_each(|level| *level = 0);
        }
        while let Some(entry) = self.asleep.first_entry()
            && entry.key().0 <= self.now
        {
            let fiber = entry.remove();
            self.queue(fiber);
        }
    }

    fn queue(&mut self, fiber: usize) {
        let level = self.level(fiber);
        self.levels[level].push_back(fiber);
    }
}

fn interpreted(of: &Fibers, seed: u64) -> (Span, FibersOutcome) {
    let steps = written_out(of, seed);
    let nanos = Span::as_nanos;
    let boost = match of.rules.boost {
        Boost::Every(period) => Some((nanos(period), nanos(period))),
        Boost::Never => None,
    };
    let mut world = Interpreter {
        now: 0,
        since: 0,
        boost,
        levels: vec![VecDeque::new(); of.rules.levels as usize],
        running_time: nanos(of.rules.running_time),
        standing: vec![(0, 0); steps.len()],
        lent: vec![None; steps.len()],
        asleep: BTreeMap::new(),
        demotions: 0,
    };
    let (mut place, mut could_run) = (vec![0; steps.len()], vec![0; steps.len()]);
    let (mut has_begun, mut has_ended) = (vec![false; steps.len()], vec![false; steps.len()]);
    let (mut joiner, mut has_slept_for_it) = (vec![None; steps.len()], vec![false; steps.len()]);
    let mut locks = vec![Lock::default(); of.locks as usize];
    let group_of: Vec<(usize, u32)> = std::iter::once((0, 0))
        .chain(of.groups.iter().enumerate().flat_map(|(group, of)| (0..of.fibers).map(move |number| (group, number))))
        .collect();
    let mut responses = vec![Vec::new(); of.groups.len()];
    let (mut switches, mut sleeps, mut current) = (0, 0, Some(0));
    has_begun[0] = true;
    loop {
        let Some(me) = current else {
            if let Some(next) = world.levels.iter_mut().find_map(VecDeque::pop_front) {
                current = Some(next);
                if std::mem::replace(&mut has_begun[next], true) {
                    switches += 1;
                    world.now += nanos(of.costs.switch);
                }
            } else {
                world.now = world.asleep.first_key_value().expect("a fiber sleeps").0.0;
                world.since = world.now;
                world.process_due();
            }
            continue;
        };
        let step = steps[me].get(place[me]).copied();
        place[me] += 1;
        let stops = match step {
            Some(Step::Work(span) | Step::Cost(span)) => {
                world.now += span;
                false
            }
            Some(Step::Point) => {
                let is_over = world.read_clock(me);
                let level = world.level(me);
                let before_it = if is_over { level + 1 } else { level };
                let passed = world.levels[..before_it].iter().any(|level| !level.is_empty());
                if passed {
                    world.queue(me);
                    current = None;
                }
                continue;
            }
            Some(Step::Take(lock)) => {
                let lock = &mut locks[lock];
                let has_it = lock.owner == Some(me) || lock.owner.is_none();
                if has_it {
                    lock.owner = Some(me);
                    lock.vain.remove(&me);
                    // A woken fiber sets the mark for those behind it.
                    lock.awake.remove(&me);
                } else {
                    let in_vain = lock.awake.remove(&me);
                    if in_vain {
                        lock.vain.insert(me);
                    }
                    // The first place after which all fibers come later.
                    let is_after = |other: &usize| {
                        let (mine, its) = (world.level(me), world.level(*other));
                        its > mine || in_vain && its == mine
                    };
                    let mut at = lock.waiting.len();
                    while at > 0 && is_after(&lock.waiting[at - 1]) {
                        at -= 1;
                    }
                    lock.waiting.insert(at, me);
                    place[me] -= 1;
                }
                let comes_back = has_slept_for_it[me];
                has_slept_for_it[me] = !has_it;
                if (comes_back || !has_it)
                    && let (Some(owner), Some(&first)) = (lock.owner, lock.waiting.first())
                {
                    let level = world.level(first);
                    let lent = world.lent[owner].map_or(level, |before| before.min(level));
                    world.lend(owner, Some(lent));
                }
                !has_it
            }
            Some(Step::Give(lock)) => {
                let lock = &mut locks[lock];
                lock.owner = None;
                world.lend(me, None);
                if lock.awake.is_empty() && !lock.waiting.is_empty() {
                    let next = lock.waiting.remove(0);
                    if lock.vain.contains(&next) {
                        lock.owner = Some(next);
                    } else {
                        lock.awake.insert(next);
                    }
                    world.queue(next);
                }
                false
            }
            Some(Step::BurstIsOver) => {
                let (group, number) = group_of[me];
                if of.groups[group].program("crew").is_timed(number) {
                    responses[group].push(Span::from_nanos(world.now - could_run[me]));
                }
                could_run[me] = world.now;
                false
            }
            Some(Step::Yield) => {
                world.read_clock(me);
                world.queue(me);
                current = None;
                continue;
            }
            Some(Step::Sleep(span)) => {
                sleeps += 1;
                could_run[me] = world.now + span;
                world.asleep.insert((could_run[me], sleeps), me);
                true
            }
            Some(Step::Join(other)) => {
                joiner[other] = Some(me);
                !has_ended[other]
            }
            Some(Step::Make(other)) => {
                could_run[other] = world.now;
                world.standing[other] = (0, 0);
                world.queue(other);
                false
            }
            None if me == 0 => break,
            None => {
                world.since = world.now;
                world.process_due();
                has_ended[me] = true;
                if let Some(joiner) = joiner[me] {
                    world.queue(joiner);
                }
                current = None;
                continue;
            }
        };
        if stops {
            world.read_clock(me);
            current = None;
        }
    }
    let groups = of.groups.iter().zip(responses);
    let groups = groups.map(|(group, mut responses)| GroupOutcome::new(group.name.clone(), &mut responses)).collect();
    let outcome = FibersOutcome { switches: Some(switches), demotions: Some(world.demotions), groups };
    (Span::from_nanos(world.now), outcome)
}

fn any_group() -> impl Strategy<Value = FiberGroup> {
    let length = || {
        (0..30_000_u64, 0..=500_u64).prop_map(|(mean, part)| {
            let mean = Span::from_nanos(mean);
            Distribution::Normal { mean, sd: mean.scaled(part) }
        })
    };
    let counts = (1..6_u32, 1..5_u32, proptest::option::of(1..5_u32));
    let lengths = (length(), proptest::option::of(length()), proptest::option::of(length()));
    let checkpoint = proptest::option::of((1_000..9_000_u64).prop_map(Span::from_nanos));
    (counts, lengths, checkpoint).prop_map(|((fibers, bursts, join_every), (compute, critical, think), checkpoint)| {
        FiberGroup { name: "g".into(), fibers, bursts, compute, critical, checkpoint, think, join_every }
    })
}

fn any_fibers() -> impl Strategy<Value = Fibers> {
    let boost =
        prop_oneof![Just(Boost::Never), (1_000..90_000_u64).prop_map(|nanos| Boost::Every(Span::from_nanos(nanos)))];
    let rules = (1..5_u32, 1_000..40_000_u64, boost).prop_map(|(levels, running_time, boost)| FeedbackRules {
        levels,
        running_time: Span::from_nanos(running_time),
        boost,
    });
    let cost = || (0..500_u64).prop_map(Span::from_nanos);
    let costs = (cost(), cost(), cost()).prop_map(|(create, switch, lock)| FiberCosts { create, switch, lock });
    (proptest::collection::vec(any_group(), 1..4), rules, 1..4_u32, costs).prop_map(|(groups, rules, locks, costs)| {
        Fibers { groups, workers: 1, rules, locks, preemptible: false, costs }
    })
}

proptest! {
    #[test]
    fn a_worker_alone_on_its_cpu_does_what_the_interpreter_does(of in any_fibers(), seed in 0..1_000_u64) {
        let job = run(&free(1), &setting(vec![job(of.clone())]), seed).unwrap().jobs.remove(0);
        let (completion, outcome) = interpreted(&of, seed);
        prop_assert_eq!(job.completion_ns, Some(completion));
        prop_assert_eq!(job.fibers.as_deref(), Some(&outcome));
    }

    #[test]
    fn all_bursts_are_computed_by_any_number_of_workers(
        of in any_fibers(),
        preemptible in any::<bool>(),
        workers in 1..4_u32,
        cpus in 1..4_u32,
        seed in 0..1_000_u64,
    ) {
        for scheduler in crate::timeline::time_sharing() {
            let machine = Machine { scheduler, ..Machine::with_cpus(cpus) };
            let of = Fibers { workers, preemptible, ..of.clone() };
            let steps = written_out(&of, seed);
            let work = steps.iter().flatten().map(|step| if let Step::Work(span) = step { *span } else { 0 }).sum();
            let bursts = of.bursts();
            let outcome = run(&machine, &setting(vec![job(of)]), seed).unwrap();
            let job = &outcome.jobs[0];
            prop_assert_eq!((job.rounds, job.delivered_work_ns), (Some(bursts), Some(Span::from_nanos(work))));
        }
    }
}
