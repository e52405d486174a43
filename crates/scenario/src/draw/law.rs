//! Probability laws from which spans are drawn.

use policy::Span;

use super::{Normal, Stream, normal_quantile, on_grid};
use crate::distribution::Empirical;
use crate::keys::LONGEST_SPAN;

/// The probability law of a span; numbers are nanoseconds.
///
/// Every law is drawn from by inversion, with exactly one number of the stream: longer spans belong
/// to larger numbers. So arms that differ in a law draw from the same random numbers, and a change
/// of one law does not change the draws of others.
#[derive(Clone, Debug, PartialEq)]
pub enum Law {
    /// The normal distribution.
    Normal(Normal),
    /// Uniform between two numbers.
    Uniform {
        /// The smallest.
        from: f64,
        /// The largest.
        to: f64,
    },
    /// The exponential distribution.
    Exponential {
        /// The mean.
        mean: f64,
    },
    /// The log-normal distribution: the exponential of a normal one.
    LogNormal(Normal),
    /// The values of a list.
    Empirical(Empirical),
}

impl Law {
    /// The log-normal law with this mean and standard deviation, both of the spans. The mean is
    /// above zero.
    pub fn log_normal(mean: f64, sd: f64) -> Law {
        let variance = libm::log1p((sd / mean) * (sd / mean));
        Law::LogNormal(Normal { mean: libm::log(mean) - variance / 2.0, sd: libm::sqrt(variance) })
    }

    /// Draws a span, rounded down to whole steps and at least one step long. It takes exactly one
    /// number from the stream. Spans are at most [`LONGEST_SPAN`].
    pub fn draw(&self, stream: &mut Stream, step: Span) -> Span {
        on_grid(self.quantile(stream.uniform()).min(LONGEST_SPAN.as_nanos() as f64), step)
    }

    /// The length that the share `p` of all draws does not exceed, in nanoseconds.
    fn quantile(&self, p: f64) -> f64 {
        match self {
            Law::Normal(Normal { mean, sd }) => mean + sd * normal_quantile(p),
            Law::Uniform { from, to } => from + p * (to - from),
            // The complement of a draw is exact.
            Law::Exponential { mean } => -mean * libm::log(1.0 - p),
            Law::LogNormal(Normal { mean, sd }) => libm::exp(mean + sd * normal_quantile(p)),
            Law::Empirical(values) => values.quantile(p).as_nanos() as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Distribution;

    const NANO: Span = Span::from_nanos(1);

    fn us(n: u64) -> Span {
        Span::from_micros(n)
    }

    const DRAWS: u32 = 50_000;

    /// The mean and the standard deviation of draws, in nanoseconds.
    fn moments(law: &Law) -> (f64, f64) {
        let mut stream = Stream::named(1, "crew", 0);
        let draws: Vec<f64> = (0..DRAWS).map(|_| law.draw(&mut stream, NANO).as_nanos() as f64).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn draws_have_the_requested_moments() {
        let third = 1.0_f64 / 12.0;
        for (distribution, mean, sd) in [
            (Distribution::Normal { mean: Span::from_nanos(5_320), sd: Span::from_nanos(532) }, 5_320.0, 532.0),
            (Distribution::Uniform { from: us(1), to: us(9) }, 5_000.0, 8_000.0 * third.sqrt()),
            (Distribution::Exponential { mean: us(5) }, 5_000.0, 5_000.0),
            (Distribution::LogNormal { mean: us(5), sd: us(3) }, 5_000.0, 3_000.0),
            (Distribution::exactly(us(5)), 5_000.0, 0.0),
        ] {
            let (of_draws, scatter) = moments(&distribution.law());
            assert_eq!(distribution.mean(), mean);
            // Rounding down subtracts half a nanosecond; the rest is within four standard errors.
            let limit = 0.5 + 4.0 * sd / f64::from(DRAWS).sqrt();
            assert!(
                (of_draws - mean).abs() <= limit && (scatter - sd).abs() <= 0.03 * sd,
                "{distribution:?}: {of_draws} {scatter}"
            );
        }
    }

    #[test]
    fn quantiles_match_the_closed_forms() {
        let near = |law: &Law, p, expected: f64| {
            let quantile = law.quantile(p);
            assert!((quantile / expected - 1.0).abs() < 1e-12, "{law:?} at {p}: {quantile} for {expected}");
        };
        near(&Law::Exponential { mean: 1e6 }, 0.5, 1e6 * std::f64::consts::LN_2);
        near(&Law::Exponential { mean: 1e6 }, 0.9, 1e6 * std::f64::consts::LN_10);
        near(&Law::Uniform { from: 1e6, to: 2e6 }, 0.25, 1.25e6);
        // The median is the mean over the root of 1 + (sd / mean)^2; the quantile of the normal
        // distribution at 0.975 is R's.
        let law = Law::log_normal(1e6, 1e6);
        near(&law, 0.5, 1e6 / 2.0_f64.sqrt());
        near(&law, 0.975, 1e6 / 2.0_f64.sqrt() * (1.959_963_984_540_054 * std::f64::consts::LN_2.sqrt()).exp());
        near(&Law::log_normal(1e6, 0.0), 0.3, 1e6);
    }

    fn any_law() -> impl Strategy<Value = Law> {
        let span = || (0_u64..1 << 50).prop_map(Span::from_nanos);
        let empirical = prop::collection::vec((span(), 1..9_u32), 1..20).prop_map(|list| {
            let (values, weights) = list.into_iter().map(|(value, weight)| (value, f64::from(weight))).unzip();
            Distribution::Empirical(Empirical::new(values, Some(weights)).unwrap())
        });
        prop_oneof![
            (span(), span()).prop_map(|(mean, sd)| Distribution::Normal { mean, sd }),
            (span(), span()).prop_map(|(from, more)| Distribution::Uniform { from, to: from + more }),
            span().prop_map(|mean| Distribution::Exponential { mean }),
            (span(), span()).prop_map(|(mean, sd)| Distribution::LogNormal { mean: mean + NANO, sd }),
            empirical,
        ]
        .prop_map(|distribution| distribution.law())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

        #[test]
        fn a_draw_is_whole_steps_takes_one_number_and_grows_with_it(law in any_law(), seed in any::<u64>(), step in 1_u64..100_000) {
            let step = Span::from_nanos(step);
            let start = Stream::named(seed, "x", 0);
            let (mut stream, mut numbers) = (start.clone(), start);
            let mut draws: Vec<(f64, Span)> = (0..20).map(|_| (numbers.uniform(), law.draw(&mut stream, step))).collect();
            prop_assert_eq!(stream.uniform(), numbers.uniform());
            for (_, draw) in &draws {
                prop_assert!(*draw >= step && draw.floor_to(step) == *draw && *draw <= LONGEST_SPAN, "{}", draw);
            }
            draws.sort_by(|one, other| one.0.total_cmp(&other.0));
            prop_assert!(draws.is_sorted_by_key(|(_, draw)| *draw), "{:?}", draws);
        }
    }
}
