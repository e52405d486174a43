//! Durations in pairs: how many times as fast one thing is as another, each pair measured one right after the other.

use crate::LEVEL;
use crate::{Estimate, student};

/// What pairs of durations say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speedup {
    /// The first over the second, pair by pair, geometric mean.
    pub ratio: Estimate,
    /// How likely a ratio at least this far from one would be if there were no difference: p of the paired t-test of the logarithms.
    /// One pair has none.
    pub p: Option<f64>,
    /// The median of the firsts.
    pub first_median: f64,
    /// The median of the seconds.
    pub second_median: f64,
}

impl Speedup {
    /// What these pairs say; nothing without any. Durations that are not positive are left out, with the other of their pair.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Speedup> {
        let pairs: Vec<(f64, f64)> = pairs.iter().copied().filter(|&(one, other)| one > 0.0 && other > 0.0).collect();
        let logarithms: Vec<f64> = pairs.iter().map(|(one, other)| (one / other).ln()).collect();
        let (firsts, seconds): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        Some(Speedup {
            ratio: crate::mean(&logarithms)?.map(f64::exp),
            p: student::one_sample(&logarithms).map(|test| test.p),
            first_median: crate::median(&firsts)?,
            second_median: crate::median(&seconds)?,
        })
    }

    /// Whether the two are told apart.
    pub fn tells_apart(&self) -> bool {
        self.p.is_some_and(|p| p < LEVEL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_averaged_as_ratios() {
        let found = Speedup::of(&[(4.0, 1.0), (1.0, 4.0), (2.0, 2.0), (0.0, 1.0)]).unwrap();
        assert!((found.ratio.mean - 1.0).abs() < 1e-12, "{found:?}");
        assert_eq!((found.first_median, found.second_median, found.ratio.samples), (2.0, 2.0, 3));
        assert!(!found.tells_apart());
    }

    #[test]
    fn what_is_twice_as_fast_each_time_is_told_apart() {
        let found = Speedup::of(&[(2.0, 1.0), (4.1, 2.0), (5.9, 3.0), (8.0, 4.0)]).unwrap();
        let (low, high) = found.ratio.interval.unwrap();
        assert!(1.9 < low && low < 2.0 && 2.0 < high && high < 2.1, "{found:?}");
        assert!(found.tells_apart());
    }

    #[test]
    fn one_pair_tells_nothing_apart_and_none_says_nothing() {
        let found = Speedup::of(&[(3.0, 1.0)]).unwrap();
        assert_eq!((found.p, found.ratio.interval, found.tells_apart()), (None, None, false));
        assert_eq!(Speedup::of(&[]), None);
    }
}
