//! Speed-ups from pairs of durations, measured one right after the other.

use crate::{Estimate, SIGNIFICANCE_LEVEL, student};

/// The speed-up of the second over the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speedup {
    /// The geometric mean of first over second, pair by pair.
    pub ratio: Estimate,
    /// The probability of a ratio at least this far from one if there were no difference: p of the
    /// paired t-test of the logarithms. `None` for a single pair.
    pub p: Option<f64>,
    /// The median of the firsts.
    pub first_median: f64,
    /// The median of the seconds.
    pub second_median: f64,
}

impl Speedup {
    /// The speed-up of the pairs of positive durations; `None` without any.
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

    /// Whether the difference is significant.
    pub fn is_significant(&self) -> bool {
        self.p.is_some_and(|p| p < SIGNIFICANCE_LEVEL)
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
        assert!(!found.is_significant());
    }

    #[test]
    fn a_consistent_factor_of_two_is_significant() {
        let found = Speedup::of(&[(2.0, 1.0), (4.1, 2.0), (5.9, 3.0), (8.0, 4.0)]).unwrap();
        let (low, high) = found.ratio.interval.unwrap();
        assert!(1.9 < low && low < 2.0 && 2.0 < high && high < 2.1, "{found:?}");
        assert!(found.is_significant());
    }

    #[test]
    fn one_pair_is_not_significant_and_none_has_no_speedup() {
        let found = Speedup::of(&[(3.0, 1.0)]).unwrap();
        assert_eq!((found.p, found.ratio.interval, found.is_significant()), (None, None, false));
        assert_eq!(Speedup::of(&[]), None);
    }
}
