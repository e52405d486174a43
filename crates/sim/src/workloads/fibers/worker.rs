//! A worker of the library: its queue, its clock, and who sleeps.

use std::collections::BTreeSet;

use policy::feedback::{Boost, FeedbackQueue, FeedbackRules, TurnOutcome};
use policy::{Instant, Span, ThreadId};

/// Whether a worker sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sleep {
    Awake,
    /// It has nobody to run.
    Asleep,
    /// It has had nobody to run, and will look again.
    Called,
}

#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) ready: FeedbackQueue,
    /// The fiber that it runs.
    pub(super) current: Option<u32>,
    pub(super) sleep: Sleep,
    /// When it last looked at the clock, once it has begun.
    since: Option<Instant>,
    /// When the next boost is due.
    boost: Instant,
    /// Whose sleep is over when; of one moment, who went to sleep first.
    sleepers: BTreeSet<(Instant, u64, u32)>,
    /// How many sleeps there have been.
    slept: u64,
}

/// What came of a look at the clock for the fiber that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Charged {
    /// Its turn is over: its running time is used up, or all have been boosted.
    pub(super) turn_is_over: bool,
    /// Its running time is used up.
    pub(super) is_used_up: bool,
}

impl Worker {
    pub(super) fn new(rules: FeedbackRules) -> Worker {
        Worker {
            ready: FeedbackQueue::new(rules),
            current: None,
            sleep: Sleep::Awake,
            since: None,
            boost: Instant::ZERO,
            sleepers: BTreeSet::new(),
            slept: 0,
        }
    }

    /// It goes on, perhaps for the first time, perhaps after a sleep; else with what it did.
    pub(super) fn resume(&mut self, now: Instant) {
        if self.since.is_none() {
            (self.since, self.boost) = (Some(now), self.next_boost(now));
        }
        if std::mem::replace(&mut self.sleep, Sleep::Awake) != Sleep::Awake {
            self.since = Some(now);
            self.process_due(now);
        }
    }

    /// A fiber sleeps until then.
    pub(super) fn add_sleeper(&mut self, fiber: u32, until: Instant) {
        self.slept += 1;
        self.sleepers.insert((until, self.slept, fiber));
    }

    /// When the next of its fibers has slept enough.
    pub(super) fn until(&self) -> Option<Instant> {
        self.sleepers.first().map(|(until, ..)| *until)
    }

    /// How long it is until a fiber that runs and is preemptible is interrupted: its running time is over then, or somebody's sleep.
    pub(super) fn until_tick(&self, now: Instant, fiber: u32) -> Span {
        let left = self.ready.time_left(ThreadId(fiber));
        let running_time = self.since.unwrap_or(now) + left;
        let next = self.until().map_or(running_time, |sleep| sleep.min(running_time));
        if next > now { next.since(now) } else { Span::ZERO }
    }

    /// Looks at the clock, and charges the fiber that runs for the time since it last did.
    pub(super) fn charge(&mut self, now: Instant, fiber: u32) -> Charged {
        let fiber = ThreadId(fiber);
        let span = now.since(self.since.replace(now).unwrap_or(now));
        let at_first = self.ready.level(fiber);
        self.process_due(now);
        let is_used_up = self.ready.charge(fiber, span) == TurnOutcome::UsedUp;
        Charged { turn_is_over: is_used_up || self.ready.level(fiber) != at_first, is_used_up }
    }

    /// The fiber that ran has ended: its time is nobody's.
    pub(super) fn skip_time(&mut self, now: Instant) {
        self.since = Some(now);
        self.process_due(now);
    }

    /// Does what is due: the boost, and whose sleep is over.
    fn process_due(&mut self, now: Instant) {
        if self.boost <= now {
            self.boost = self.next_boost(now);
            self.ready.boost();
        }
        while let Some(&(until, _, fiber)) = self.sleepers.first()
            && until <= now
        {
            self.sleepers.pop_first();
            self.ready.enqueue(ThreadId(fiber));
        }
    }

    fn next_boost(&self, now: Instant) -> Instant {
        match self.ready.rules().boost {
            Boost::Every(period) => now + period,
            Boost::Never => Instant::ZERO + Span::MAX,
        }
    }
}
