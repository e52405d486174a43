//! The pipeline of a pipeline job: the place of its rounds, its waiting threads, and what its
//! stages have done.
//!
//! Buffers are not represented. A queue is the difference between the rounds that one stage has
//! conveyed and those that the next one has taken. The pool is the difference between the number of
//! buffers and the rounds under way. Every stage conveys and takes rounds in order, even if its
//! copies end them in another order.
//!
//! The threads that carry out stages belong to groups: the thread that several stages share, the
//! threads of a stage's copies, or the workers. Each stage belongs to exactly one group. The idle
//! threads of a group wait together.

use std::collections::BTreeSet;

use policy::priority::{self, PriorityController, StageObservation, StagePriority};
use policy::{Instant, Span, ThreadId};
use scenario::Machine;
use scenario::draw::{Law, Stream};
use scenario::pipeline::{StageTurn, ThreadRole};
use scenario::result::StageOutcome;

/// The nice values by which a raised or lowered priority differs.
pub(crate) const NICE_STEP: i8 = 5;

#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    seed: u64,
    /// The nice value of threads whose stages have none.
    nice: i8,
    step: Span,
    buffers: u64,
    /// The number of rounds in all runs that have begun.
    rounds: u64,
    /// The number of rounds in a run.
    rounds_of_a_run: u64,
    /// Whether a new run begins when one is over.
    is_endless: bool,
    stages: Vec<Stage>,
    groups: Vec<Group>,
    /// Its threads, by their numbers in the job.
    threads: Vec<PipelineThread>,
    watches_queues: bool,
    controller: Option<PriorityController>,
    /// The sums at the controller's last look.
    seen: Vec<Sums>,
    /// The moment up to which the sums are right.
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
    taken: u64,
    conveyed: u64,
    /// The rounds after those that are done, but wait for an earlier one.
    ahead: BTreeSet<u64>,
    /// How many of its copies wait for the device or a message.
    away: u64,
    sums: Sums,
}

#[derive(Clone, Debug)]
struct Copy {
    is_busy: bool,
    policy: priority::StagePolicy,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// Time with a round or with one to take.
    busy: Span,
    computed: Span,
    device: Span,
    starved: Span,
}

/// Threads that carry out the same stages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    stages: Vec<usize>,
    is_of_workers: bool,
    /// The waiters that do not sleep, in the order in which they arrived or were woken.
    awake: Vec<ThreadId>,
    asleep: Vec<ThreadId>,
}

#[derive(Clone, Debug)]
struct PipelineThread {
    group: usize,
    choice: StageChoice,
    carries: Option<Carried>,
}

/// How a thread chooses its next stage.
#[derive(Clone, Debug)]
enum StageChoice {
    /// In turn: the current turn, and how often it may be repeated.
    Turns { turns: Vec<StageTurn>, at: usize, left: u32, copy: usize },
    /// The stage nearest to the end of the pipeline.
    Nearest,
}

/// The round that a thread carries.
#[derive(Clone, Copy, Debug)]
struct Carried {
    stage: usize,
    copy: usize,
    round: u64,
    compute: Span,
    device: Option<Span>,
}

/// The request of a thread that has computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Device(Span),
    Message(Span),
}

impl Pipeline {
    pub(crate) fn new(
        pipeline: &scenario::Pipeline,
        machine: &Machine,
        name: &str,
        seed: u64,
        nice: i8,
        is_endless: bool,
    ) -> Pipeline {
        let copy = |kind| Copy { is_busy: false, policy: pipeline.priority.stage(kind) };
        let stage = |stage: &scenario::pipeline::Stage| Stage {
            name: stage.name.clone(),
            stream: stage.stream_name(name),
            kind: stage.kind,
            compute: stage.compute.as_ref().map(scenario::Distribution::law),
            device: stage.device.as_ref().map(scenario::Distribution::law),
            nice: stage.nice,
            group: 0,
            copies: (0..stage.fork).map(|_| copy(stage.kind)).collect(),
            taken: 0,
            conveyed: 0,
            ahead: BTreeSet::new(),
            away: 0,
            sums: Sums::default(),
        };
        let mut this = Pipeline {
            seed,
            nice,
            step: machine.step,
            buffers: pipeline.buffers.into(),
            rounds: pipeline.rounds,
            rounds_of_a_run: pipeline.rounds,
            is_endless,
            stages: pipeline.stages.iter().map(stage).collect(),
            groups: Vec::new(),
            threads: Vec::new(),
            watches_queues: pipeline.priority.has_queue_rule(),
            controller: pipeline.priority.controller(),
            seen: vec![Sums::default(); pipeline.stages.len()],
            counted: Instant::ZERO,
        };
        pipeline.thread_roles(machine.cpus).iter().for_each(|role| this.add(role));
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
        let copy = self.threads.iter().filter(|other| other.group == group).count();
        let choice = match role {
            ThreadRole::Stages(turns) => {
                let left = turns.first().map_or(0, |turn| turn.times);
                StageChoice::Turns { turns: turns.clone(), at: 0, left, copy }
            }
            ThreadRole::Worker(_) => StageChoice::Nearest,
        };
        self.threads.push(PipelineThread { group, choice, carries: None });
    }

    /// How many buffers wait before a stage.
    fn depth(&self, stage: usize) -> u64 {
        match (stage.checked_sub(1), self.stages.last()) {
            (Some(before), _) => self.stages[before].conveyed - self.stages[stage].taken,
            (None, last) => self.buffers - (self.stages[stage].taken - last.map_or(0, |last| last.conveyed)),
        }
    }

    /// How many more copies of a stage could take a buffer now.
    fn open(&self, stage: usize) -> u64 {
        let of = &self.stages[stage];
        let free = of.copies.iter().filter(|copy| !copy.is_busy).count() as u64;
        self.depth(stage).min(self.rounds - of.taken).min(free)
    }

    /// The stage for which a thread would take a buffer now.
    fn next_stage(&self, number: usize) -> Option<usize> {
        let PipelineThread { group, choice, .. } = &self.threads[number];
        match choice {
            StageChoice::Nearest => {
                self.groups[*group].stages.iter().rev().copied().find(|&stage| self.open(stage) > 0)
            }
            StageChoice::Turns { turns, at, left, .. } => {
                // The current turn, or the next one whose stage is not finished, and at last the
                // current one again.
                let first = if *left > 0 { 0 } else { 1 };
                let mut stages = (first..=turns.len()).map(|next| turns[(at + next) % turns.len()].stage);
                stages.find(|&stage| self.stages[stage].taken < self.rounds).filter(|&stage| self.open(stage) > 0)
            }
        }
    }

    pub(crate) fn could_take(&self, number: usize) -> bool {
        self.next_stage(number).is_some()
    }

    /// Whether a thread carries no round and will get none.
    pub(crate) fn is_through(&self, number: usize) -> bool {
        let PipelineThread { group, carries, .. } = &self.threads[number];
        carries.is_none() && self.is_over(*group)
    }

    /// Whether no round is left to take for a group.
    fn is_over(&self, group: usize) -> bool {
        !self.is_endless && self.groups[group].stages.iter().all(|&stage| self.stages[stage].taken == self.rounds)
    }

    /// A thread takes a buffer, if there is one for it. Returns how long it computes.
    pub(crate) fn take(&mut self, now: Instant, number: usize) -> Option<Span> {
        let stage = self.next_stage(number)?;
        self.count(now);
        let copy = match &mut self.threads[number].choice {
            StageChoice::Nearest => self.stages[stage].copies.iter().position(|copy| !copy.is_busy)?,
            StageChoice::Turns { turns, at, left, copy } => {
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
        if self.watches_queues && !self.has_workers(stage) {
            let left = self.depth(stage).try_into().unwrap_or(u32::MAX);
            self.stages[stage].copies[copy].policy.accepted(left);
        }
        self.threads[number].carries = Some(Carried { stage, copy, round, compute, device });
        Some(compute)
    }

    /// A thread has computed. Returns its next request, if any.
    pub(crate) fn computed(&mut self, now: Instant, number: usize) -> Option<Request> {
        self.count(now);
        let Carried { stage, compute, device, .. } = self.threads[number].carries?;
        let stage = &mut self.stages[stage];
        stage.sums.computed += compute;
        let time = device?;
        stage.away += 1;
        let is_message = stage.kind == priority::StageKind::Communicate;
        Some(if is_message { Request::Message(time) } else { Request::Device(time) })
    }

    pub(crate) fn finish_request(&mut self, now: Instant, number: usize) {
        self.count(now);
        if let Some(Carried { stage, .. }) = self.threads[number].carries {
            self.stages[stage].away -= 1;
        }
    }

    /// A thread conveys its round, if it has one. Returns how many rounds have left the last stage
    /// because of that.
    pub(crate) fn convey(&mut self, now: Instant, number: usize) -> Option<u64> {
        let Carried { stage, copy, round, .. } = self.threads[number].carries.take()?;
        self.count(now);
        let of = &mut self.stages[stage];
        of.copies[copy].is_busy = false;
        of.ahead.insert(round);
        let before = of.conveyed;
        while of.ahead.remove(&of.conveyed) {
            of.conveyed += 1;
        }
        let passed = of.conveyed - before;
        if self.watches_queues && !self.has_workers(stage) {
            let next = (stage + 1) % self.stages.len();
            let others = (self.depth(next) - passed.min(1)).try_into().unwrap_or(u32::MAX);
            self.stages[stage].copies[copy].policy.conveyed(others);
        }
        if stage + 1 < self.stages.len() {
            return Some(0);
        }
        if self.is_endless && self.stages[stage].conveyed == self.rounds {
            self.begin_next_run();
        }
        Some(passed)
    }

    /// Begins a new run with as many rounds. Every thread begins with its first turn.
    fn begin_next_run(&mut self) {
        self.rounds += self.rounds_of_a_run;
        for thread in &mut self.threads {
            if let StageChoice::Turns { turns, at, left, .. } = &mut thread.choice {
                (*at, *left) = (0, turns.first().map_or(0, |turn| turn.times));
            }
        }
    }

    /// Brings the sums up to date.
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

impl Pipeline {
    pub(crate) fn begin_wait(&mut self, number: usize, thread: ThreadId) {
        self.groups[self.threads[number].group].awake.push(thread);
    }

    pub(crate) fn sleep(&mut self, number: usize, thread: ThreadId) {
        self.stop_waiting(number, thread).asleep.push(thread);
    }

    /// A thread stops waiting. Returns its group.
    pub(crate) fn stop_waiting(&mut self, number: usize, thread: ThreadId) -> &mut Group {
        let group = &mut self.groups[self.threads[number].group];
        group.awake.retain(|awake| *awake != thread);
        group
    }

    pub(crate) fn groups(&self) -> std::ops::Range<usize> {
        0..self.groups.len()
    }

    pub(crate) fn awake(&self, group: usize) -> &[ThreadId] {
        &self.groups[group].awake
    }

    /// How many threads of a group could take a buffer.
    fn wanted(&self, group: usize) -> u64 {
        let shares_it = |thread: &PipelineThread| {
            thread.group == group && matches!(&thread.choice, StageChoice::Turns { turns, .. } if turns.len() > 1)
        };
        match self.threads.iter().position(shares_it) {
            Some(shared) => u64::from(self.could_take(shared)),
            None => self.groups[group].stages.iter().map(|&stage| self.open(stage)).sum(),
        }
    }

    /// Wakes the last thread of a group that went to sleep, if there are more buffers than awake
    /// waiters, or if no buffer will come.
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

    /// Checks the invariants after an event: rounds are in order, no more of them are under way
    /// than there are buffers, and no thread sleeps while there is a buffer for it.
    pub(crate) fn check(&self) {
        for (number, stage) in self.stages.iter().enumerate() {
            let under_way = stage.copies.iter().filter(|copy| copy.is_busy).count() as u64;
            assert_eq!(stage.taken - stage.conveyed, under_way + stage.ahead.len() as u64, "stage {}", stage.name);
            assert!(self.depth(number) <= self.buffers, "stage {}", stage.name);
        }
        for group in self.groups() {
            let Group { awake, asleep, .. } = &self.groups[group];
            assert!(asleep.is_empty() || self.wanted(group) <= awake.len() as u64, "no thread wakes {asleep:?}");
        }
    }
}

/// Priorities and the outcome.
impl Pipeline {
    /// Starts the time accounting. Returns whether the pipeline has a controller.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        self.counted = now;
        self.controller.is_some()
    }

    /// Whether workers carry out a stage.
    fn has_workers(&self, stage: usize) -> bool {
        self.groups[self.stages[stage].group].is_of_workers
    }

    /// The nice value that a thread's stages require.
    pub(crate) fn nice(&self, number: usize) -> i8 {
        let PipelineThread { group, choice, .. } = &self.threads[number];
        let copy = match choice {
            StageChoice::Turns { copy, .. } => *copy,
            // All copies of a stage that workers carry out are alike.
            StageChoice::Nearest => 0,
        };
        let stages = || self.groups[*group].stages.iter().map(|&stage| &self.stages[stage]);
        let change = match stages().filter_map(|stage| stage.copies.get(copy)).map(|copy| copy.policy.priority).max() {
            Some(StagePriority::Lowered) => NICE_STEP,
            Some(StagePriority::Neutral) | None => 0,
            Some(StagePriority::Raised) => -NICE_STEP,
        };
        let base = stages().map(|stage| stage.nice).find(|&nice| nice != 0).unwrap_or(self.nice);
        (base + change).clamp(-20, 19)
    }

    /// Asks the controller which stages to raise or lower. `computing` is how long a thread has
    /// computed in its current round.
    pub(crate) fn control_priorities(
        &mut self,
        now: Instant,
        machine: &priority::MachineObservation,
        computing: impl Fn(usize, Span) -> Span,
    ) {
        self.count(now);
        let mut sums: Vec<Sums> = self.stages.iter().map(|stage| stage.sums).collect();
        for (number, thread) in self.threads.iter().enumerate() {
            if let Some(Carried { stage, compute, .. }) = thread.carries {
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
                waiting_for_cpu: Some(busy - worked),
                // A stage with a round to take is busy.
                queued: 0,
            }
        };
        let stages: Vec<_> = self.stages.iter().zip(&sums).zip(&self.seen).map(observe).collect();
        self.seen = sums;
        let Some(controller) = &mut self.controller else { return };
        for (stage, priority) in self.stages.iter_mut().zip(controller.decide(&stages, machine)) {
            stage.copies.iter_mut().for_each(|copy| copy.policy.priority = *priority);
        }
    }

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
