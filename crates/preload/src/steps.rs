//! A wait with inverted control: the polling loop belongs to other code, which reports after each
//! unsuccessful poll.
//!
//! The loop of the crate `wait` consults the rule, follows its decision, and polls. Here the
//! waiting code polls by itself, and calls [`Steps::step`] after each poll, which executes a part
//! of the decision of the rule and returns soon. For a spin, it only checks whether its time is
//! over; otherwise it yields or sleeps once, since no thread wakes a sleeper here. The caller
//! reports by [`Steps::finish`] that the event has come.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use counters::WaitCounts;
use policy::waiting::{Decision, Missing, Observation, Running, Team, TeamState, Waiter};
use policy::{CpuId, Instant, Span, ThreadId};
use wait::Statistics;
use wait::turn::Turn;

use crate::backoff::Backoff;
use crate::ranks::Ranks;

/// The maximum time charged for a poll: a longer one was preempted.
const LONGEST_POLL: Span = Span::from_micros(5);

/// The successive waits of one thread.
pub(crate) struct Steps {
    waiter: Waiter,
    activity: Activity,
    /// The time when it last left this module.
    left: Instant,
    backoff: Backoff,
    /// Of the current wait.
    statistics: Statistics,
}

/// The current activity of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    /// It does not wait.
    Idle,
    Spinning {
        limit: Span,
        spent: Span,
    },
    /// It has executed a decision, with this observation.
    Executed(Observation),
}

/// The operations of a waiting thread.
pub(crate) trait Platform {
    /// The current time.
    fn now(&self) -> Instant;
    /// The current CPU.
    fn cpu(&self) -> CpuId;
    /// Yields the CPU once.
    fn yield_now(&self);
    /// Sleeps: out of its turn until that may have come.
    fn sleep(&self, backoff: &mut Backoff);
    /// Whose turn it is at `now`.
    fn turn(&self, now: Instant) -> Turn;
}

impl Steps {
    pub(crate) fn new(waiter: Waiter) -> Steps {
        let (backoff, statistics) = (Backoff::new(), Statistics::default());
        Steps { waiter, activity: Activity::Idle, left: Instant::ZERO, backoff, statistics }
    }

    /// The time when the thread was last here.
    #[inline]
    pub(crate) fn left(&self) -> Instant {
        self.left
    }

    /// Reports an unsuccessful poll. The wait begins, if none is in progress. `now` is the time
    /// when the poll began: the time until then is charged to the previous poll, and the action
    /// taken here is charged as a poll.
    pub(crate) fn step(&mut self, now: Instant, platform: &impl Platform, ranks: Ranks, state: &AtomicU64) {
        let turn = platform.turn(now);
        let seen = match self.activity {
            Activity::Idle => Observation::Arrived,
            Activity::Executed(seen) => seen,
            Activity::Spinning { limit, spent } => {
                let spent = spent + now.since(self.left).min(LONGEST_POLL);
                if spent < limit && !turn.is_others() {
                    self.activity = Activity::Spinning { limit, spent };
                    self.left = now;
                    return;
                }
                self.statistics.spin_time += spent;
                Observation::Spun(spent)
            }
        };
        // It is unknown who is missing. If there are more ranks than CPUs, one of them may well
        // wait for this CPU.
        let missing = [Missing { thread: ThreadId(1), last_seen: Some(platform.cpu()) }];
        let team = Team {
            now,
            threads: ranks.here,
            round: 0,
            cpus: ranks.cpus,
            own_cpu: platform.cpu(),
            missing: if ranks.are_oversubscribed() { &missing } else { &[] },
            load: ranks.here,
            movable: false,
            draw: (now.as_nanos() as u32).wrapping_mul(0x9e37_79b9),
            turn,
        };
        let mut decision = with(state, |state| self.waiter.step(&team, state, seen));
        if decision == Decision::CheckRunning {
            // In a crowd the one that can go on may well wait for this CPU.
            let running = if ranks.are_oversubscribed() { Running::NotAll } else { Running::Unknown };
            decision = with(state, |state| self.waiter.step(&team, state, Observation::Checked(running)));
        }
        self.left = now;
        self.activity = match decision {
            Decision::Spin(limit) => {
                self.statistics.spins = 1;
                Activity::Spinning { limit, spent: Span::ZERO }
            }
            Decision::Yield => {
                platform.yield_now();
                self.left = platform.now();
                self.statistics.yields += 1;
                Activity::Executed(Observation::Yielded(self.left.since(now)))
            }
            Decision::Block => {
                platform.sleep(&mut self.backoff);
                self.left = platform.now();
                self.statistics.blocks += 1;
                self.statistics.block_time += self.left.since(now);
                Activity::Executed(Observation::Woken)
            }
            Decision::Move(_) => Activity::Executed(Observation::Moved),
            // No rule checks twice in a row.
            Decision::CheckRunning => Activity::Executed(Observation::Checked(Running::Unknown)),
        };
    }

    /// Reports that the event has come or that the thread no longer waits. Does nothing if no wait
    /// is in progress.
    pub(crate) fn finish(&mut self, now: Instant, state: &AtomicU64, counts: &WaitCounts) {
        let seen = match std::mem::replace(&mut self.activity, Activity::Idle) {
            Activity::Idle => return,
            Activity::Executed(seen) => seen,
            Activity::Spinning { spent, .. } => {
                self.statistics.successful_spins = 1;
                self.statistics.spin_time += spent;
                Observation::Spun(spent)
            }
        };
        let overload_marks = self.waiter.overload_marks();
        with(state, |state| self.waiter.over(now, state, seen));
        self.statistics.overload_marks = self.waiter.overload_marks().wrapping_sub(overload_marks).into();
        counts.count_wait();
        counts.counters.merge(&std::mem::take(&mut self.statistics));
        self.backoff = Backoff::new();
    }
}

/// Reads the memory of the rule and stores its changes.
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

    use policy::waiting::{Costs, WaitingRule};

    use super::*;

    const NANOS: u64 = 1_000;
    const ALONE: Ranks = Ranks { here: 2, cpus: 2 };
    const CROWDED: Ranks = Ranks { here: 4, cpus: 2 };

    /// A platform on which each reading of the clock takes a microsecond.
    #[derive(Default)]
    struct FakePlatform {
        now: Cell<u64>,
        yields: Cell<u64>,
        sleeps: Cell<u64>,
        turn: Cell<Turn>,
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

        fn turn(&self, _: Instant) -> Turn {
            self.turn.get()
        }
    }

    /// Polls this many times without success, and returns the numbers of yields and sleeps, and the
    /// statistics at the end.
    fn polls(rule: &str, ranks: Ranks, times: u32) -> (u64, u64, Statistics) {
        let costs = Costs { cs: Span::from_micros(10), margin: Span::ZERO, lone_yield: Span::ZERO, tick: Span::ZERO };
        let (platform, state, statistics) =
            (FakePlatform::default(), AtomicU64::new(0), counters::ProcessStatistics::new());
        let counts = statistics.counts(counters::WaitKind::Yield, 0);
        let mut steps = Steps::new(rule.parse::<WaitingRule>().unwrap().waiter(costs));
        for _ in 0..times {
            steps.step(platform.now(), &platform, ranks, &state);
        }
        steps.finish(platform.now(), &state, counts);
        // It counts once.
        steps.finish(platform.now(), &state, counts);
        let mut sum = Statistics::default();
        counts.counters.add_to(&mut sum);
        (platform.yields.get(), platform.sleeps.get(), sum)
    }

    #[test]
    fn a_spin_lasts_several_polls_and_is_followed_by_the_next_decision() {
        let (yields, sleeps, sum) = polls("cs", ALONE, 5);
        assert_eq!((yields, sleeps, sum.spins, sum.successful_spins, sum.blocks), (0, 0, 1, 1, 0));
        let (yields, sleeps, sum) = polls("cs", ALONE, 14);
        assert_eq!((yields, sleeps, sum.spins, sum.successful_spins, sum.blocks), (0, 4, 1, 0, 4));
        assert!(sum.spin_time >= Span::from_micros(10));
    }

    #[test]
    fn a_poll_out_of_its_turn_sleeps_by_every_rule_and_a_spin_ends_there() {
        for rule in ["adaptive", "always-spin", "always-yield", "cs"] {
            let (platform, state) = (FakePlatform::default(), AtomicU64::new(0));
            let costs = Costs { cs: Span::from_micros(1_000), ..Costs::default() };
            let mut steps = Steps::new(rule.parse::<WaitingRule>().unwrap().waiter(costs));
            let mut sleeps = |turn| {
                platform.turn.set(turn);
                (0..3).for_each(|_| steps.step(platform.now(), &platform, ALONE, &state));
                platform.sleeps.take()
            };
            assert_eq!(sleeps(Turn::OursUntil(Instant::ZERO)), 0, "{rule}");
            assert_eq!(sleeps(Turn::OthersUntil(Instant::ZERO)), 3, "{rule}");
        }
    }

    #[test]
    fn each_poll_is_one_yield_or_one_sleep() {
        assert_eq!(polls("always-yield", ALONE, 7).0, 7);
        assert_eq!(polls("always-block", ALONE, 7).1, 7);
    }

    #[test]
    fn an_oversubscribed_rank_does_not_spin() {
        let (yields, sleeps, sum) = polls("adaptive", CROWDED, 1);
        assert_eq!((yields + sleeps, sum.spins), (1, 0));
        let (yields, sleeps, sum) = polls("adaptive", ALONE, 1);
        assert_eq!((yields + sleeps, sum.spins), (0, 1));
    }

    #[test]
    fn a_wait_that_did_not_begin_is_not_counted() {
        assert_eq!(polls("always-yield", ALONE, 0).2, Statistics::default());
    }
}
