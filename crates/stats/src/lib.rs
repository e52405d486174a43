//! Statistics of a few samples: means with their 95 % intervals, and tests.
//!
//! Intervals are Student's. They hold for few samples if these are approximately normally
//! distributed, which the logarithms of durations are more than durations. So comparisons use
//! ratios, and ratios are averaged on the log scale: twice as fast and half as fast are equally far
//! from no difference.
//!
//! ```
//! // Three repetitions of two arms, in milliseconds; the second was disturbed in both arms.
//! let times: [(f64, f64); 3] = [(20.0, 10.0), (31.0, 15.0), (21.0, 10.4)];
//! let ratios = rowlock_stats::mean(&times.map(|(one, other)| (one / other).ln()));
//! let speedup = ratios.map(|ratio| ratio.map(f64::exp));
//! let (low, high) = speedup.and_then(|estimate| estimate.interval).unwrap_or_default();
//! assert!(1.9 < low && high < 2.2);
//! ```
#![forbid(unsafe_code)]

mod distribution;
pub mod mann_whitney;
pub mod many;
pub mod median;
pub mod modes;
pub mod outlier;
pub mod paired;
pub mod regression;
pub mod stages;
pub mod student;
pub mod trend;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// The significance level: a difference with a smaller p is significant.
pub const SIGNIFICANCE_LEVEL: f64 = 0.05;

/// A mean with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The arithmetic mean, or the geometric one of ratios.
    pub mean: f64,
    /// The lower and upper end of the 95 % interval of the mean; `None` for a single sample.
    pub interval: Option<(f64, f64)>,
    /// The number of samples.
    pub samples: usize,
}

impl Estimate {
    /// Converts the estimate to another scale; `scale` must be increasing.
    pub fn map(self, scale: impl Fn(f64) -> f64) -> Estimate {
        let interval = self.interval.map(|(low, high)| (scale(low), scale(high)));
        Estimate { mean: scale(self.mean), interval, ..self }
    }

    /// Half the width of the interval.
    pub fn half_width(&self) -> Option<f64> {
        self.interval.map(|(low, high)| (high - low) / 2.0)
    }

    /// Half the width of the interval over the absolute mean; `None` if the mean is zero.
    pub fn relative_half_width(&self) -> Option<f64> {
        Some(self.half_width().filter(|_| self.mean != 0.0)? / self.mean.abs())
    }

    /// Whether there is an interval and it contains `value`.
    pub fn contains(&self, value: f64) -> bool {
        self.interval.is_some_and(|(low, high)| low <= value && value <= high)
    }
}

/// Written as `mean`, `low`, `high` and `samples`, to six significant digits: more would only be
/// noise, and the last digits of a logarithm differ between C libraries.
impl Serialize for Estimate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_as("mean", self, serializer)
    }
}

/// Writes an estimate; `centre` is the name of its mean.
fn serialize_as<S: Serializer>(centre: &'static str, of: &Estimate, serializer: S) -> Result<S::Ok, S::Error> {
    let (low, high) = of.interval.unzip();
    let mut written = serializer.serialize_struct("Estimate", 4)?;
    written.serialize_field(centre, &six_digits(of.mean))?;
    written.serialize_field("low", &low.map(six_digits))?;
    written.serialize_field("high", &high.map(six_digits))?;
    written.serialize_field("samples", &of.samples)?;
    written.end()
}

/// Rounds a number to six significant digits.
pub fn six_digits(number: f64) -> f64 {
    // A printed number always parses, so the fallback is never used.
    format!("{number:.5e}").parse().unwrap_or(number)
}

/// The arithmetic mean of the samples with its interval; `None` without samples.
pub fn mean(samples: &[f64]) -> Option<Estimate> {
    let of_many = student::one_sample(samples).map(|test| test.difference);
    of_many.or_else(|| Some(Estimate { mean: average(samples)?, interval: None, samples: samples.len() }))
}

/// The arithmetic mean of the samples; `None` without samples.
pub fn average(samples: &[f64]) -> Option<f64> {
    (!samples.is_empty()).then(|| samples.iter().sum::<f64>() / samples.len() as f64)
}

/// The sum of the squared distances from `centre`.
fn sum_of_squares(samples: &[f64], centre: f64) -> f64 {
    samples.iter().map(|sample| (sample - centre).powi(2)).sum()
}

/// The median of the samples; `None` without samples.
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let odd = sorted.len() % 2 == 1;
    Some(if odd { upper } else { (sorted[sorted.len() / 2 - 1] + upper) / 2.0 })
}

/// Asserts that two numbers agree to a relative error.
#[cfg(test)]
#[track_caller]
fn assert_close(found: f64, expected: f64, relative: f64) {
    assert!((found - expected).abs() <= relative * expected.abs(), "{found} is not {expected}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_or_equal_samples_have_no_interval_or_one_of_no_width() {
        for (samples, interval) in [(&[3.0][..], None), (&[3.0; 3], Some((3.0, 3.0)))] {
            assert_eq!(mean(samples), Some(Estimate { mean: 3.0, interval, samples: samples.len() }));
        }
        assert_eq!(mean(&[]), None);
    }

    #[test]
    fn the_median_of_an_even_number_lies_in_the_middle() {
        assert_eq!(median(&[4.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    proptest::proptest! {
        #[test]
        fn an_interval_contains_its_mean_and_shifts_with_the_samples(
            samples in proptest::collection::vec(-1e6..1e6_f64, 2..20),
            shift in -1e6..1e6_f64,
        ) {
            let estimate = mean(&samples).unwrap();
            assert!(estimate.contains(estimate.mean));
            let shifted = mean(&samples.iter().map(|sample| sample + shift).collect::<Vec<_>>()).unwrap();
            assert!((shifted.mean - estimate.mean - shift).abs() < 1e-3);
            assert!((shifted.half_width().unwrap() - estimate.half_width().unwrap()).abs() < 1e-3);
        }
    }

    #[test]
    fn written_numbers_have_six_digits() {
        assert_eq!(six_digits(1.0 / 3.0), 0.333333);
        assert_eq!(six_digits(123_456_789.0), 123_457_000.0);
        assert_eq!(six_digits(0.0), 0.0);
    }
}
