//! Ratios of durations.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The time of one arm divided by that of another: the geometric mean of the ratios within the
/// repetitions, with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) mean: f64,
    pub(crate) interval: Option<(f64, f64)>,
}

impl Ratio {
    /// The ratio of two series, repetition by repetition. `None` if they are empty.
    pub(crate) fn of(one: &[f64], other: &[f64]) -> Option<Ratio> {
        let logarithms: Vec<f64> = one.iter().zip(other).map(|(one, other)| (one / other).ln()).collect();
        let count = logarithms.len() as f64;
        if logarithms.is_empty() {
            return None;
        }
        let mean = logarithms.iter().sum::<f64>() / count;
        let variance = logarithms.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let interval = StudentsT::new(0.0, 1.0, count - 1.0).ok().map(|student| {
            let half = student.inverse_cdf(0.975) * (variance / count).sqrt();
            ((mean - half).exp(), (mean + half).exp())
        });
        Some(Ratio { mean: mean.exp(), interval })
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.interval {
            Some((low, high)) => write!(f, "{:.2} [{low:.2}, {high:.2}]", self.mean),
            None => write!(f, "{:.2}", self.mean),
        }
    }
}

/// The median of the values. NaN if there are none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count => f64::midpoint(values[(count - 1) / 2], values[count / 2]),
    }
}
