//! Whether a job needs turns although the preloaded library does its waiting.
//!
//! Source: our own. The library spins for a bounded time, then blocks. In its turns such a job
//! hardly blocks, so it looks like one that spins by itself. But without turns it leaves its CPUs
//! to others while it waits, and then all jobs together do more: teams of two threads that meet at
//! a barrier every 0.5, 5, 20 and 200 us do 2.5, 1.7, 1.6 and 1.4 times as much as in turns (two
//! teams on two CPUs).
//!
//! A count of waits does not tell whether a program spins by itself as well. So that is tried: a
//! job that waits often is left alone for an interval. The number of its waits in a second of
//! running time says how much it gets done with the CPUs that it has. If it falls, the program
//! spins in vain between its waits, and takes turns again. The next attempts follow after longer
//! and longer times.
//!
//! A deviation from [`classify_threads`], which needs no memory: an attempt is judged by what the
//! job did in its turns.

use super::classify::{Class, IntervalCounters, LEAST_RUNNING_TIME};
use super::evidence::{ThreadCounters, classify_threads};

/// A job waits often if it waits more than so many times in a second of running time.
const OFTEN: u64 = 1_000;
/// Without turns it must wait at least for this part of the times in its turns, in thousandths. Two
/// jobs that spin, bound to the same two CPUs, do 490 together.
const AS_OFTEN: u64 = 750;
/// So many intervals in its turns precede an attempt: the first one may be the start of a program.
const FIRST_PAUSE: u32 = 2;
/// So many intervals in its turns follow the first attempt that fails, and then twice as many each
/// time.
const SECOND_PAUSE: u32 = 8;
const LONGEST_PAUSE: u32 = 128;

/// The waits of a job that the preloaded library counts, and the attempts to leave it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LibraryWaits {
    /// The most waits in a second of running time in the last two intervals with turns.
    with_turns: u64,
    /// Those of the last one.
    last: u64,
    /// After how many intervals with turns it is left alone.
    pause: u32,
    next_pause: u32,
    /// It is left alone, though it looks like a job that spins in its turns.
    is_left_alone: bool,
}

impl Default for LibraryWaits {
    fn default() -> LibraryWaits {
        LibraryWaits { with_turns: 0, last: 0, pause: FIRST_PAUSE, next_pause: SECOND_PAUSE, is_left_alone: false }
    }
}

impl LibraryWaits {
    /// Whether the job is left alone, though it looks like one that spins in its turns.
    pub const fn is_left_alone(&self) -> bool {
        self.is_left_alone
    }

    /// Classifies a job as [`classify_threads`] does, also by its waits in the interval. A job that
    /// is left alone because of them counts as one that blocks.
    pub fn classify(&mut self, before: Class, threads: &[ThreadCounters], waits: u64) -> Class {
        let class = classify_threads(before, threads);
        let ran = IntervalCounters::of_threads(threads).ran.as_nanos();
        if ran < LEAST_RUNNING_TIME.as_nanos() {
            return class;
        }
        let rate = (u128::from(waits) * 1_000_000_000 / u128::from(ran)).try_into().unwrap_or(u64::MAX);
        if matches!(before, Class::Unknown | Class::Spins) {
            self.classify_with_turns(class, rate)
        } else if !self.is_left_alone {
            class
        } else if u128::from(rate) * 1_000 < u128::from(self.with_turns) * u128::from(AS_OFTEN) {
            *self = LibraryWaits {
                pause: self.next_pause,
                next_pause: self.next_pause.saturating_mul(2).min(LONGEST_PAUSE),
                ..LibraryWaits::default()
            };
            Class::Spins
        } else if class == Class::Spins {
            Class::Blocks
        } else {
            class
        }
    }

    fn classify_with_turns(&mut self, class: Class, rate: u64) -> Class {
        let before = std::mem::replace(&mut self.last, rate);
        self.with_turns = rate.max(before);
        self.pause = self.pause.saturating_sub(1);
        self.is_left_alone = class == Class::Spins && self.pause == 0 && rate.min(before) > OFTEN;
        if self.is_left_alone { Class::Blocks } else { class }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::units::Span;
    use Class::{Blocks, Computes, Spins, Unknown};

    /// The work of a job of two threads in an interval: for how many milliseconds each one ran, how
    /// often each one blocked, and how often both waited by the library.
    type Interval = (u64, u64, u64);

    /// The classes of an unknown job after each of these intervals.
    fn classes(job: &mut LibraryWaits, intervals: impl IntoIterator<Item = Interval>) -> Vec<Class> {
        let mut class = Unknown;
        let classify = |(millis, blocks, waits)| {
            let thread = ThreadCounters { ran: Span::from_millis(millis), blocks };
            class = job.classify(class, &[thread; 2], waits);
            class
        };
        intervals.into_iter().map(classify).collect()
    }

    /// A job that waits by the library every 200 us.
    const IN_TURN: Interval = (50, 0, 1_000);

    #[test]
    fn a_job_that_waits_often_by_the_library_is_left_alone_after_two_intervals() {
        let blocks = |without| classes(&mut LibraryWaits::default(), [IN_TURN, IN_TURN, without, without]);
        // Without turns it gets as much done with its CPUs, whether it blocks or not.
        for without in [(50, 0, 1_000), (50, 0, 750), (40, 30, 700), (50, 9, 2_000)] {
            assert_eq!(blocks(without), [Spins, Blocks, Blocks, Blocks], "{without:?}");
        }
    }

    #[test]
    fn a_job_that_waits_rarely_by_the_library_takes_turns() {
        for (first, second) in [(100, 100), (100, 1_000), (1_000, 100), (0, 0)] {
            let intervals = [(50, 0, first), (50, 0, second)];
            assert_eq!(classes(&mut LibraryWaits::default(), intervals), [Spins; 2], "{first} {second}");
        }
        assert_eq!(classes(&mut LibraryWaits::default(), [(50, 0, 101), (50, 0, 101)]), [Spins, Blocks]);
    }

    #[test]
    fn a_job_that_also_spins_by_itself_is_left_alone_more_and_more_rarely() {
        // Without turns it does half as much, and its few waits at the library block.
        for without in [(50, 0, 490), (50, 0, 749), (50, 10, 490), (50, 0, 0)] {
            let (mut job, mut before, mut left_alone) = (LibraryWaits::default(), Unknown, Vec::new());
            for number in 0..500 {
                let interval = if before == Blocks { without } else { IN_TURN };
                let thread = ThreadCounters { ran: Span::from_millis(interval.0), blocks: interval.1 };
                before = job.classify(before, &[thread; 2], interval.2);
                assert!(matches!(before, Spins | Blocks));
                left_alone.extend((before == Blocks).then_some(number));
            }
            assert_eq!(left_alone, [1, 10, 27, 60, 125, 254, 383], "{without:?}");
        }
    }

    #[test]
    fn a_job_without_counted_waits_is_classified_as_by_its_threads_alone() {
        let intervals = [IN_TURN, (50, 30, 0), (50, 0, 0), (1, 0, 0), (0, 9, 0), (50, 1, 0)];
        let mut before = Unknown;
        let alone = intervals.map(|(millis, blocks, _)| {
            before = classify_threads(before, &[ThreadCounters { ran: Span::from_millis(millis), blocks }; 2]);
            before
        });
        assert_eq!(classes(&mut LibraryWaits::default(), intervals.map(|(ran, blocks, _)| (ran, blocks, 0))), alone);
    }

    #[test]
    fn an_interval_in_which_it_hardly_ran_says_nothing() {
        let short = (9, 0, 0);
        let intervals = [IN_TURN, short, IN_TURN, short, short, (50, 0, 100)];
        let expected = [Spins, Spins, Blocks, Blocks, Blocks, Spins];
        assert_eq!(classes(&mut LibraryWaits::default(), intervals), expected);
    }

    #[test]
    fn a_job_that_begins_to_compute_in_one_thread_is_left_alone_as_such() {
        let mut job = LibraryWaits::default();
        classes(&mut job, [IN_TURN, IN_TURN]);
        let one = ThreadCounters { ran: Span::from_millis(100), blocks: 0 };
        assert_eq!(job.classify(Blocks, &[one, ThreadCounters::default()], 1_000), Computes);
    }

    /// The threads of a job in an interval of mostly under 100 ms.
    fn threads() -> impl Strategy<Value = Vec<ThreadCounters>> {
        let nanos = prop_oneof![9 => 0..100_000_000_u64, 1 => any::<u64>()];
        let blocks = prop_oneof![9 => Just(0), 1 => 0..20_u64];
        let thread =
            (nanos, blocks).prop_map(|(nanos, blocks)| ThreadCounters { ran: Span::from_nanos(nanos), blocks });
        prop::collection::vec(thread, 0..4)
    }

    proptest! {
        #[test]
        fn whatever_is_counted_only_a_job_that_spins_is_left_alone_and_only_one_that_was_takes_turns_again(
            intervals in prop::collection::vec((threads(), prop_oneof![9 => 1_000..1_200_u64, 1 => any::<u64>()]), 0..40),
        ) {
            let (mut job, mut before, mut was_left_alone) = (LibraryWaits::default(), Unknown, false);
            for (threads, waits) in intervals {
                let of_threads = classify_threads(before, &threads);
                before = job.classify(before, &threads, waits);
                let is_known_difference = (of_threads, before) == (Spins, Blocks) || (was_left_alone && before == Spins);
                prop_assert!(before == of_threads || is_known_difference, "{:?} {:?}", of_threads, before);
                was_left_alone = job.is_left_alone;
                prop_assert!(job.pause <= LONGEST_PAUSE && job.next_pause <= LONGEST_PAUSE);
            }
        }
    }
}
