//! The number of threads in each state over time, in pieces of time.

use policy::Instant;

use super::State;

/// The most pieces of a whole run. When they run out, pairs of pieces are merged.
const BUCKETS: usize = 512;

/// The most changes that are kept of the beginning of a run.
const CHANGES: usize = 400;

/// The number of threads in each of [`State::SIMULATED`].
pub(super) type Counts = [u32; State::SIMULATED.len()];

/// The mean number of threads in each state, for each piece of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateTimeline {
    /// The beginnings of the pieces and the end of the last, in nanoseconds since the start.
    pub edges: Vec<u64>,
    /// For each state, the mean number of threads in it during each piece.
    pub layers: Vec<(State, Vec<f64>)>,
}

impl StateTimeline {
    /// The length in nanoseconds.
    pub fn length(&self) -> u64 {
        self.edges.last().copied().unwrap_or(0) - self.edges.first().copied().unwrap_or(0)
    }
}

/// The mean of a number over time, for each piece of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Level {
    /// The beginnings of the pieces and the end of the last, in nanoseconds since the start.
    pub edges: Vec<u64>,
    /// The mean during each piece.
    pub means: Vec<f64>,
}

impl Level {
    /// The mean over the whole time.
    pub fn mean(&self) -> f64 {
        let length = |edges: &[u64]| edges.last().zip(edges.first()).map_or(0, |(last, first)| last - first);
        total(&self.edges, &self.means) / (length(&self.edges) as f64).max(1.0)
    }
}

/// The sum of the means of pieces of time, times the lengths of the pieces in nanoseconds.
pub(crate) fn total(edges: &[u64], means: &[f64]) -> f64 {
    means.iter().zip(edges.windows(2)).map(|(mean, edges)| mean * (edges[1] - edges[0]) as f64).sum()
}

/// Numbers of threads over a run of any length, in at most [`BUCKETS`] pieces of equal length.
#[derive(Clone, Debug)]
pub(super) struct Buckets<const N: usize> {
    /// The present numbers, and since when they are added.
    counts: [u32; N],
    since: Instant,
    /// A piece has 2^`shift` nanoseconds, so that it is found without a division.
    shift: u32,
    /// Threads times nanoseconds.
    sums: Vec<[u128; N]>,
}

impl<const N: usize> Buckets<N> {
    pub(super) fn new() -> Buckets<N> {
        Buckets { counts: [0; N], since: Instant::ZERO, shift: 0, sums: vec![[0; N]; BUCKETS] }
    }

    /// Changes the numbers at this moment, and returns them.
    pub(super) fn change(&mut self, at: Instant, change: impl FnOnce(&mut [u32; N])) -> [u32; N] {
        let (mut from, to) = (self.since.as_nanos(), at.as_nanos());
        while from < to {
            let bucket = (from >> self.shift) as usize;
            if bucket >= BUCKETS {
                self.double();
                continue;
            }
            let end = to.min((bucket as u64 + 1) << self.shift);
            for (sum, &count) in self.sums[bucket].iter_mut().zip(&self.counts) {
                *sum += u128::from(count) * u128::from(end - from);
            }
            from = end;
        }
        self.since = at;
        change(&mut self.counts);
        self.counts
    }

    fn double(&mut self) {
        for bucket in 0..BUCKETS {
            let pair = self.sums.get(2 * bucket..2 * bucket + 2).unwrap_or_default().to_vec();
            self.sums[bucket] = std::array::from_fn(|state| pair.iter().map(|sums| sums[state]).sum());
        }
        self.shift += 1;
    }

    /// The mean of one number over time, up to the end of the run.
    pub(super) fn level(&mut self, end: Instant, number: usize) -> Level {
        self.change(end, |_| {});
        let end = end.as_nanos();
        let pieces = end.div_ceil(1 << self.shift);
        let edges: Vec<u64> = (0..pieces).map(|piece| piece << self.shift).chain([end]).collect();
        let pieces = self.sums.iter().zip(edges.windows(2));
        let means = pieces.map(|(sums, edges)| sums[number] as f64 / (edges[1] - edges[0]) as f64).collect();
        Level { edges, means }
    }
}

impl Buckets<{ State::SIMULATED.len() }> {
    /// The timeline up to the end of the run.
    pub(super) fn course(&mut self, end: Instant) -> StateTimeline {
        let levels = State::SIMULATED.map(|state| (state, self.level(end, state as usize)));
        let edges = levels[0].1.edges.clone();
        StateTimeline { edges, layers: levels.map(|(state, level)| (state, level.means)).into() }
    }
}

/// Every change at the beginning of a run.
#[derive(Clone, Debug)]
pub(super) struct Beginning {
    changes: Vec<(u64, Counts)>,
    /// When the first change came that did not fit.
    full: Option<u64>,
}

impl Beginning {
    pub(super) fn new() -> Beginning {
        Beginning { changes: vec![(0, Counts::default())], full: None }
    }

    /// Records the counts from this moment on. The last of several changes at one moment counts.
    pub(super) fn change(&mut self, at: Instant, counts: Counts) {
        let at = at.as_nanos();
        let has_room = self.changes.len() < CHANGES;
        match self.changes.last_mut() {
            _ if self.full.is_some() => {}
            Some((last, known)) if *last == at => *known = counts,
            Some((_, known)) if *known == counts => {}
            _ if has_room => self.changes.push((at, counts)),
            _ => self.full = Some(at),
        }
    }

    /// The recorded part. `None` if it covers the whole run.
    pub(super) fn course(&self) -> Option<StateTimeline> {
        let edges = self.changes.iter().map(|(at, _)| *at).chain([self.full?]).collect();
        let mean = |state| self.changes.iter().map(|(_, counts)| f64::from(counts[state as usize])).collect();
        Some(StateTimeline { edges, layers: State::SIMULATED.map(|state| (state, mean(state))).into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_of_any_length_fit_into_the_buckets_and_keep_their_sums(
            steps in proptest::collection::vec((0..1_000_000_u64, 0..50_u32, 0..50_u32), 1..300),
        ) {
            let (mut buckets, mut now, mut expected) = (Buckets::new(), 0, [0.0; 2]);
            for (span, computing, blocked) in steps {
                buckets.change(Instant::from_nanos(now), |counts| *counts = [computing, 0, 0, 0, blocked]);
                expected[0] += f64::from(computing) * span as f64;
                expected[1] += f64::from(blocked) * span as f64;
                now += span;
            }
            let course = buckets.course(Instant::from_nanos(now));
            let total = |state: usize| total(&course.edges, &course.layers[state].1);
            prop_assert!(course.edges.windows(2).all(|edges| edges[0] < edges[1]) && course.edges.len() <= BUCKETS + 1);
            prop_assert!(now < BUCKETS as u64 || course.edges.len() > BUCKETS / 2);
            for (state, expected) in [(0, expected[0]), (4, expected[1])] {
                prop_assert!((total(state) - expected).abs() <= expected * 1e-9, "{} {expected}", total(state));
            }
        }
    }

    #[test]
    fn the_beginning_has_every_change_and_ends_at_the_first_that_does_not_fit() {
        let mut beginning = Beginning::new();
        assert_eq!(beginning.course(), None);
        // Two changes at one moment count as one.
        beginning.change(Instant::from_nanos(5), [1, 1, 0, 0, 0]);
        beginning.change(Instant::from_nanos(5), [0, 2, 0, 0, 0]);
        for at in 0..CHANGES as u64 {
            beginning.change(Instant::from_nanos(10 + at), [at as u32 % 2, 0, 0, 0, 0]);
        }
        let course = beginning.course().unwrap();
        assert_eq!((course.edges.len(), &course.edges[..3]), (CHANGES + 1, &[0, 5, 10][..]));
        assert_eq!(course.edges.last(), Some(&(10 + CHANGES as u64 - 2)));
        assert_eq!(course.layers[1].1[..3], [0.0, 2.0, 0.0]);
    }
}
