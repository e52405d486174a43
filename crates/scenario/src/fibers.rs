//! A program of fibers: user-level threads under a feedback queue, what each of them does, and its
//! random numbers.

use policy::Span;
use policy::feedback::FeedbackRules;
use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
use crate::draw::{Law, Stream};

/// A program of fibers. Its first fiber creates the others, group by group, and joins all that no
/// other fiber joins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fibers {
    /// The groups of fibers that do the same, at least one; their names are unique.
    pub groups: Vec<FiberGroup>,
    /// The number of kernel threads that run them, at least one.
    pub workers: u32,
    /// The feedback queue that they use.
    pub rules: FeedbackRules,
    /// The number of locks, at least one: fiber number i of the job acquires number i modulo this.
    pub locks: u32,
    /// Whether a fiber whose running time is over may be preempted anywhere while another is ready,
    /// or only at a safepoint.
    pub preemptible: bool,
    /// The costs of the library in the simulator.
    pub costs: FiberCosts,
}

/// The costs of a fiber library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FiberCosts {
    /// To create, start, end and join a fiber.
    pub create: Span,
    /// To resume a fiber that has run before.
    pub switch: Span,
    /// To acquire and release a lock.
    pub lock: Span,
}

impl Default for FiberCosts {
    /// As measured with `rowlock-fiber`.
    fn default() -> FiberCosts {
        FiberCosts { create: Span::from_nanos(45), switch: Span::from_nanos(14), lock: Span::from_nanos(2) }
    }
}

/// A group of fibers that do the same: each runs a number of bursts. A burst is a computation,
/// followed by one with a lock if the group uses locks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FiberGroup {
    /// Its name.
    pub name: String,
    /// The number of fibers, at least one.
    pub fibers: u32,
    /// The number of bursts of each fiber, at least one.
    pub bursts: u32,
    /// The time of a burst's computation.
    pub compute: Distribution,
    /// The time that a burst then computes with a lock, if it does.
    pub critical: Option<Distribution>,
    /// How long a fiber computes between two checks whether it may continue. It never checks
    /// without it.
    pub checkpoint: Option<Span>,
    /// How long it sleeps between two bursts. Without it, it yields.
    pub think: Option<Distribution>,
    /// Every N-th joins its predecessor in the group, after its own bursts.
    pub join_every: Option<u32>,
}

/// All bursts of a group are timed if their mean is at least this: then the time to read a clock is
/// negligible.
const LONG: f64 = 5_000.0;

/// Of shorter bursts, only those of every N-th fiber are timed.
const SAMPLED: u32 = 16;

impl Fibers {
    /// The number of fibers besides the first.
    pub fn fibers(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.fibers)).sum()
    }

    /// The number of bursts of all fibers together.
    pub fn bursts(&self) -> u64 {
        self.groups.iter().map(FiberGroup::all_bursts).fold(0, u64::saturating_add)
    }

    /// The mean time of all bursts together, including sleep, in nanoseconds.
    pub(crate) fn mean(&self) -> f64 {
        let think = |group: &FiberGroup| group.think.as_ref().map_or(0.0, Distribution::mean);
        self.groups.iter().map(|group| group.all_bursts() as f64 * (group.mean_of_a_burst() + think(group))).sum()
    }
}

impl FiberGroup {
    /// The number of bursts of its fibers together.
    pub fn all_bursts(&self) -> u64 {
        u64::from(self.fibers) * u64::from(self.bursts)
    }

    fn mean_of_a_burst(&self) -> f64 {
        self.compute.mean() + self.critical.as_ref().map_or(0.0, Distribution::mean)
    }

    /// The name of its fibers' random streams in a job of this name. Each fiber has its own, by its
    /// number in the group.
    pub fn stream_name(&self, job: &str) -> String {
        format!("fibers {} of {job}", self.name)
    }

    /// The executable form: what its fibers do, and how to draw it.
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

/// The behaviour of a group's fibers, as a world executes it.
#[derive(Clone, Debug, PartialEq)]
pub struct FiberProgram {
    /// The group's name.
    pub group: String,
    /// The number of fibers.
    pub fibers: u32,
    /// The number of bursts of each fiber.
    pub bursts: u32,
    /// The name of their random streams.
    pub stream: String,
    /// The law of a burst's computation.
    pub compute: Law,
    /// The law of its part with the lock.
    pub critical: Option<Law>,
    /// How long a fiber computes between two checks.
    pub checkpoint: Option<Span>,
    /// The law of the sleep after it.
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
    /// How long with it, if it acquires it.
    pub critical: Option<Span>,
    /// How long it sleeps then, if it does and another burst follows.
    pub think: Option<Span>,
}

impl FiberProgram {
    /// Whether the fiber of this number in its group joins its predecessor.
    pub fn joins(&self, number: u32) -> bool {
        number > 0 && self.join_every.is_some_and(|every| (number + 1).is_multiple_of(every))
    }

    /// Whether the bursts of the fiber of this number are timed.
    pub fn is_timed(&self, number: u32) -> bool {
        number.is_multiple_of(self.timed_every.max(1))
    }

    /// The random stream of the fiber of this number.
    pub fn stream(&self, seed: u64, number: u32) -> Stream {
        Stream::named(seed, &self.stream, number)
    }

    /// Draws the next burst of a fiber from its random stream.
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
    fn every_nth_fiber_joins_its_predecessor_and_the_first_has_none() {
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
    fn the_draws_of_a_fiber_do_not_depend_on_other_fibers() {
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
