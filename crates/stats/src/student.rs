//! Student's t-tests: of a mean against zero, which is also the test of the differences of pairs,
//! and of two samples against each other (Welch).
//!
//! All are two-sided. They hold for few samples if these are approximately normally distributed:
//! compare logarithms of durations rather than durations.

use super::distribution::{two_sided_t, two_sided_t_quantile};
use super::{Estimate, average, sum_of_squares};

/// The result of a t-test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TTest {
    /// The tested difference from zero, with its 95 % interval.
    pub difference: Estimate,
    /// The standard error of the difference.
    pub standard_error: f64,
    /// The difference in standard errors; infinite if there is a difference without variance.
    pub t: f64,
    /// The degrees of freedom; Welch's need not be whole.
    pub freedom: f64,
    /// The probability of a difference at least this large if there were none.
    pub p: f64,
}

impl TTest {
    /// The probability of a difference this small if the true one were at least `bound`, in either
    /// direction: p of the two one-sided tests (Schuirmann 1987). Below 5 %, the two are equivalent
    /// within the bound.
    pub fn equivalence(&self, bound: f64) -> f64 {
        let distance = bound - self.difference.mean.abs();
        if self.standard_error == 0.0 {
            return if distance > 0.0 { 0.0 } else { 1.0 };
        }
        // Of the two tests, the one at the nearer bound has the larger p.
        let half = two_sided_t(distance / self.standard_error, self.freedom) / 2.0;
        if distance >= 0.0 { half } else { 1.0 - half }
    }
}

/// Tests whether the mean of the samples is zero. Returns `None` for fewer than two samples.
pub fn one_sample(samples: &[f64]) -> Option<TTest> {
    one_sample_with_variance_of(samples, samples)
}

/// The same, with the variance of only some of the samples.
pub(super) fn one_sample_with_variance_of(some: &[f64], all: &[f64]) -> Option<TTest> {
    let freedom = some.len() as f64 - 1.0;
    let variance = sum_of_squares(some, average(some)?) / freedom;
    tested(average(all)?, variance / all.len() as f64, freedom, all.len())
}

/// Tests whether two independent samples have the same mean, whatever their variances (Welch). The
/// difference is first minus second. Returns `None` if either has fewer than two values.
pub fn welch(first: &[f64], second: &[f64]) -> Option<TTest> {
    let side = |samples: &[f64]| {
        let n = samples.len() as f64;
        let mean = average(samples).filter(|_| samples.len() > 1)?;
        Some((mean, sum_of_squares(samples, mean) / (n - 1.0) / n, n - 1.0))
    };
    let ((mean_1, variance_1, freedom_1), (mean_2, variance_2, freedom_2)) = (side(first)?, side(second)?);
    let variance = variance_1 + variance_2;
    // Satterthwaite's degrees of freedom; without variance any number would do.
    let freedom = if variance > 0.0 {
        variance * variance / (variance_1 * variance_1 / freedom_1 + variance_2 * variance_2 / freedom_2)
    } else {
        freedom_1 + freedom_2
    };
    tested(mean_1 - mean_2, variance, freedom, first.len() + second.len())
}

fn tested(difference: f64, variance: f64, freedom: f64, samples: usize) -> Option<TTest> {
    let reach = two_sided_t_quantile(0.95, freedom)? * variance.sqrt();
    // Constant samples differ with certainty, or not at all.
    let standard_error = variance.sqrt();
    let t = if difference == 0.0 { 0.0 } else { difference / standard_error };
    let interval = Some((difference - reach, difference + reach));
    let difference = Estimate { mean: difference, interval, samples };
    Some(TTest { difference, standard_error, t, freedom, p: two_sided_t(t, freedom) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assert_close;

    #[track_caller]
    fn assert_test(found: Option<TTest>, t: f64, freedom: f64, p: f64, interval: (f64, f64)) {
        let found = found.unwrap();
        assert_close(found.t, t, 1e-12);
        assert_close(found.freedom, freedom, 1e-12);
        assert_close(found.p, p, 1e-10);
        let (low, high) = found.difference.interval.unwrap();
        assert_close(low, interval.0, 1e-10);
        assert_close(high, interval.1, 1e-10);
    }

    #[test]
    fn welchs_test_matches_scipy() {
        // SciPy 1.17.1: scipy.stats.ttest_ind(first, second, equal_var=False)
        let first = [12.1, 14.3, 11.8, 13.5, 15.2, 12.9];
        let second = [15.8, 14.9, 17.3, 16.1, 20.4, 15.5, 18.2];
        let interval = (-5.570706253977639, -1.6007223174509282);
        assert_test(welch(&first, &second), -3.9965653300790387, 10.552288545407098, 0.0022768197664300004, interval);
    }

    #[test]
    fn the_test_of_pairs_matches_scipy() {
        // SciPy 1.17.1: scipy.stats.ttest_rel(first, second)
        let pairs = [(10.2, 9.1), (11.9, 11.2), (9.8, 9.9), (12.4, 10.8), (10.7, 9.6)];
        let interval = (0.0927419401854227, 1.6672580598145776);
        assert_test(
            one_sample(&pairs.map(|(one, other)| one - other)),
            3.103520709777835,
            4.0,
            0.03609770798489509,
            interval,
        );
    }

    #[test]
    fn equivalence_is_the_larger_p_of_the_two_one_sided_tests() {
        let (first, second) = ([10.1, 9.8, 10.3, 10.0, 9.9], [10.2, 10.0, 10.4, 9.9, 10.1, 10.3]);
        let test = welch(&first, &second).unwrap();
        // By hand: means 10.02 and 10.15, variances 0.037 / 5 and 0.035 / 6, so a standard error of
        // 0.115036.
        assert_close(test.standard_error, 0.115_036, 1e-5);
        // Both tests separately.
        let upper = two_sided_t((0.5 + test.difference.mean) / test.standard_error, test.freedom) / 2.0;
        let lower = two_sided_t((0.5 - test.difference.mean) / test.standard_error, test.freedom) / 2.0;
        assert_close(test.equivalence(0.5), upper.max(lower), 1e-12);
        assert!(test.equivalence(0.5) < 0.05 && test.equivalence(0.2) > 0.05);
        // At the bound p is one half, and beyond it more.
        assert_close(test.equivalence(test.difference.mean.abs()), 0.5, 1e-12);
        assert!(test.equivalence(0.05) > 0.5);
        let same = welch(&[3.0; 4], &[3.0; 3]).unwrap();
        assert_eq!((same.equivalence(0.1), same.equivalence(0.0)), (0.0, 1.0));
    }

    #[test]
    fn constant_samples_differ_with_certainty_or_not_at_all() {
        assert_eq!(one_sample(&[0.0; 2]).map(|test| test.p), Some(1.0));
        assert_eq!(one_sample(&[1.0; 2]).map(|test| test.p), Some(0.0));
        assert_eq!(welch(&[3.0; 4], &[3.0; 3]).map(|test| test.p), Some(1.0));
        assert_eq!(welch(&[3.0; 4], &[2.0; 3]).map(|test| test.p), Some(0.0));
    }

    #[test]
    fn too_few_samples_have_no_test() {
        assert_eq!(one_sample(&[1.0]), None);
        assert_eq!(welch(&[1.0], &[2.0, 3.0]), None);
        assert_eq!(one_sample(&[]), None);
    }

    proptest::proptest! {
        #[test]
        fn the_interval_contains_zero_exactly_if_the_test_is_not_significant(
            samples in proptest::collection::vec(-10.0..10.0_f64, 2..12),
            shift in -10.0..10.0_f64,
        ) {
            let shifted: Vec<f64> = samples.iter().map(|sample| sample + shift).collect();
            let test = one_sample(&shifted).unwrap();
            proptest::prop_assume!((test.p - 0.05).abs() > 1e-9);
            assert_eq!(test.difference.contains(0.0), test.p > 0.05, "{test:?}");
        }

        #[test]
        fn swapping_the_samples_only_changes_the_sign(
            first in proptest::collection::vec(-10.0..10.0_f64, 2..12),
            second in proptest::collection::vec(-10.0..10.0_f64, 2..12),
        ) {
            let (there, back) = (welch(&first, &second).unwrap(), welch(&second, &first).unwrap());
            assert!((there.p - back.p).abs() < 1e-12 && (there.t + back.t).abs() <= 1e-9 * there.t.abs());
        }
    }
}
