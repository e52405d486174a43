//! A wait turned inside out: where another's loop looks, and comes by after each look in vain.
//!
//! The loop of [`wait::outlast`](wait) asks the rule, does as it says, and looks. Here whoever waits looks by itself, and calls
//! [`Steps::step`] after each look, which does a part of what the rule has decided and returns soon: of a spin nothing but to see whether its
//! time is over, a whole yield, or one nap, since nobody wakes who sleeps here. The caller says by [`Steps::is_over`] that what is awaited has come.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use counters::Tally;
use policy::waiting::{Decision, Missing, Observation, Team, TeamState, Waiter};
use policy::{CpuId, Instant, Span, ThreadId};
use wait::Statistics;

use crate::backoff::Backoff;
use crate::ranks::Ranks;

/// The most that a look is charged for: more is time off the CPU.
const LONGEST_LOOK: Span = Span::from_micros(5);

/// One thread's waits, one after the other.
pub(crate) struct Steps {
    waiter: Waiter,
    doing: Doing,
    /// When it last left this module.
    left: Instant,
    backoff: Backoff,
    /// Of the wait under way.
    statistics: Statistics,
}

/// What the thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// It does not wait.
    Nothing,
    Spins {
        limit: Span,
        spent: Span,
    },
    /// It has done as it was told, and has seen this.
    Has(Observation),
}

/// What a thread does to wait, besides looking.
pub(crate) trait Platform {
    /// The time.
    fn now(&self) -> Instant;
    /// The number of the CPU that it runs on.
    fn cpu(&self) -> CpuId;
    /// Gives way once.
    fn yield_now(&self);
    /// Sleeps.
    fn sleep(&self, backoff: &mut Backoff);
}

impl Steps {
    pub(crate) const fn new(waiter: Waiter) -> Steps {
        Steps {
            waiter,
            doing: Doing::Nothing,
            left: Instant::ZERO,
            backoff: Backoff::new(),
            statistics: Statistics {
                waits: 0,
                spins: 0,
                successful_spins: 0,
                spin_time: Span::ZERO,
                yields: 0,
                blocks: 0,
                block_time: Span::ZERO,
                moves: 0,
                strikes: 0,
            },
        }
    }

    /// When the thread was last here.
    #[inline]
    pub(crate) fn left(&self) -> Instant {
        self.left
    }

    /// The thread has looked, and what it waits for has not come. The wait begins, if none is under way. `now` is the time when it began to
    /// look: so much is charged for the look before, and what the thread does now is charged with a look.
    pub(crate) fn step(&mut self, now: Instant, platform: &impl Platform, ranks: Ranks, state: &AtomicU64) {
        let seen = match self.doing {
            Doing::Nothing => Observation::Arrived,
            Doing::Has(seen) => seen,
            Doing::Spins { limit, spent } => {
                let spent = spent + now.since(self.left).min(LONGEST_LOOK);
                if spent < limit {
                    self.doing = Doing::Spins { limit, spent };
                    self.left = now;
                    return;
                }
                self.statistics.spin_time += spent;
                Observation::Spun(spent)
            }
        };
        // Who is missing is not known. Where there are more ranks than CPUs, one of them may well wait for this CPU.
        let missing = [Missing { thread: ThreadId(1), last_seen: Some(platform.cpu()) }];
        let team = Team {
            now,
            threads: ranks.here,
            cpus: ranks.cpus,
            own_cpu: platform.cpu(),
            missing: if ranks.are_oversubscribed() { &missing } else { &[] },
            load: ranks.here,
            movable: false,
            draw: (now.as_nanos() as u32).wrapping_mul(0x9e37_79b9),
        };
        let decision = with(state, |state| self.waiter.step(&team, state, seen));
        self.left = now;
        self.doing = match decision {
            Decision::Spin(limit) => {
                self.statistics.spins = 1;
                Doing::Spins { limit, spent: Span::ZERO }
            }
            Decision::Yield => {
                platform.yield_now();
                self.left = platform.now();
                self.statistics.yields += 1;
                Doing::Has(Observation::Yielded(self.left.since(now)))
            }
            Decision::Block => {
                platform.sleep(&mut self.backoff);
                self.left = platform.now();
                self.statistics.blocks += 1;
                self.statistics.block_time += self.left.since(now);
                Doing::Has(Observation::Woken)
            }
            Decision::Move(_) => Doing::Has(Observation::Moved),
        };
    }

    /// What the thread waited for has come, or it waits no more. Nothing happens where no wait is under way.
    pub(crate) fn finish(&mut self, now: Instant, state: &AtomicU64, tally: &Tally) {
        let seen = match std::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Nothing => return,
            Doing::Has(seen) => seen,
            Doing::Spins { spent, .. } => {
                self.statistics.successful_spins = 1;
                self.statistics.spin_time += spent;
                Observation::Spun(spent)
            }
        };
        let strikes = self.waiter.strikes();
        with(state, |state| self.waiter.over(now, state, seen));
        self.statistics.strikes = self.waiter.strikes().wrapping_sub(strikes).into();
        tally.add_waits(1);
        tally.counters.merge(&std::mem::take(&mut self.statistics));
        self.backoff = Backoff::new();
    }
}

/// Reads the team's memory and writes what became of it.
fn with<R>(state: &AtomicU64, step: impl FnOnce(&mut TeamState) -> R) -> R {
    let before = TeamState(state.load(Relaxed));
    let mut after = before;
    let result = step(&mut after);
    if after != before {
        state.store(after.0, Relaxed);
    }
    result
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use policy::waiting::{Costs, Rule};

    use super::*;

    const NANOS: u64 = 1_000;
    const ALONE: Ranks = Ranks { here: 2, cpus: 2 };
    const CROWDED: Ranks = Ranks { here: 4, cpus: 2 };

    /// A world in which each reading of the clock takes a microsecond.
    #[derive(Default)]
    struct FakePlatform {
        now: Cell<u64>,
        yields: Cell<u64>,
        sleeps: Cell<u64>,
    }

    impl Platform for FakePlatform {
        fn now(&self) -> Instant {
            self.now.set(self.now.get() + NANOS);
            Instant::from_nanos(self.now.get())
        }

        fn cpu(&self) -> CpuId {
            CpuId(1)
        }

        fn yield_now(&self) {
            self.yields.set(self.yields.get() + 1);
        }

        fn sleep(&self, _: &mut Backoff) {
            self.sleeps.set(self.sleeps.get() + 1);
        }
    }

    /// Looks so often in vain, and returns how often it gave way and slept, and what was counted when it was over.
    fn looks(rule: &str, ranks: Ranks, times: u32) -> (u64, u64, Statistics) {
        let costs = Costs { cs: Span::from_micros(10), margin: Span::ZERO, lone_yield: Span::ZERO, tick: Span::ZERO };
        let (platform, state, tally) = (FakePlatform::default(), AtomicU64::new(0), counters::ProcessStatistics::new());
        let tally = tally.tally(counters::WaitKind::Yield, 0);
        let mut steps = Steps::new(rule.parse::<Rule>().unwrap().waiter(costs));
        for _ in 0..times {
            steps.step(platform.now(), &platform, ranks, &state);
        }
        steps.finish(platform.now(), &state, tally);
        // Once only.
        steps.finish(platform.now(), &state, tally);
        let mut sum = Statistics::default();
        tally.counters.add_to(&mut sum);
        (platform.yields.get(), platform.sleeps.get(), sum)
    }

    #[test]
    fn a_spin_is_so_many_looks_and_then_comes_what_the_rule_has_next() {
        let (yields, sleeps, sum) = looks("cs", ALONE, 5);
        assert_eq!((yields, sleeps, sum.spins, sum.successful_spins, sum.blocks), (0, 0, 1, 1, 0));
        let (yields, sleeps, sum) = looks("cs", ALONE, 14);
        assert_eq!((yields, sleeps, sum.spins, sum.successful_spins, sum.blocks), (0, 4, 1, 0, 4));
        assert!(sum.spin_time >= Span::from_micros(10));
    }

    #[test]
    fn each_look_is_one_yield_or_one_nap() {
        assert_eq!(looks("always-yield", ALONE, 7).0, 7);
        assert_eq!(looks("always-block", ALONE, 7).1, 7);
    }

    #[test]
    fn who_may_keep_a_sibling_from_running_does_not_spin() {
        let (yields, sleeps, sum) = looks("adaptive", CROWDED, 1);
        assert_eq!((yields + sleeps, sum.spins), (1, 0));
        let (yields, sleeps, sum) = looks("adaptive", ALONE, 1);
        assert_eq!((yields + sleeps, sum.spins), (0, 1));
    }

    #[test]
    fn what_was_not_begun_is_not_counted() {
        assert_eq!(looks("always-yield", ALONE, 0).2, Statistics::default());
    }
}
