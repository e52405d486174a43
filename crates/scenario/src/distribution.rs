//! The distribution of a span, as a scenario writes it.

use std::sync::Arc;

use policy::Span;
use serde::{Deserialize, Serialize};

use crate::draw::{Law, Normal};

/// The distribution from which spans are drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Distribution {
    /// The normal distribution; constant if the deviation is zero.
    Normal {
        /// The mean.
        mean: Span,
        /// The standard deviation.
        sd: Span,
    },
    /// The uniform distribution: all spans between two are equally likely.
    Uniform {
        /// The shortest.
        from: Span,
        /// The longest.
        to: Span,
    },
    /// The exponential distribution: the remaining wait does not depend on the time waited so far.
    Exponential {
        /// The mean, which is also the standard deviation.
        mean: Span,
    },
    /// The log-normal distribution: many short spans and a few very long ones.
    LogNormal {
        /// The mean of the spans, not of their logarithms.
        mean: Span,
        /// Their standard deviation.
        sd: Span,
    },
    /// Only these spans.
    Empirical(Empirical),
}

impl Distribution {
    /// The names of all distributions, in the order of the documentation.
    pub const NAMES: [&str; 5] = ["normal", "uniform", "exponential", "log-normal", "empirical"];

    /// A constant.
    pub const fn exactly(span: Span) -> Distribution {
        Distribution::Normal { mean: span, sd: Span::ZERO }
    }

    /// The only possible span, if it is written as a constant.
    pub fn constant(&self) -> Option<Span> {
        match self {
            Distribution::Normal { mean, sd } if sd.is_zero() => Some(*mean),
            _ => None,
        }
    }

    /// The name in scenario files.
    pub const fn name(&self) -> &'static str {
        match self {
            Distribution::Normal { .. } => Distribution::NAMES[0],
            Distribution::Uniform { .. } => Distribution::NAMES[1],
            Distribution::Exponential { .. } => Distribution::NAMES[2],
            Distribution::LogNormal { .. } => Distribution::NAMES[3],
            Distribution::Empirical(_) => Distribution::NAMES[4],
        }
    }

    /// The law to draw from.
    pub fn law(&self) -> Law {
        let nanos = |span: Span| span.as_nanos() as f64;
        match self {
            Distribution::Normal { mean, sd } => Law::Normal(Normal { mean: nanos(*mean), sd: nanos(*sd) }),
            Distribution::Uniform { from, to } => Law::Uniform { from: nanos(*from), to: nanos(*to) },
            Distribution::Exponential { mean } => Law::Exponential { mean: nanos(*mean) },
            Distribution::LogNormal { mean, sd } => Law::log_normal(nanos(*mean), nanos(*sd)),
            Distribution::Empirical(values) => Law::Empirical(values.clone()),
        }
    }

    /// The mean, in nanoseconds.
    pub fn mean(&self) -> f64 {
        match self {
            Distribution::Normal { mean, .. }
            | Distribution::Exponential { mean }
            | Distribution::LogNormal { mean, .. } => mean.as_nanos() as f64,
            Distribution::Uniform { from, to } => (from.as_nanos() as f64 + to.as_nanos() as f64) / 2.0,
            Distribution::Empirical(values) => values.mean(),
        }
    }
}

impl From<Span> for Distribution {
    fn from(span: Span) -> Distribution {
        Distribution::exactly(span)
    }
}

/// Observed spans, each as likely as it occurs in the list, or as its weight states. Copies share
/// the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Empirical(Arc<WeightedValues>);

/// At least one value; in ascending order.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct WeightedValues {
    values: Vec<Span>,
    /// As many as values, none below zero, and some above; or empty.
    weights: Vec<f64>,
    /// The sum of the weights up to each value.
    sums: Vec<f64>,
}

impl Empirical {
    /// These values, equally likely or with weights, in any order. Returns `None` without values,
    /// if the number of weights differs, or if a weight is below zero or none is above it.
    pub fn new(values: Vec<Span>, weights: Option<Vec<f64>>) -> Option<Empirical> {
        let is_weighted = weights.is_some();
        let weights = weights.unwrap_or_default();
        let fits = !is_weighted || weights.len() == values.len() && weights.iter().all(|weight| *weight >= 0.0);
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by_key(|&place| values[place]);
        let values: Vec<Span> = order.iter().map(|&place| values[place]).collect();
        if values.is_empty() || !fits {
            return None;
        }
        let weights: Vec<f64> = order.iter().filter_map(|&place| weights.get(place).copied()).collect();
        let mut sum = 0.0;
        let sums: Vec<f64> = weights
            .iter()
            .map(|weight| {
                sum += weight;
                sum
            })
            .collect();
        (!is_weighted || sum > 0.0 && sum.is_finite())
            .then(|| Empirical(Arc::new(WeightedValues { values, weights, sums })))
    }

    /// The values, in ascending order.
    pub fn values(&self) -> &[Span] {
        &self.0.values
    }

    /// The weight of each value, if they have weights.
    pub fn weights(&self) -> Option<&[f64]> {
        (!self.0.weights.is_empty()).then_some(self.0.weights.as_slice())
    }

    /// The smallest value that is at least as large as the share `p`, in (0, 1), of all draws.
    /// Takes time logarithmic in the list's length.
    pub fn quantile(&self, p: f64) -> Span {
        let WeightedValues { values, sums, .. } = &*self.0;
        let place = match sums.last() {
            Some(all) => sums.partition_point(|sum| *sum < p * all),
            None => (p * values.len() as f64) as usize,
        };
        values.get(place).or(values.last()).copied().unwrap_or(Span::ZERO)
    }

    fn mean(&self) -> f64 {
        let WeightedValues { values, weights, sums } = &*self.0;
        let nanos = values.iter().map(|value| value.as_nanos() as f64);
        match sums.last() {
            Some(all) => nanos.zip(weights).map(|(value, weight)| value * (weight / all)).sum(),
            None => nanos.sum::<f64>() / values.len() as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Span {
        Span::from_micros(n)
    }

    #[test]
    fn values_are_drawn_by_their_frequency_or_weight() {
        let seen = Empirical::new(vec![us(3), us(1), us(1), us(2)], None).unwrap();
        assert_eq!([0.01, 0.49, 0.51, 0.74, 0.76, 0.99].map(|p| seen.quantile(p)), [1, 1, 2, 2, 3, 3].map(us));
        assert_eq!(seen.mean(), 1750.0);
        let weighed = Empirical::new(vec![us(3), us(9), us(1)], Some(vec![3.0, 0.0, 1.0])).unwrap();
        assert_eq!([0.01, 0.24, 0.26, 0.99].map(|p| weighed.quantile(p)), [1, 1, 3, 3].map(us));
        assert_eq!((weighed.mean(), weighed.weights()), (2500.0, Some(&[1.0, 3.0, 0.0][..])));
    }

    #[test]
    fn invalid_lists_are_rejected() {
        let one = || vec![us(1)];
        let refused = [
            Empirical::new(Vec::new(), None),
            Empirical::new(one(), Some(Vec::new())),
            Empirical::new(one(), Some(vec![0.0])),
            Empirical::new(one(), Some(vec![f64::NAN])),
            Empirical::new(one(), Some(vec![-1.0])),
            Empirical::new(one(), Some(vec![f64::INFINITY])),
            Empirical::new(one(), Some(vec![1.0, 1.0])),
        ];
        assert!(refused.iter().all(Option::is_none), "{refused:?}");
    }
}
