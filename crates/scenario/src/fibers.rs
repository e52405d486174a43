//! A program of fibers: threads of a user's own under a feedback queue, what each of them does, and what it draws for it.

use policy::Span;
use policy::feedback::FeedbackRules;
use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
use crate::draw::{Law, Stream};

/// A program: its first fiber makes the others, group after group, and joins all that nobody else joins.
#[derive(Clone, Debug, PartialEq)]
pub struct Fibers {
    /// Fibers that do the same, at least one group; their names differ.
    pub groups: Vec<FiberGroup>,
    /// How many kernel threads run them, at least one.
    pub workers: u32,
    /// The feedback queue that they stand in.
    pub rules: FeedbackRules,
    /// How many locks there are, at least one: fiber number i of the job takes number i modulo this.
    pub locks: u32,
    /// Whether a fiber is taken off its worker wherever it is, when its running time is over and another waits; else only where it comes to a point.
    pub preemptible: bool,
    /// What the library takes for it, in the simulator.
    pub costs: FiberCosts,
}

/// What a library of fibers takes for what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FiberCosts {
    /// To make a fiber, to begin it, to end it and to join it.
    pub create: Span,
    /// To go on with a fiber that has run before.
    pub switch: Span,
    /// To take a lock and give it back.
    pub lock: Span,
}

impl Default for FiberCosts {
    /// As `rowlock-fiber` was measured.
    fn default() -> FiberCosts {
        FiberCosts { create: Span::from_nanos(45), switch: Span::from_nanos(14), lock: Span::from_nanos(2) }
    }
}

/// Fibers that do the same: so many bursts each. A burst is a computation, and one with a lock where there is such.
#[derive(Clone, Debug, PartialEq)]
pub struct FiberGroup {
    /// Its name.
    pub name: String,
    /// How many fibers it has, at least one.
    pub fibers: u32,
    /// How many bursts each of them has, at least one.
    pub bursts: u32,
    /// The time of a burst's computation.
    pub compute: Distribution,
    /// What of a burst is computed with a lock, if anything: after the other.
    pub critical: Option<Distribution>,
    /// How often a fiber looks, while it computes, whether it may go on: whenever it has computed for so long. Never without it.
    pub checkpoint: Option<Span>,
    /// How long it sleeps between two bursts. Without it, it yields.
    pub think: Option<Distribution>,
    /// Every N-th joins its predecessor in the group, when its own bursts are over.
    pub join_every: Option<u32>,
}

/// Bursts of a group are all timed if they are as long as this on the average: then reading a clock is nothing beside them.
const LONG: f64 = 5_000.0;

/// Of shorter ones, those of every N-th fiber.
const SAMPLED: u32 = 16;

impl Fibers {
    /// How many fibers there are besides the first.
    pub fn fibers(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.fibers)).sum()
    }

    /// How many bursts all of them have together.
    pub fn bursts(&self) -> u64 {
        self.groups.iter().map(FiberGroup::all_bursts).fold(0, u64::saturating_add)
    }

    /// The mean time that all bursts together take, sleep included, in nanoseconds.
    pub(crate) fn mean(&self) -> f64 {
        let think = |group: &FiberGroup| group.think.as_ref().map_or(0.0, Distribution::mean);
        self.groups.iter().map(|group| group.all_bursts() as f64 * (group.mean_of_a_burst() + think(group))).sum()
    }
}

impl FiberGroup {
    /// How many bursts its fibers have together.
    pub fn all_bursts(&self) -> u64 {
        u64::from(self.fibers) * u64::from(self.bursts)
    }

    fn mean_of_a_burst(&self) -> f64 {
        self.compute.mean() + self.critical.as_ref().map_or(0.0, Distribution::mean)
    }

    /// The name of its fibers' random numbers in a job of this name. Each has its own, by its number in the group.
    pub fn stream_name(&self, job: &str) -> String {
        format!("fibers {} of {job}", self.name)
    }

    /// What its fibers do, with what they need to draw it.
    pub fn program(&self, job: &str) -> FiberProgram {
        FiberProgram {
            group: self.name.clone(),
            fibers: self.fibers,
            bursts: self.bursts,
            stream: self.stream_name(job),
            compute: self.compute.law(),
            critical: self.critical.as_ref().map(Distribution::law),
            checkpoint: self.checkpoint,
            think: self.think.as_ref().map(Distribution::law),
            join_every: self.join_every,
            timed_every: if self.mean_of_a_burst() < LONG { SAMPLED } else { 1 },
        }
    }
}

/// What the fibers of a group do, as a world carries it out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FiberProgram {
    /// The group's name.
    pub group: String,
    /// How many fibers there are.
    pub fibers: u32,
    /// How many bursts each of them has.
    pub bursts: u32,
    /// The name of their random numbers.
    pub stream: String,
    /// What a burst's computation is drawn by.
    pub compute: Law,
    /// What its part with the lock is drawn by.
    pub critical: Option<Law>,
    /// How long a fiber computes between two looks.
    pub checkpoint: Option<Span>,
    /// What the sleep after it is drawn by.
    pub think: Option<Law>,
    /// Every N-th joins its predecessor.
    pub join_every: Option<u32>,
    /// The bursts of every N-th are timed.
    pub timed_every: u32,
}

/// One burst of a fiber, and the sleep after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// How long it computes without the lock.
    pub compute: Span,
    /// How long with it, if it takes it.
    pub critical: Option<Span>,
    /// How long it sleeps then, if it does and if another burst follows.
    pub think: Option<Span>,
}

impl FiberProgram {
    /// Whether the fiber of this number in its group joins the one before it.
    pub fn joins(&self, number: u32) -> bool {
        number > 0 && self.join_every.is_some_and(|every| (number + 1).is_multiple_of(every))
    }

    /// Whether the bursts of the fiber of this number are timed.
    pub fn is_timed(&self, number: u32) -> bool {
        number.is_multiple_of(self.timed_every.max(1))
    }

    /// The random numbers of the fiber of this number.
    pub fn stream(&self, seed: u64, number: u32) -> Stream {
        Stream::named(seed, &self.stream, number)
    }

    /// Draws the next burst of a fiber from its random numbers.
    pub fn burst(&self, stream: &mut Stream, step: Span) -> Burst {
        let compute = self.compute.draw(stream, step);
        let critical = self.critical.as_ref().map(|law| law.draw(stream, step));
        let think = self.think.as_ref().map(|law| law.draw(stream, step));
        Burst { compute, critical, think }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> FiberGroup {
        FiberGroup {
            name: "all".into(),
            fibers: 40,
            bursts: 2,
            compute: Distribution::exactly(Span::from_micros(1)),
            critical: None,
            checkpoint: None,
            think: None,
            join_every: Some(16),
        }
    }

    #[test]
    fn every_so_manieth_fiber_joins_its_predecessor_and_the_first_has_none() {
        let joiners = |join_every| {
            let program = FiberGroup { join_every, ..group() }.program("job");
            (0..40).filter(|&number| program.joins(number)).collect::<Vec<_>>()
        };
        assert_eq!(joiners(Some(16)), [15, 31]);
        assert_eq!(joiners(Some(1)), (1..40).collect::<Vec<_>>());
        assert!(joiners(None).is_empty());
    }

    #[test]
    fn all_long_bursts_are_timed_and_a_sample_of_short_ones() {
        let timed = |micros| {
            let compute = Distribution::exactly(Span::from_micros(micros));
            let program = FiberGroup { compute, ..group() }.program("job");
            (0..40).filter(|&number| program.is_timed(number)).count()
        };
        assert_eq!((timed(5), timed(4)), (40, 3));
    }

    #[test]
    fn a_fiber_draws_the_same_whatever_the_others_do() {
        let think = Some(Distribution::Exponential { mean: Span::from_micros(9) });
        let program = FiberGroup { critical: think.clone(), think, ..group() }.program("job");
        let draw = |number| {
            let mut stream = program.stream(7, number);
            [(); 3].map(|()| program.burst(&mut stream, Span::from_nanos(1)))
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }
}
