//! The class of a job whose waiting is not counted, from what the kernel says of each thread.
//!
//! Source: our own. The kernel tells how long a thread ran and how often it blocked, but not
//! whether it computed or spun. So a job with several threads that run and hardly block is taken
//! for one that spins. If it only computes, turns cost it no more than the time in which it would
//! have been idle. A job of one thread has no other to spin for, and takes no turns.
//!
//! The statistics of the preloaded library alone tell nothing more. They count the spins of its own
//! waits, and not those of the program, of its run-time systems, or in the library of MPI. So a job
//! without counted spins may still spin, and must not lose its turns. Counted spins only confirm
//! what the running times say, and the kernel counts blocks exactly. But it can be tried whether a
//! job that the library lets wait needs its turns: see `library_waits`.

use super::classify::{BLOCKS, Class, IntervalCounters, classify};
use crate::units::Span;

/// The counters of one thread over an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ThreadCounters {
    /// How long it had a CPU.
    pub ran: Span,
    /// How often it blocked. Stops by others do not count.
    pub blocks: u64,
}

/// A thread that ran for less than this part of what the busiest one ran hardly ran, in
/// thousandths.
const NOTICEABLE: u64 = 100;

impl IntervalCounters {
    /// The counters of a job with these threads. If at least two of them ran for a noticeable part
    /// of the interval and hardly blocked, their running time counts as spinning.
    pub fn of_threads(threads: &[ThreadCounters]) -> IntervalCounters {
        let busiest = threads.iter().map(|thread| thread.ran).max().unwrap_or(Span::ZERO);
        let runs = |thread: &&ThreadCounters| !thread.ran.is_zero() && thread.ran >= busiest.scaled(NOTICEABLE);
        let may_spin = |thread: &&ThreadCounters| {
            let (ran, blocks) = (thread.ran, thread.blocks);
            !IntervalCounters { ran, blocks, ..IntervalCounters::default() }.blocked_more_often_than(BLOCKS)
        };
        let spinners: Vec<Span> = threads.iter().filter(runs).filter(may_spin).map(|thread| thread.ran).collect();
        IntervalCounters {
            ran: threads.iter().map(|thread| thread.ran).sum(),
            spun: if spinners.len() >= 2 { spinners.into_iter().sum() } else { Span::ZERO },
            blocks: threads.iter().fold(0, |blocks, thread| blocks.saturating_add(thread.blocks)),
            threads: threads.iter().filter(runs).count(),
        }
    }
}

/// Classifies a job by the counters of all its threads, also those that did nothing, over the last
/// interval, and by its class before.
///
/// A job of one thread takes no turns from the first interval on. Threads that did nothing tell
/// nothing else.
pub fn classify_threads(before: Class, threads: &[ThreadCounters]) -> Class {
    let before = match before {
        Class::Unknown | Class::Spins if threads.len() == 1 => Class::Computes,
        before => before,
    };
    classify(before, &IntervalCounters::of_threads(threads))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Class::{Blocks, Computes, Spins, Unknown};

    const IDLE: ThreadCounters = ThreadCounters { ran: Span::ZERO, blocks: 0 };

    fn thread(millis: u64, blocks: u64) -> ThreadCounters {
        ThreadCounters { ran: Span::from_millis(millis), blocks }
    }

    fn counters(ran: u64, spun: u64, blocks: u64, threads: usize) -> IntervalCounters {
        IntervalCounters { ran: Span::from_millis(ran), spun: Span::from_millis(spun), blocks, threads }
    }

    /// The class of an unknown job after these intervals.
    fn class(intervals: &[&[ThreadCounters]]) -> Class {
        intervals.iter().fold(Unknown, |before, threads| classify_threads(before, threads))
    }

    #[test]
    fn the_time_of_several_threads_that_run_and_hardly_block_counts_as_spinning() {
        for (threads, expected) in [
            (&[][..], counters(0, 0, 0, 0)),
            (&[IDLE, IDLE], counters(0, 0, 0, 0)),
            (&[thread(50, 0)], counters(50, 0, 0, 1)),
            (&[thread(50, 0), IDLE], counters(50, 0, 0, 1)),
            (&[thread(50, 0), thread(50, 5)], counters(100, 100, 5, 2)),
            (&[thread(50, 0), thread(50, 6)], counters(100, 0, 6, 2)),
            (&[thread(50, 0), thread(50, 0), thread(50, 6)], counters(150, 100, 6, 3)),
            (&[thread(50, 0), thread(5, 0)], counters(55, 55, 0, 2)),
            (&[thread(50, 0), thread(4, 0)], counters(54, 0, 0, 1)),
        ] {
            assert_eq!(IntervalCounters::of_threads(threads), expected, "{threads:?}");
        }
        let most = ThreadCounters { ran: Span::MAX, blocks: u64::MAX };
        let sum = IntervalCounters { ran: Span::MAX, spun: Span::ZERO, blocks: u64::MAX, threads: 2 };
        assert_eq!(IntervalCounters::of_threads(&[most, most]), sum);
    }

    #[test]
    fn a_job_of_one_thread_takes_no_turns_from_the_first_interval_on() {
        assert_eq!(class(&[&[thread(1, 0)]]), Computes);
        assert_eq!(class(&[&[IDLE]]), Computes);
        assert_eq!(class(&[&[thread(1, 5)]]), Blocks);
        assert_eq!(class(&[&[thread(1, 5)], &[thread(1, 1)]]), Blocks, "too short to tell");
        // It is unknown how the other one waits.
        assert_eq!(class(&[&[thread(1, 0), IDLE]]), Unknown);
        assert_eq!(class(&[&[thread(20, 0), IDLE]]), Computes);
        // The other one may come later.
        assert_eq!(class(&[&[thread(20, 0)], &[thread(20, 0), thread(20, 0)]]), Spins);
        assert_eq!(class(&[&[thread(20, 0), thread(20, 0)], &[thread(1, 0)]]), Computes);
        assert_eq!(class(&[&[]]), Unknown);
    }

    #[test]
    fn the_jobs_of_the_measured_mixes_are_told_apart_without_their_statistics() {
        // F meets every 20 us, with a turn and without one.
        let (in_turn, without) = ([thread(50, 0), thread(50, 0)], [thread(30, 1), thread(45, 0)]);
        assert_eq!(class(&[&in_turn]), Spins);
        assert_eq!(class(&[&in_turn, &without, &in_turn]), Spins);
        // C computes for 1 ms and sleeps for 2 ms, in intervals of 50 ms.
        let blocks = [thread(9, 9), thread(8, 8)];
        assert_eq!(class(&[&blocks]), Blocks);
        assert_eq!(class(&[&in_turn, &blocks, &blocks]), Blocks);
        // K polls for 50 us and then blocks. In its turn it blocks at most at the boundary, with
        // slices of 20 ms on two CPUs; without one it blocks whenever its sibling is off its CPU.
        assert_eq!(class(&[&[thread(20, 1), thread(20, 1)], &[thread(20, 1), thread(20, 0)]]), Spins);
        assert_eq!(class(&[&[thread(6, 60), thread(6, 58)]]), Blocks);
        // A pool of threads, of which one works, beside a thread that starts them and waits.
        assert_eq!(class(&[&[thread(50, 1), thread(0, 1), IDLE, IDLE]]), Computes);
    }
}
