//! The words that all agents of a table share.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use policy::{Instant, JobId, Span};
use sys::futex::{self, Scope};
use sys::shared_memory::{Mapping, View};

use crate::advisory_lock::AdvisoryLock;
use crate::claim::Claims;

/// The length of the file with the page, in bytes.
pub(crate) const LENGTH: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// The places of the words of 64 bits.
const CLAIM: usize = 0;
const SWITCHED: usize = 1;
const LATEST: usize = 2;
const LATENESS: usize = 8;
const DURATION: usize = LATENESS + Histogram::BUCKETS;
const SKEW: usize = DURATION + Histogram::BUCKETS;
const DELAY: usize = SKEW + Histogram::BUCKETS;
const WORDS: usize = DELAY + Moments::SUMS;
/// The places of the words of 32 bits, in bytes.
const CHANGES: usize = WORDS * size_of::<u64>();
const LEFT_QUEUE: usize = CHANGES + size_of::<u32>();
const ENDED: usize = LEFT_QUEUE + size_of::<u32>();
const LOCK: usize = ENDED + size_of::<u32>();

/// The words that all agents share.
#[derive(Debug)]
pub(crate) struct Page {
    words: View<[AtomicU64]>,
    /// Counts the versions that concern agents, which wait for a new one.
    changes: View<AtomicU32>,
    /// Counts the jobs that have left the queue, for those that are in it.
    left_queue: View<AtomicU32>,
    /// Counts the jobs that have left the table, for the first ones in the queue.
    ended: View<AtomicU32>,
    lock: View<AtomicU32>,
}

impl Page {
    /// The page in a file of [`LENGTH`] bytes. `None` if it is shorter.
    pub(crate) fn new(mapping: &Arc<Mapping>) -> Option<Page> {
        Some(Page {
            words: mapping.slice(0, WORDS)?,
            changes: mapping.get(CHANGES)?,
            left_queue: mapping.get(LEFT_QUEUE)?,
            ended: mapping.get(ENDED)?,
            lock: mapping.get(LOCK)?,
        })
    }

    pub(crate) fn claims(&self) -> Claims<'_, AtomicU64> {
        Claims { claim: &self.words[CLAIM], switched: &self.words[SWITCHED] }
    }

    /// The turn that the last finished switch has begun.
    pub(crate) fn switched(&self) -> u64 {
        self.words[SWITCHED].load(SeqCst)
    }

    /// The latest version of the table. Zero if there is none yet.
    pub(crate) fn latest(&self) -> &AtomicU64 {
        &self.words[LATEST]
    }

    /// The number of changes so far. Read it before the latest version.
    pub(crate) fn changes(&self) -> u32 {
        self.changes.load(SeqCst)
    }

    /// Blocks until there are more changes than these, until `deadline`, or for any other reason.
    pub(crate) fn wait(&self, changes: u32, deadline: Instant) {
        futex::wait(&*self.changes, changes, Some(Duration::from_nanos(deadline.as_nanos())), Scope::Shared);
    }

    /// Wakes the agents of all jobs.
    pub(crate) fn wake(&self) {
        self.changes.fetch_add(1, SeqCst);
        futex::wake(&*self.changes, u32::MAX, Scope::Shared);
    }

    /// How many jobs have left the queue. It starts again after 2^32.
    pub(crate) fn left_queue(&self) -> u32 {
        self.left_queue.load(SeqCst)
    }

    /// How many jobs have left so far. Read it before the latest version.
    pub(crate) fn departures(&self) -> Departures {
        Departures { from_queue: self.left_queue(), from_table: self.ended.load(SeqCst) }
    }

    /// Blocks until more jobs than these have left the queue and this one is concerned, until
    /// `deadline`, or for any other reason.
    pub(crate) fn wait_for_queue(&self, left: u32, job: JobId, deadline: Instant) {
        let deadline = Some(Duration::from_nanos(deadline.as_nanos()));
        futex::wait_bitset(&*self.left_queue, left, deadline, Scope::Shared, bit(job));
    }

    /// Counts jobs that have left the queue, and wakes those that this concerns, and some others.
    pub(crate) fn leave_queue(&self, jobs: u32, concerned: impl IntoIterator<Item = JobId>) {
        self.left_queue.fetch_add(jobs, SeqCst);
        if let Some(bits) = concerned.into_iter().map(bit).reduce(|one, other| one | other) {
            futex::wake_bitset(&*self.left_queue, u32::MAX, Scope::Shared, bits);
        }
    }

    /// Blocks until more jobs than these have left the table, until `deadline`, or for any other
    /// reason.
    pub(crate) fn wait_for_end(&self, ended: u32, deadline: Instant) {
        futex::wait(&*self.ended, ended, Some(Duration::from_nanos(deadline.as_nanos())), Scope::Shared);
    }

    /// Counts jobs that have left the table, and wakes the first ones in the queue.
    pub(crate) fn end(&self, jobs: u32) {
        self.ended.fetch_add(jobs, SeqCst);
        futex::wake(&*self.ended, u32::MAX, Scope::Shared);
    }

    /// The lock of those that enter or leave.
    pub(crate) fn lock(&self) -> AdvisoryLock<'_> {
        AdvisoryLock(&self.lock)
    }

    /// How late switches began after their boundaries.
    pub(crate) fn lateness(&self) -> Histogram<'_> {
        Histogram(&self.words[LATENESS..DURATION])
    }

    /// How long switches took, from the first signal to the last.
    pub(crate) fn duration(&self) -> Histogram<'_> {
        Histogram(&self.words[DURATION..SKEW])
    }

    /// How long switches took from the first process that they let run again to the last.
    pub(crate) fn skew(&self) -> Histogram<'_> {
        Histogram(&self.words[SKEW..DELAY])
    }

    /// The times from a boundary to the end of its switch.
    pub(crate) fn delay(&self) -> Moments<'_> {
        Moments(&self.words[DELAY..WORDS])
    }
}

/// How many jobs have left. The numbers start again after 2^32.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departures {
    pub(crate) from_queue: u32,
    pub(crate) from_table: u32,
}

/// The bit by which a job that waits is woken. Some others have the same one.
fn bit(job: JobId) -> NonZeroU32 {
    NonZeroU32::new(1 << (job.0 % u32::BITS)).unwrap_or(NonZeroU32::MIN)
}

/// Sums of times and of their squares, in units of 100 ns so that they hardly ever overflow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moments<'a>(&'a [AtomicU64]);

impl Moments<'_> {
    /// The number of times, their sum, and that of their squares.
    const SUMS: usize = 3;
    const UNIT: u64 = 100;

    pub(crate) fn count(&self, time: Span) {
        let time = time.as_nanos() / Self::UNIT;
        for (word, of_time) in self.0.iter().zip([1, time, time.saturating_mul(time)]) {
            word.fetch_add(of_time, Relaxed);
        }
    }

    /// The number of times, their mean, and their standard deviation. `None` without times.
    pub(crate) fn read(&self) -> Option<(u64, Span, Span)> {
        let [number, sum, squares] = [0, 1, 2].map(|at: usize| self.0[at].load(Relaxed));
        let of_all = |sum: u64| sum as f64 / number as f64;
        let mean = of_all(sum);
        let deviation = (of_all(squares) - mean * mean).max(0.0).sqrt();
        let span = |units: f64| Span::from_nanos((units * Self::UNIT as f64) as u64);
        (number > 0).then(|| (number, span(mean), span(deviation)))
    }
}

/// Counts of times. A bucket is as long as an eighth of the shortest time in it, at least 1 us.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Histogram<'a>(&'a [AtomicU64]);

impl Histogram<'_> {
    /// So many buckets are of the same length, and then twice as long.
    const ALIKE: u64 = 8;
    /// The last one is for all times from 3.9 s on.
    const BUCKETS: usize = 160;

    pub(crate) fn count(&self, time: Span) {
        let micros = time.as_nanos() / 1000;
        let doublings = micros.max(Self::ALIKE).ilog2() - Self::ALIKE.ilog2();
        let bucket = u64::from(doublings) * Self::ALIKE + (micros >> doublings);
        self.0[(bucket as usize).min(Self::BUCKETS - 1)].fetch_add(1, Relaxed);
    }

    /// The end of a bucket, in microseconds.
    fn end(bucket: u64) -> u64 {
        let doublings = (bucket / Self::ALIKE).saturating_sub(1);
        (bucket - doublings * Self::ALIKE + 1) << doublings
    }

    /// A time that so many thousandths of all times do not exceed. It is too high by at most an
    /// eighth, or 1 us. `None` without times.
    pub(crate) fn quantile(&self, thousandths: u64) -> Option<Span> {
        let counts: Vec<u64> = self.0.iter().map(|count| count.load(Relaxed)).collect();
        let all: u128 = counts.iter().map(|&count| u128::from(count)).sum();
        let rank = (all * u128::from(thousandths)).div_ceil(1000).max(1);
        let sums = counts.iter().scan(0, |sum: &mut u128, &count| {
            *sum += u128::from(count);
            Some(*sum)
        });
        let bucket = sums.zip(0..).find(|&(sum, _)| all > 0 && sum >= rank)?.1;
        Some(Span::from_micros(Self::end(bucket)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_all_times() {
        let words: [AtomicU64; Moments::SUMS] = Default::default();
        let moments = Moments(&words);
        assert_eq!(moments.read(), None);
        for micros in [2, 4, 4, 4, 5, 5, 7, 9] {
            moments.count(Span::from_micros(micros));
        }
        assert_eq!(moments.read(), Some((8, Span::from_micros(5), Span::from_micros(2))));
    }

    /// The microseconds that so many thousandths of these times do not exceed.
    fn quantile(times: impl IntoIterator<Item = Span>, thousandths: u64) -> Option<u64> {
        let words = [const { AtomicU64::new(0) }; Histogram::BUCKETS];
        let histogram = Histogram(&words);
        times.into_iter().for_each(|time| histogram.count(time));
        histogram.quantile(thousandths).map(|time| time.as_nanos() / 1000)
    }

    #[test]
    fn quantiles_are_the_ends_of_buckets() {
        assert_eq!(quantile([], 500), None);
        let times = [0, 3, 3, 100].map(Span::from_micros).into_iter().chain([Span::MAX]);
        let quantile = |thousandths| quantile(times.clone(), thousandths).unwrap();
        assert_eq!([0, 200, 500, 600, 800, 1000].map(quantile), [1, 1, 4, 4, 104, 1 << 22]);
    }

    #[test]
    fn a_quantile_is_too_high_by_at_most_an_eighth_or_a_microsecond() {
        let longest = (1 << 22) - 1;
        let powers = (0..22).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) * 3 / 2]);
        for micros in (0..5_000).chain(powers).filter(|&micros| micros <= longest) {
            let end = quantile([Span::from_micros(micros)], 500).unwrap();
            assert!(end > micros && end <= micros + (micros / 8).max(1), "{micros}: {end}");
        }
    }
}
