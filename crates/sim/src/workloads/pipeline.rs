//! The pipeline of a pipeline job: which rounds are where, who waits for them, and what its stages have done.
//!
//! No buffer is seen anywhere: a queue is the difference between the rounds that one stage has conveyed and those that
//! the next has taken, and the pool that between the buffers there are and the rounds under way. Rounds are conveyed in their
//! order even where copies of a stage end them in another; so every stage takes them in their order.
//!
//! Who carries out stages belongs to a group: the thread that several stages share, the threads of a stage's copies, or
//! the workers. Each stage belongs to exactly one group, and whoever of the group has nothing to do waits with the others.

use std::collections::BTreeSet;

use policy::priority::{self, PriorityController, StageObservation, StagePriority};
use policy::{Instant, Span, ThreadId};
use scenario::draw::{Law, Stream};
use scenario::pipeline::{StageTurn, ThreadRole};
use scenario::result::StageOutcome;

/// What a favour is worth as a nice value.
pub(crate) const NICE_STEP: i8 = 5;

/// A pipeline.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    seed: u64,
    /// The nice value of threads whose stages have none of their own.
    nice: i8,
    step: Span,
    buffers: u64,
    /// How many rounds there will be, in all runs that have begun.
    rounds: u64,
    /// How many a run has.
    rounds_of_a_run: u64,
    /// Whether a run begins anew if the one before it is over.
    is_endless: bool,
    stages: Vec<Stage>,
    groups: Vec<Group>,
    /// Its threads by their numbers in the job.
    roles: Vec<CarrierState>,
    watches_queues: bool,
    controller: Option<PriorityController>,
    /// What the controller saw last.
    seen: Vec<Sums>,
    /// How many waits there have been.
    waits: u32,
    /// The moment up to which sums are right.
    counted: Instant,
}

#[derive(Clone, Debug)]
struct Stage {
    name: String,
    /// The name of its random numbers.
    stream: String,
    kind: priority::StageKind,
    compute: Option<Law>,
    device: Option<Law>,
    nice: i8,
    group: usize,
    copies: Vec<Copy>,
    /// How many rounds it has taken.
    taken: u64,
    /// How many it has conveyed.
    conveyed: u64,
    /// Those beyond them that are done.
    ahead: BTreeSet<u64>,
    /// How many of its copies wait for the device or a message.
    away: u64,
    sums: Sums,
}

/// A copy of a stage.
#[derive(Clone, Debug)]
struct Copy {
    is_busy: bool,
    rule: priority::StagePolicy,
    favour: StagePriority,
}

/// What a stage has done, over its copies.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// Time with something to do.
    busy: Span,
    computed: Span,
    device: Span,
    starved: Span,
}

/// Threads that carry out the same stages.
#[derive(Clone, Debug, Default)]
struct Group {
    stages: Vec<usize>,
    /// Whether they are workers.
    is_of_workers: bool,
    /// Who waits and does not sleep, in the order in which they came or were woken.
    awake: Vec<ThreadId>,
    asleep: Vec<ThreadId>,
}

#[derive(Clone, Debug)]
struct CarrierState {
    group: usize,
    way: Way,
    carries: Option<Carried>,
}

/// How a thread chooses what to do next.
#[derive(Clone, Debug)]
enum Way {
    /// In turn; the current turn, and how often it may still go on.
    Turns { turns: Vec<StageTurn>, at: usize, left: u32, copy: usize },
    /// What is nearest to the end.
    Nearest,
}

/// A round in a thread's hands.
#[derive(Clone, Copy, Debug)]
struct Carried {
    stage: usize,
    copy: usize,
    round: u64,
    compute: Span,
    device: Option<Span>,
}

/// What a thread waits for when it has computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Device(Span),
    Message(Span),
}

impl Pipeline {
    /// The pipeline of the job called `name`, whose threads are numbered as `roles`.
    pub(crate) fn new(
        pipeline: &scenario::Pipeline,
        roles: &[ThreadRole],
        name: &str,
        seed: u64,
        nice: i8,
        step: Span,
        is_endless: bool,
    ) -> Pipeline {
        let stage = |stage: &scenario::pipeline::Stage| Stage {
            name: stage.name.clone(),
            stream: stage.stream_name(name),
            kind: stage.kind,
            compute: stage.compute.as_ref().map(scenario::Distribution::law),
            device: stage.device.as_ref().map(scenario::Distribution::law),
            nice: stage.nice,
            group: 0,
            copies: (0..stage.fork)
                .map(|_| {
                    let mut rule = pipeline.priority.stage(stage.kind);
                    let favour = rule.begin();
                    Copy { is_busy: false, rule, favour }
                })
                .collect(),
            taken: 0,
            conveyed: 0,
            ahead: BTreeSet::new(),
            away: 0,
            sums: Sums::default(),
        };
        let mut this = Pipeline {
            seed,
            nice,
            step,
            buffers: pipeline.buffers.into(),
            rounds: pipeline.rounds,
            rounds_of_a_run: pipeline.rounds,
            is_endless,
            stages: pipeline.stages.iter().map(stage).collect(),
            groups: Vec::new(),
            roles: Vec::new(),
            watches_queues: pipeline.priority.uses_queues(),
            controller: pipeline.priority.controller(),
            seen: vec![Sums::default(); pipeline.stages.len()],
            waits: 0,
            counted: Instant::ZERO,
        };
        roles.iter().for_each(|role| this.add(role));
        this
    }

    fn add(&mut self, role: &ThreadRole) {
        let stages = match role {
            ThreadRole::Stages(turns) => turns.iter().map(|turn| turn.stage).collect(),
            ThreadRole::Worker(stages) => stages.clone(),
        };
        let group = self.groups.iter().position(|group| group.stages == stages).unwrap_or_else(|| {
            stages.iter().for_each(|&stage| self.stages[stage].group = self.groups.len());
            let is_of_workers = matches!(role, ThreadRole::Worker(_));
            self.groups.push(Group { stages, is_of_workers, ..Group::default() });
            self.groups.len() - 1
        });
        let copy = self.roles.iter().filter(|other| other.group == group).count();
        let way = match role {
            ThreadRole::Stages(turns) => {
                Way::Turns { turns: turns.clone(), at: 0, left: turns.first().map_or(0, |turn| turn.times), copy }
            }
            ThreadRole::Worker(_) => Way::Nearest,
        };
        self.roles.push(CarrierState { group, way, carries: None });
    }

    /// How many buffers wait before a stage.
    fn depth(&self, stage: usize) -> u64 {
        match (stage.checked_sub(1), self.stages.last()) {
            (Some(before), _) => self.stages[before].conveyed - self.stages[stage].taken,
            (None, last) => self.buffers - (self.stages[stage].taken - last.map_or(0, |last| last.conveyed)),
        }
    }

    /// How many copies of a stage could take a buffer at once.
    fn open(&self, stage: usize) -> u64 {
        let of = &self.stages[stage];
        let free = of.copies.iter().filter(|copy| !copy.is_busy).count() as u64;
        self.depth(stage).min(self.rounds - of.taken).min(free)
    }

    /// What a thread would take now.
    fn choice(&self, number: usize) -> Option<usize> {
        let CarrierState { group, way, .. } = &self.roles[number];
        match way {
            Way::Nearest => self.groups[*group].stages.iter().rev().copied().find(|&stage| self.open(stage) > 0),
            Way::Turns { turns, at, left, .. } => {
                // This one, or the next that is not through, at last this one once more.
                let first = if *left > 0 { 0 } else { 1 };
                let mut stages = (first..=turns.len()).map(|next| turns[(at + next) % turns.len()].stage);
                stages.find(|&stage| self.stages[stage].taken < self.rounds).filter(|&stage| self.open(stage) > 0)
            }
        }
    }

    pub(crate) fn could_take(&self, number: usize) -> bool {
        self.choice(number).is_some()
    }

    /// Whether nothing will come any more for a thread that has nothing in its hands.
    pub(crate) fn is_through(&self, number: usize) -> bool {
        let CarrierState { group, carries, .. } = &self.roles[number];
        carries.is_none() && self.is_over(*group)
    }

    /// Whether nothing is left to take for a group.
    fn is_over(&self, group: usize) -> bool {
        !self.is_endless && self.groups[group].stages.iter().all(|&stage| self.stages[stage].taken == self.rounds)
    }

    /// A thread takes a buffer, if there is one for it. Returns for how long it computes.
    pub(crate) fn take(&mut self, now: Instant, number: usize) -> Option<Span> {
        let stage = self.choice(number)?;
        self.count(now);
        let copy = match &mut self.roles[number].way {
            Way::Nearest => self.stages[stage].copies.iter().position(|copy| !copy.is_busy)?,
            Way::Turns { turns, at, left, copy } => {
                if *left == 0 || turns[*at].stage != stage {
                    *at = turns.iter().position(|turn| turn.stage == stage)?;
                    *left = turns[*at].times;
                }
                *left -= 1;
                *copy
            }
        };
        let of = &mut self.stages[stage];
        let round = of.taken;
        of.taken += 1;
        of.copies[copy].is_busy = true;
        let mut stream = Stream::named(self.seed, &of.stream, (round % self.rounds_of_a_run) as u32);
        let mut draw = |law: &Option<Law>| law.as_ref().map(|law| law.draw(&mut stream, self.step));
        let (compute, device) = (draw(&of.compute).unwrap_or(Span::ZERO), draw(&of.device));
        if self.watches_queues && !self.is_carried(stage) {
            let left = self.depth(stage).try_into().unwrap_or(u32::MAX);
            let copy = &mut self.stages[stage].copies[copy];
            copy.favour = copy.rule.accepted(left).unwrap_or(copy.favour);
        }
        self.roles[number].carries = Some(Carried { stage, copy, round, compute, device });
        Some(compute)
    }

    /// A thread has computed; what it asks for next, if anything.
    pub(crate) fn computed(&mut self, now: Instant, number: usize) -> Option<Request> {
        self.count(now);
        let Carried { stage, compute, device, .. } = self.roles[number].carries?;
        let stage = &mut self.stages[stage];
        stage.sums.computed += compute;
        let time = device?;
        stage.away += 1;
        Some(if stage.kind == priority::StageKind::Communicate {
            Request::Message(time)
        } else {
            Request::Device(time)
        })
    }

    /// What a thread asked for is done.
    pub(crate) fn came_back(&mut self, now: Instant, number: usize) {
        self.count(now);
        if let Some(Carried { stage, .. }) = self.roles[number].carries {
            self.stages[stage].away -= 1;
        }
    }

    /// A thread is done with the round in its hands, if there is one. Returns how many rounds went through the last stage by that.
    pub(crate) fn convey(&mut self, now: Instant, number: usize) -> Option<u64> {
        let Carried { stage, copy, round, .. } = self.roles[number].carries.take()?;
        self.count(now);
        let of = &mut self.stages[stage];
        of.copies[copy].is_busy = false;
        of.ahead.insert(round);
        let before = of.conveyed;
        while of.ahead.remove(&of.conveyed) {
            of.conveyed += 1;
        }
        let went_on = of.conveyed - before;
        if self.watches_queues && !self.is_carried(stage) {
            let next = (stage + 1) % self.stages.len();
            let others = (self.depth(next) - went_on.min(1)).try_into().unwrap_or(u32::MAX);
            let copy = &mut self.stages[stage].copies[copy];
            copy.favour = copy.rule.conveyed(others).unwrap_or(copy.favour);
        }
        if stage + 1 < self.stages.len() {
            return Some(0);
        }
        if self.is_endless && self.stages[stage].conveyed == self.rounds {
            self.begin_anew();
        }
        Some(went_on)
    }

    /// All rounds are over: there are as many again, and every thread begins with its first turn.
    fn begin_anew(&mut self) {
        self.rounds += self.rounds_of_a_run;
        for role in &mut self.roles {
            if let Way::Turns { turns, at, left, .. } = &mut role.way {
                (*at, *left) = (0, turns.first().map_or(0, |turn| turn.times));
            }
        }
    }

    /// Brings the sums up to now.
    fn count(&mut self, now: Instant) {
        let span = now.since(self.counted);
        self.counted = now;
        if span.is_zero() {
            return;
        }
        for stage in 0..self.stages.len() {
            let open = self.open(stage);
            let of = &mut self.stages[stage];
            let copies = of.copies.len() as u64;
            let busy = open + of.copies.iter().filter(|copy| copy.is_busy).count() as u64;
            let times = |count: u64| Span::from_nanos(span.as_nanos() * count);
            of.sums.busy += times(busy);
            of.sums.starved += times(copies - busy);
            of.sums.device += times(of.away);
        }
    }
}

/// Who waits.
impl Pipeline {
    /// A thread begins to wait; returns how many waits there were before.
    pub(crate) fn begin_wait(&mut self, number: usize, thread: ThreadId) -> u32 {
        let group = self.roles[number].group;
        self.groups[group].awake.push(thread);
        let before = self.waits;
        self.waits = before.wrapping_add(1);
        before
    }

    /// A thread that waits goes to sleep.
    pub(crate) fn sleep(&mut self, number: usize, thread: ThreadId) {
        let group = &mut self.groups[self.roles[number].group];
        group.awake.retain(|awake| *awake != thread);
        group.asleep.push(thread);
    }

    /// A thread waits no longer.
    pub(crate) fn stop_waiting(&mut self, number: usize, thread: ThreadId) {
        let group = &mut self.groups[self.roles[number].group];
        group.awake.retain(|awake| *awake != thread);
    }

    pub(crate) fn groups(&self) -> std::ops::Range<usize> {
        0..self.groups.len()
    }

    /// Who waits in a group and does not sleep.
    pub(crate) fn awake(&self, group: usize) -> &[ThreadId] {
        &self.groups[group].awake
    }

    /// How many of a group could take a buffer.
    fn wanted(&self, group: usize) -> u64 {
        let is_of_it = |role: &CarrierState| {
            role.group == group && matches!(&role.way, Way::Turns { turns, .. } if turns.len() > 1)
        };
        match self.roles.iter().position(is_of_it) {
            Some(shared) => u64::from(self.could_take(shared)),
            None => self.groups[group].stages.iter().map(|&stage| self.open(stage)).sum(),
        }
    }

    /// Takes the one of a group who went to sleep last off the list of those that sleep, if buffers wait for more than are awake, or
    /// nothing will come any more.
    pub(crate) fn call_sleeper(&mut self, group: usize) -> Option<ThreadId> {
        let is_over = self.is_over(group);
        let wanted = self.wanted(group);
        let group = &mut self.groups[group];
        if !is_over && wanted <= group.awake.len() as u64 {
            return None;
        }
        let called = group.asleep.pop()?;
        group.awake.push(called);
        Some(called)
    }

    /// What must hold after every event: rounds are in order, no more are under way than there are buffers, and nobody sleeps
    /// for whom there is something.
    #[cfg(debug_assertions)]
    pub(crate) fn check(&self) {
        for (number, stage) in self.stages.iter().enumerate() {
            let under_way = stage.copies.iter().filter(|copy| copy.is_busy).count() as u64;
            assert_eq!(stage.taken - stage.conveyed, under_way + stage.ahead.len() as u64, "stage {}", stage.name);
            assert!(self.depth(number) <= self.buffers, "stage {}", stage.name);
        }
        for group in self.groups() {
            let Group { awake, asleep, .. } = &self.groups[group];
            assert!(asleep.is_empty() || self.wanted(group) <= awake.len() as u64, "nobody wakes {asleep:?}");
        }
    }
}

impl Pipeline {
    /// Its time is counted from here.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.counted = now;
    }
}

/// Priorities, and what came of it.
impl Pipeline {
    pub(crate) fn has_controller(&self) -> bool {
        self.controller.is_some()
    }

    /// Whether workers carry a stage.
    fn is_carried(&self, stage: usize) -> bool {
        self.groups[self.stages[stage].group].is_of_workers
    }

    /// The nice value that a thread ought to have.
    pub(crate) fn nice(&self, number: usize) -> i8 {
        let CarrierState { group, way, .. } = &self.roles[number];
        let copy = match way {
            Way::Turns { copy, .. } => *copy,
            // The copies of what workers carry are all the same.
            Way::Nearest => 0,
        };
        let stages = || self.groups[*group].stages.iter().map(|&stage| &self.stages[stage]);
        let favour = match stages().filter_map(|stage| stage.copies.get(copy)).map(|copy| copy.favour).max() {
            Some(StagePriority::Lowered) => NICE_STEP,
            Some(StagePriority::Neutral) | None => 0,
            Some(StagePriority::Raised) => -NICE_STEP,
        };
        let base = stages().map(|stage| stage.nice).find(|&nice| nice != 0).unwrap_or(self.nice);
        (base + favour).clamp(-20, 19)
    }

    /// Asks the controller which stages it favours from now on. `computing` is what threads have computed of the rounds in their hands.
    pub(crate) fn oversee(
        &mut self,
        now: Instant,
        machine: &priority::MachineObservation,
        computing: impl Fn(usize, Span) -> Span,
    ) {
        self.count(now);
        let mut sums: Vec<Sums> = self.stages.iter().map(|stage| stage.sums).collect();
        for (number, role) in self.roles.iter().enumerate() {
            if let Some(Carried { stage, compute, .. }) = role.carries {
                sums[stage].computed += computing(number, compute);
            }
        }
        let observe = |((stage, now), before): ((&Stage, &Sums), &Sums)| {
            let (busy, worked) = (now.busy - before.busy, now.computed + now.device - before.computed - before.device);
            StageObservation {
                kind: stage.kind,
                copies: stage.copies.len() as u32,
                busy,
                starved: now.starved - before.starved,
                blocked: Span::ZERO,
                waiting_for_cpu: busy - worked,
            }
        };
        let stages: Vec<_> = self.stages.iter().zip(&sums).zip(&self.seen).map(observe).collect();
        self.seen = sums;
        let Some(controller) = &mut self.controller else { return };
        for (stage, favour) in self.stages.iter_mut().zip(controller.decide(&stages, machine)) {
            stage.copies.iter_mut().for_each(|copy| copy.favour = *favour);
        }
    }

    /// What the stages have come to by now.
    pub(crate) fn outcome(&self, now: Instant) -> Vec<StageOutcome> {
        let mut counted = self.clone();
        counted.count(now);
        let outcome = |stage: Stage| StageOutcome {
            stage: stage.name,
            busy_ns: Some(stage.sums.busy),
            computed_ns: Some(stage.sums.computed),
            device_ns: Some(stage.sums.device),
            starved_ns: Some(stage.sums.starved),
            refused: Vec::new(),
        };
        counted.stages.into_iter().map(outcome).collect()
    }
}
