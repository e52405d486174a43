//! A worker of the simulated library: its queue, its clock, and its sleeping fibers.

use std::collections::BTreeSet;

use policy::feedback::{FeedbackQueue, FeedbackRules, TurnOutcome};
use policy::{Instant, Span, ThreadId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sleep {
    Awake,
    /// It has no fiber to run.
    Asleep,
    /// It had no fiber to run, and will look again.
    Called,
}

#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) ready: FeedbackQueue,
    pub(super) current: Option<u32>,
    pub(super) sleep: Sleep,
    /// When it last read the clock, once it has started.
    since: Option<Instant>,
    /// When the next boost is due.
    boost: Instant,
    /// When each sleep is over. Of one moment, the fiber that went to sleep first is first.
    sleepers: BTreeSet<(Instant, u64, u32)>,
    slept: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Charged {
    /// Its turn is over: its running time is used up, or all fibers have been boosted.
    pub(super) turn_is_over: bool,
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

    /// The worker starts, wakes up, or continues.
    pub(super) fn resume(&mut self, now: Instant) {
        if self.since.is_none() {
            (self.since, self.boost) = (Some(now), self.next_boost(now));
        }
        if std::mem::replace(&mut self.sleep, Sleep::Awake) != Sleep::Awake {
            self.since = Some(now);
            self.process_due(now);
        }
    }

    /// A fiber sleeps until this moment.
    pub(super) fn add_sleeper(&mut self, fiber: u32, until: Instant) {
        self.slept += 1;
        self.sleepers.insert((until, self.slept, fiber));
    }

    /// When the next sleep of its fibers is over.
    pub(super) fn until(&self) -> Option<Instant> {
        self.sleepers.first().map(|(until, ..)| *until)
    }

    /// The time until a running preemptible fiber is interrupted: its running time or a sleep is
    /// over then.
    pub(super) fn until_tick(&self, now: Instant, fiber: u32) -> Span {
        let running_time = self.since.unwrap_or(now) + self.ready.time_left(ThreadId(fiber));
        self.until().map_or(running_time, |sleep| sleep.min(running_time)).since(now)
    }

    /// Reads the clock, and charges the running fiber for the time since the last reading.
    pub(super) fn charge(&mut self, now: Instant, fiber: u32) -> Charged {
        let fiber = ThreadId(fiber);
        let span = now.since(self.since.replace(now).unwrap_or(now));
        let at_first = self.ready.level(fiber);
        self.process_due(now);
        let is_used_up = self.ready.charge(fiber, span) == TurnOutcome::UsedUp;
        Charged { turn_is_over: is_used_up || self.ready.level(fiber) != at_first, is_used_up }
    }

    /// The fiber that ran has ended: charges its time to no fiber.
    pub(super) fn skip_time(&mut self, now: Instant) {
        self.since = Some(now);
        self.process_due(now);
    }

    /// Does what is due: the boost, and the sleeps that are over.
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
        now + self.ready.rules().boost.period().unwrap_or(Span::MAX)
    }
}
