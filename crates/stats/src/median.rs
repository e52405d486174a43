//! The median with a distribution-free interval: its ends are two of the samples.
//!
//! The true median lies between the `k`-th smallest and the `k`-th largest of `n` samples unless
//! fewer than `k` of them are on one side of it. Each sample is on either side with probability one
//! half, so the probability of that is a binomial sum (Conover, "Practical Nonparametric
//! Statistics", section 3.2).

use serde::{Serialize, Serializer};

use super::{Estimate, serialize_as};

/// A median with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Median {
    /// The median.
    pub median: f64,
    /// Contains the true median with a probability of at least 95 %; `None` below six samples.
    pub interval: Option<(f64, f64)>,
    /// The number of samples.
    pub samples: usize,
}

impl Median {
    /// The median of the samples; `None` without samples.
    pub fn of(samples: &[f64]) -> Option<Median> {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let n = sorted.len();
        let interval = rank(n).map(|k| (sorted[k - 1], sorted[n - k]));
        Some(Median { median: super::median(&sorted)?, interval, samples: n })
    }

    /// The median as an estimate, for plots and tables.
    pub fn estimate(&self) -> Estimate {
        Estimate { mean: self.median, interval: self.interval, samples: self.samples }
    }
}

/// Written as `median`, `low`, `high` and `samples`, to six significant digits.
impl Serialize for Median {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_as("median", &self.estimate(), serializer)
    }
}

/// The largest `k` for which the interval contains the median with a probability of at least 95 %.
fn rank(samples: usize) -> Option<usize> {
    // The probability that fewer than k are on one given side, term by term.
    let mut term = 0.5_f64.powi(i32::try_from(samples).unwrap_or(i32::MAX));
    let (mut below, mut k) = (0.0, 0);
    loop {
        below += term;
        if 2.0 * below > 0.05 || term == 0.0 {
            return (k > 0).then_some(k);
        }
        term *= (samples - k) as f64 / (k + 1) as f64;
        k += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_interval_match_the_table() {
        // Conover, and any table of the two-sided sign test at 5 %: the largest significant number
        // of signs, and one more.
        let of: [(usize, usize); 9] = [(5, 0), (6, 1), (8, 1), (9, 2), (11, 2), (12, 3), (20, 6), (25, 8), (50, 18)];
        for (samples, k) in of {
            assert_eq!(rank(samples).unwrap_or(0), k, "{samples}");
        }
    }

    #[test]
    fn a_median_of_few_samples_has_no_interval_and_one_of_eleven_leaves_out_the_outermost() {
        let samples: Vec<f64> = (1..=11).map(f64::from).collect();
        assert_eq!(Median::of(&samples), Some(Median { median: 6.0, interval: Some((2.0, 10.0)), samples: 11 }));
        assert_eq!(Median::of(&samples[..2]), Some(Median { median: 1.5, interval: None, samples: 2 }));
        assert_eq!(Median::of(&[]), None);
    }
}
