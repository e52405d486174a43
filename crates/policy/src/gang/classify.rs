//! The behaviour of a job while it waits, from what its threads did in an interval.
//!
//! Source: our own. Measured on Linux: jobs that compute for 1 ms and sleep for 2 ms, or wait for
//! messages by a futex, block 475 to 1765 times a second of running time; jobs that spin or compute
//! hardly block. Jobs that spin while a sibling is off its CPU spend 67 to 91 % of their running
//! time so, and others at most 9 %.
//!
//! A job that blocks often takes no turns, so its blocks are seen whenever it runs. A job that
//! spins is different: while it takes turns, its siblings run when it runs, and it hardly waits.
//! Taken for a job that computes, it would lose its turns and spin again, so the limit depends on
//! what the job is taken for: if it takes turns (it spins, or is unknown), only next to no waiting
//! shows that it computes. If it runs at any time, waiting takes a large part of its time if it
//! waits at all.
//!
//! A job that polls for a while before it blocks is taken for one that spins as long as its turns
//! keep it from blocking. If they do so only in part, or it takes none, it is tried whether it
//! needs them: see `turn_trial`.

use crate::units::Span;

/// The behaviour of a job while it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Class {
    /// It has not run for long enough to tell.
    #[default]
    Unknown,
    /// It waits by spinning.
    Spins,
    /// It blocks.
    Blocks,
    /// It hardly waits.
    Computes,
}

/// The counters of a job over an interval, summed over its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct IntervalCounters {
    /// How long they had a CPU.
    pub ran: Span,
    /// The part of it in which they waited by spinning.
    pub spun: Span,
    /// How often they blocked.
    pub blocks: u64,
    /// How many of them ran for a noticeable time.
    pub threads: usize,
}

impl IntervalCounters {
    /// Whether the interval tells anything of the job: it ran for long enough, or blocked.
    pub(super) const fn is_telling(&self) -> bool {
        self.ran.as_nanos() >= LEAST_RUNNING_TIME.as_nanos() || self.blocks >= MANY_BLOCKS
    }

    /// Whether the threads blocked more often than this in a second of running time.
    pub(super) const fn blocked_more_often_than(&self, a_second: u64) -> bool {
        self.blocks as u128 * 1_000_000_000 > self.ran.as_nanos() as u128 * a_second as u128
    }

    /// Whether they spun for at least this part of their running time, in thousandths.
    const fn spun_for(&self, thousandths: u64) -> bool {
        self.spun.as_nanos() as u128 * 1000 >= self.ran.as_nanos() as u128 * thousandths as u128
    }
}

/// The shortest running time that tells how a job behaves.
pub(super) const LEAST_RUNNING_TIME: Span = Span::from_millis(20);
/// So many blocks tell that a job blocks in a shorter time, too. A job that mostly sleeps hardly
/// runs.
const MANY_BLOCKS: u64 = 5;
/// A job that blocks more often than this in a second of running time is taken for one that blocks.
pub(super) const BLOCKS: u64 = 100;
/// It stays so unless it blocks more rarely than this.
const STILL_BLOCKS: u64 = 50;
/// A job that takes no turns spins if it spends this part of its running time so, in thousandths.
const SPINS: u64 = 100;
/// A job that takes turns spins unless it spends less than this part of its running time so.
const STILL_SPINS: u64 = 1;

/// Classifies a job by its counters of the last interval and its class before.
///
/// The class remains if the job has hardly run.
pub const fn classify(before: Class, counters: &IntervalCounters) -> Class {
    if !counters.is_telling() {
        return before;
    }
    let (often, long) = match before {
        Class::Unknown | Class::Spins => (BLOCKS, STILL_SPINS),
        Class::Blocks => (STILL_BLOCKS, SPINS),
        Class::Computes => (BLOCKS, SPINS),
    };
    if counters.blocked_more_often_than(often) {
        Class::Blocks
    } else if counters.spun_for(long) {
        Class::Spins
    } else {
        Class::Computes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Class::{Blocks, Computes, Spins, Unknown};

    const ALL: [Class; 4] = [Unknown, Spins, Blocks, Computes];

    /// The classes after an interval, by class before, in the order of [`ALL`].
    fn after(ran: Span, spun: Span, blocks: u64) -> [Class; 4] {
        ALL.map(|before| classify(before, &IntervalCounters { ran, spun, blocks, threads: 2 }))
    }

    #[test]
    fn limits_to_leave_a_class_are_lower_than_those_to_enter_it() {
        let (ran, ms, us) = (Span::from_millis(1_000), Span::from_millis, Span::from_micros);
        for (spun, blocks, expected) in [
            (ms(900), 101, [Blocks; 4]),
            (ms(900), 100, [Spins, Spins, Blocks, Spins]),
            (ms(900), 51, [Spins, Spins, Blocks, Spins]),
            (ms(900), 50, [Spins; 4]),
            (ms(100), 0, [Spins; 4]),
            (us(99_999), 0, [Spins, Spins, Computes, Computes]),
            (ms(1), 0, [Spins, Spins, Computes, Computes]),
            (us(999), 0, [Computes; 4]),
            (Span::ZERO, 50, [Computes; 4]),
            (Span::ZERO, 51, [Computes, Computes, Blocks, Computes]),
        ] {
            assert_eq!(after(ran, spun, blocks), expected, "{spun} {blocks}");
        }
    }

    #[test]
    fn an_interval_with_little_running_time_changes_nothing_unless_the_job_blocks() {
        let (ms, us) = (Span::from_millis, Span::from_micros);
        assert_eq!(after(Span::ZERO, Span::ZERO, 0), ALL);
        assert_eq!(after(us(19_999), us(19_999), 4), ALL);
        assert_eq!(after(ms(20), ms(20), 0), [Spins; 4]);
        assert_eq!(after(us(19_999), us(19_999), 5), [Blocks; 4]);
        assert_eq!(after(Span::ZERO, Span::ZERO, 5), [Blocks; 4]);
        assert_eq!(after(Span::MAX, Span::MAX, u64::MAX), [Blocks; 4]);
    }

    /// The class of an unknown job after these intervals.
    fn class(intervals: &[(Span, Span, u64)]) -> Class {
        let interval =
            |before, &(ran, spun, blocks): &_| classify(before, &IntervalCounters { ran, spun, blocks, threads: 2 });
        intervals.iter().fold(Unknown, interval)
    }

    #[test]
    fn the_jobs_of_the_measured_mixes_are_told_apart() {
        let (ms, us) = (Span::from_millis, Span::from_micros);
        // F meets every 20 us. It hardly waits in its turn, and for most of the time without one.
        let (in_turn, without) = ((ms(100), us(900), 0), (ms(100), ms(70), 0));
        assert_eq!(class(&[in_turn, in_turn, in_turn]), Spins);
        assert_eq!(class(&[without, in_turn]), Spins);
        // C computes for 1 ms and sleeps for 2 ms, in intervals of 50 ms.
        assert_eq!(class(&[(ms(17), us(50), 17)]), Blocks);
        assert_eq!(class(&[in_turn, (ms(17), us(50), 17), (ms(16), us(800), 16)]), Blocks);
        // K polls for 50 us and then blocks. In its turn it blocks at most at the boundary, with
        // slices of 20 ms on two CPUs.
        assert_eq!(class(&[(ms(40), ms(20), 2), (ms(40), ms(20), 1)]), Spins);
        // A job without waits computes, and is found to spin if it begins to.
        assert_eq!(class(&[(ms(100), Span::ZERO, 0)]), Computes);
        assert_eq!(class(&[(ms(100), Span::ZERO, 0), without, in_turn]), Spins);
    }
}
