//! Whether a job that blocks needs turns.
//!
//! Source: our own. A job that polls for a while and then blocks seldom has to block if its
//! siblings run at the same time. But beside jobs that spin or poll they often do not, so it polls
//! in vain, blocks, and looks like a job that sleeps or waits for input. Measured on two CPUs: two
//! teams of two threads that meet every 20 us and poll for 50 us do 0.28 of the work of one if they
//! take no turns. In a second of running time they block 13000 times without turns. In turns, they
//! block 70 to 13000 times in an interval, and 3000 to 5000 times in the mean: other programs and
//! interrupts delay one thread, the other one blocks, and then both may be on the same CPU for a
//! while. A thread that computes and sleeps blocks 22400 and 21400 times.
//!
//! So it is tried. A job that blocks takes turns for several intervals. The first one may have
//! begun without them, so it does not count; the others do, all together. The job keeps its turns
//! if it blocks less often in them and uses them: one that also sleeps may block less often as
//! well, and would leave its CPUs idle. If it leaves a turn unused, the attempt ends at once.
//! Then it is tried in the same way whether it still blocks more often without them. While the
//! outcome stays the same, attempts follow after longer and longer times.
//!
//! An unknown job takes turns, so its beginning counts as a first attempt if it has failed.
//!
//! Several such jobs must try at the same time: a job that has no others in its table runs at any
//! time, beside those without turns. So attempts begin with periods of the common clock. For the
//! same reason one that tries to do without turns makes all others block more often. So they keep
//! theirs until they have tried that as well, unless they leave a turn unused.

use super::classify::{Class, IntervalCounters, LEAST_RUNNING_TIME};
use crate::units::{Instant, Span};

/// An attempt begins only at the first look in such a period.
const PERIOD: Span = Span::from_millis(1_000);
/// The next attempt begins in a period whose number is a multiple of this, or so many periods after
/// it: attempts of both kinds at the same time would disturb each other. After each attempt the
/// multiple doubles.
const FIRST: u64 = 4;
const AFTER: [u64; 2] = [2, 0];
const LONGEST: u64 = 32;
/// So many intervals of an attempt without turns, and in turns, count. Without them, the same job
/// blocks about as often in each interval. In turns, the rates of intervals are far apart.
const COUNTED: [u8; 2] = [4, 8];
/// After an attempt without turns, and in turns, a job needs turns if it blocks at most so often in
/// them, in thousandths of how often it does without them.
const LESS_OFTEN: [u64; 2] = [800, 667];

/// The attempts to let a job that blocks take turns, or to let it do without them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnTrial {
    /// The class that was found last.
    last: Class,
    /// The number of the period of the last look.
    period: Option<u64>,
    /// The multiples of attempts without turns, and in turns.
    multiples: [u64; 2],
    stage: Stage,
    /// Whether it takes turns although it blocks in them, apart from attempts.
    keeps_turns: bool,
    /// How often it blocks without turns, and in turns.
    rates: [Rate; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// There is no attempt.
    Rest,
    /// An attempt has begun, which takes effect at the next boundary.
    Begun,
    /// It is in effect. So many intervals are still to be counted.
    InEffect(u8),
}

/// How often a job blocks in its running time. Older intervals count less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rate {
    ran: Span,
    blocks: u64,
}

impl Rate {
    /// Counts an interval. Those before count seven eighths of what they counted until now.
    fn count(&mut self, counters: &IntervalCounters) {
        self.ran = self.ran.scaled(875) + counters.ran;
        self.blocks = (self.blocks - self.blocks.div_ceil(8)).saturating_add(counters.blocks);
    }
}

impl Default for TurnTrial {
    fn default() -> TurnTrial {
        TurnTrial {
            last: Class::Unknown,
            period: None,
            multiples: [FIRST; 2],
            stage: Stage::Rest,
            keeps_turns: false,
            rates: [Rate::default(); 2],
        }
    }
}

impl TurnTrial {
    /// The class of a job at `now`, if it had the class `before` during the last interval, these
    /// counters alone say that it is of `class`, and it [has left](super::Idling::has_left_turn)
    /// its last turn or used it. A job that tries turns is unknown, and one that keeps them counts
    /// as one that spins.
    pub fn classify(
        &mut self,
        before: Class,
        class: Class,
        counters: &IntervalCounters,
        has_left_turn: bool,
        now: Instant,
    ) -> Class {
        let period = now.since(Instant::ZERO).as_nanos() / PERIOD.as_nanos();
        let is_new = self.period.replace(period).is_some_and(|last| last != period);
        let is_of_one_thread = class == Class::Computes && counters.threads <= 1;
        if before != self.last || is_of_one_thread {
            *self = TurnTrial { period: self.period, ..TurnTrial::default() };
        }
        self.last = if !counters.is_telling() {
            if self.stage == Stage::Rest { self.usual(class) } else { before }
        } else {
            // A job that hardly runs would gain nothing.
            let has_run = counters.ran.as_nanos() >= LEAST_RUNNING_TIME.as_nanos();
            let in_turns = usize::from(!self.keeps_turns);
            let is_time = is_new && period % self.multiples[in_turns] == AFTER[in_turns];
            let may_begin = is_time && has_run && counters.threads > 1;
            self.classify_interval(before, class, counters, has_left_turn, may_begin)
        };
        self.last
    }

    fn classify_interval(
        &mut self,
        before: Class,
        class: Class,
        counters: &IntervalCounters,
        has_left_turn: bool,
        may_begin: bool,
    ) -> Class {
        let had_turns = matches!(before, Class::Unknown | Class::Spins);
        let has_left_turn = had_turns && has_left_turn;
        let is_first_without = !had_turns && self.rates[0].ran.is_zero();
        if self.stage != Stage::Begun {
            self.rates[usize::from(had_turns)].count(counters);
        }
        match self.stage {
            Stage::Begun if !has_left_turn => {
                self.stage = Stage::InEffect(COUNTED[usize::from(had_turns)]);
                self.rates[usize::from(had_turns)] = Rate::default();
                return before;
            }
            Stage::InEffect(left) if left > 1 && !has_left_turn => {
                self.stage = Stage::InEffect(left - 1);
                return before;
            }
            Stage::Begun | Stage::InEffect(_) => {
                self.stage = Stage::Rest;
                self.keeps_turns = self.blocks_less(LESS_OFTEN[usize::from(had_turns)]) && !has_left_turn;
                let multiple = &mut self.multiples[usize::from(had_turns)];
                *multiple = (*multiple * 2).min(LONGEST);
                if self.keeps_turns {
                    self.multiples[usize::from(!had_turns)] = FIRST;
                }
            }
            Stage::Rest => {
                self.keeps_turns &= !has_left_turn;
                if is_first_without && !self.blocks_less(LESS_OFTEN[1]) {
                    self.multiples[1] = self.multiples[1].max(2 * FIRST);
                }
                let waits = class == Class::Blocks || self.keeps_turns && class == Class::Computes;
                if may_begin && waits && had_turns == self.keeps_turns {
                    self.stage = Stage::Begun;
                    return if self.keeps_turns { Class::Blocks } else { Class::Unknown };
                }
            }
        }
        self.usual(class)
    }

    /// Whether the job blocks at most so often in its turns, in thousandths, as without them.
    fn blocks_less(&self, thousandths: u64) -> bool {
        let [without, with] = self.rates;
        let times = |blocks: u64, ran: Span| u128::from(blocks) * u128::from(ran.as_nanos());
        times(with.blocks, without.ran) <= times(without.blocks, with.ran) / 1_000 * u128::from(thousandths)
    }

    /// The class of a job without an attempt.
    const fn usual(&self, class: Class) -> Class {
        match class {
            Class::Blocks | Class::Computes if self.keeps_turns => Class::Spins,
            class => class,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::classify::classify;
    use super::*;
    use Class::{Blocks, Computes, Spins, Unknown};

    /// Two threads in an interval of 100 ms in which they have run for so long and blocked so
    /// often.
    fn counters(millis: u64, blocks: u64) -> IntervalCounters {
        let ran = Span::from_millis(millis);
        IntervalCounters { ran, spun: ran, blocks, threads: 2 }
    }

    fn takes_turns(class: Class) -> bool {
        matches!(class, Unknown | Spins)
    }

    /// A job that is looked at every 100 ms.
    struct Job {
        trial: TurnTrial,
        class: Class,
        has_left_turn: bool,
        now: Instant,
    }

    impl Job {
        fn new(begin: Span) -> Job {
            Job { trial: TurnTrial::default(), class: Unknown, has_left_turn: false, now: Instant::ZERO + begin }
        }

        fn look(&mut self, counters: &IntervalCounters) -> Class {
            let of_counters = classify(self.class, counters);
            self.class = self.trial.classify(self.class, of_counters, counters, self.has_left_turn, self.now);
            self.now = self.now + Span::from_millis(100);
            self.class
        }
    }

    /// The classes of a job, and when it got them, in tenths of a second.
    fn changes(looks: u64, interval: impl Fn(u64, Class) -> IntervalCounters) -> Vec<(u64, Class)> {
        let mut job = Job::new(Span::ZERO);
        let mut found = Vec::new();
        for look in 0..looks {
            let before = job.class;
            let class = job.look(&interval(look, before));
            found.extend((class != before).then_some((look, class)));
        }
        found
    }

    /// When attempts begin: with turns if the class is unknown, and without them if it blocks.
    fn attempts(changes: &[(u64, Class)], class: Class) -> Vec<u64> {
        changes.iter().filter(|change| change.1 == class).map(|change| change.0).collect()
    }

    #[test]
    fn the_first_attempt_follows_later_if_the_job_blocked_as_often_when_it_was_unknown() {
        for (unknown, expected) in [(66, 40), (67, 80), (200, 80)] {
            let found = changes(100, |look, _| counters(100, if look == 0 { unknown } else { 100 }));
            assert_eq!(attempts(&found, Unknown)[0], expected, "{unknown}");
        }
    }

    #[test]
    fn a_job_that_blocks_less_often_in_turns_keeps_them_but_for_rarer_and_rarer_attempts() {
        for (in_turn, without) in [(0, 100), (66, 100), (5, 30)] {
            let interval = |_, class| counters(100, if takes_turns(class) { in_turn } else { without });
            let found =
                changes(700, |look, class| if look == 0 { counters(100, without / 2) } else { interval(look, class) });
            assert_eq!(found[..3], [(0, Blocks), (40, Unknown), (49, Spins)], "{in_turn} {without}");
            // A job that hardly blocks is not tried without turns.
            let expected: &[_] = if in_turn <= 10 { &[0] } else { &[0, 60, 100, 180, 340, 660] };
            assert_eq!(attempts(&found, Blocks), expected, "{in_turn} {without}");
            let ends = attempts(&found, Spins);
            assert!(ends[1..].iter().eq(expected[1..].iter().map(|begin| begin + 5).collect::<Vec<_>>().iter()));
        }
    }

    #[test]
    fn a_job_that_blocks_as_often_in_turns_tries_them_more_and_more_rarely() {
        for (in_turn, without) in [(30, 30), (67, 100), (100, 30)] {
            let found = changes(700, |_, class| counters(100, if takes_turns(class) { in_turn } else { without }));
            let begun = attempts(&found, Unknown);
            assert_eq!(begun, [80, 160, 320, 640]);
            let ends = attempts(&found, Blocks);
            assert!(ends[1..].iter().eq(begun.iter().map(|begin| begin + 9).collect::<Vec<_>>().iter()));
        }
    }

    #[test]
    fn a_job_that_blocks_often_in_its_turns_keeps_them_until_an_attempt_without_them() {
        let interval = |look, class| match look {
            0 => counters(100, 50),
            _ if takes_turns(class) => counters(100, if look < 55 { 30 } else { 200 }),
            _ => counters(100, 100),
        };
        let found = changes(120, interval);
        assert_eq!(found, [(0, Blocks), (40, Unknown), (49, Spins), (60, Blocks), (80, Unknown), (89, Blocks)]);
    }

    #[test]
    fn a_few_intervals_that_are_unlike_the_others_decide_no_attempt() {
        let interval = |look, class| match look {
            42..45 | 62 => counters(100, if takes_turns(class) { 130 } else { 10 }),
            _ => counters(100, if takes_turns(class) { 30 } else { 100 }),
        };
        assert_eq!(changes(80, interval), [(0, Blocks), (40, Unknown), (49, Spins), (60, Blocks), (65, Spins)]);
    }

    #[test]
    fn a_job_that_hardly_waits_in_its_turns_keeps_them_until_it_has_one_thread() {
        // One of two threads waits so often that it does not count as one that spins.
        let in_turn = |threads| IntervalCounters { threads, spun: Span::ZERO, ..counters(100, 4) };
        let interval = |look, class| match look {
            0 => counters(100, 50),
            55 => in_turn(1),
            _ if takes_turns(class) => in_turn(2),
            _ => counters(100, 100),
        };
        assert_eq!(changes(60, interval), [(0, Blocks), (40, Unknown), (49, Spins), (55, Computes), (56, Blocks)]);
    }

    #[test]
    fn a_job_that_leaves_its_turns_unused_loses_them_again_and_tries_them_more_and_more_rarely() {
        // It blocks less often in turns, and leaves its last turn unused after so many looks.
        for turns in [1, 2, 5] {
            let mut job = Job::new(Span::ZERO);
            let (mut begun, mut in_turns) = (Vec::new(), 0);
            for look in 0..700 {
                let before = job.class;
                in_turns = if takes_turns(before) && look > 0 { in_turns + 1 } else { 0 };
                job.has_left_turn = in_turns >= turns;
                job.look(&counters(100, if in_turns > 0 || look == 0 { 30 } else { 100 }));
                begun.extend((job.class == Unknown).then_some(look).filter(|_| before == Blocks));
                assert!(in_turns <= turns, "{turns}");
            }
            assert_eq!(begun, [40, 80, 160, 320, 640], "{turns}");
        }
    }

    #[test]
    fn a_job_of_one_thread_or_that_hardly_runs_tries_nothing() {
        for interval in [IntervalCounters { threads: 1, ..counters(100, 30) }, counters(19, 30)] {
            assert_eq!(changes(200, |_, _| interval), [(0, Blocks)], "{interval:?}");
        }
    }

    #[test]
    fn an_interval_in_which_the_job_hardly_runs_does_not_count_as_one_with_turns() {
        let interval = |look, _| match look {
            0 => counters(100, 15),
            1..=40 => counters(100, 30),
            41..=45 | 47..=48 => counters(10, 4),
            _ => counters(100, 0),
        };
        assert_eq!(changes(60, interval), [(0, Blocks), (40, Unknown), (56, Spins)]);
    }

    #[test]
    fn jobs_that_poll_for_a_while_take_turns_together_though_they_are_looked_at_at_different_times() {
        for delay in 0..100 {
            let mut jobs = [0, delay].map(|delay| Job::new(Span::from_millis(delay)));
            for _ in 0..60 {
                // Each one blocks, unless both take turns.
                let counters_now = |jobs: &[Job; 2]| match jobs.iter().all(|job| takes_turns(job.class)) {
                    true => counters(100, 0),
                    false => counters(100, 100),
                };
                // The class during most of the interval is that before both looks.
                let seen = if jobs[0].now == Instant::ZERO { counters(100, 50) } else { counters_now(&jobs) };
                jobs[0].look(&seen);
                jobs[1].look(&seen);
            }
            assert_eq!([jobs[0].class, jobs[1].class], [Spins; 2], "{delay} ms");
        }
    }

    #[test]
    fn an_attempt_ends_if_the_class_is_changed_from_elsewhere() {
        let mut trial = TurnTrial::default();
        let at = |millis| Instant::ZERO + Span::from_millis(millis);
        trial.classify(Blocks, Blocks, &counters(100, 30), false, at(3_900));
        assert_eq!(trial.classify(Blocks, Blocks, &counters(100, 30), false, at(4_000)), Unknown);
        assert_eq!(trial.classify(Blocks, Blocks, &counters(100, 30), false, at(4_100)), Blocks);
        assert_eq!(trial.classify(Blocks, Blocks, &counters(100, 30), false, at(5_000)), Blocks);
        assert_eq!(trial.classify(Blocks, Blocks, &counters(100, 30), false, at(8_000)), Unknown);
        assert_eq!(trial.classify(Computes, Computes, &counters(100, 0), false, at(8_100)), Computes);
        assert_eq!(trial.classify(Computes, Computes, &counters(100, 0), false, at(8_200)), Computes);
    }

    proptest! {
        #[test]
        fn whatever_is_counted_only_a_job_that_blocks_tries_or_keeps_turns(
            intervals in prop::collection::vec((0..120_u64, 0..30_u64, 0..4_usize, any::<bool>(), 0..3_000_u64), 0..60),
        ) {
            let (mut trial, mut class, mut now, mut has_blocked) =
                (TurnTrial::default(), Unknown, Instant::ZERO, false);
            for (millis, blocks, threads, has_left_turn, gap) in intervals {
                let counters = IntervalCounters { threads, ..counters(millis, blocks) };
                let of_counters = classify(class, &counters);
                now = now + Span::from_millis(gap);
                class = trial.classify(class, of_counters, &counters, has_left_turn, now);
                has_blocked = (has_blocked || of_counters == Blocks) && of_counters != Computes;
                let is_explained = class == of_counters || has_blocked && class != Computes;
                prop_assert!(is_explained, "{:?} {:?}", class, of_counters);
                prop_assert!(trial.multiples.iter().all(|multiple| (1..=LONGEST).contains(multiple)));
            }
        }
    }
}
