//! Bootstrap intervals: how far a figure moves when the samples are drawn anew from themselves. For figures of which no
//! theory gives the distribution, such as a median or a ratio of means.
//!
//! The interval is bias-corrected and accelerated (BCa; Efron 1987): unlike plain percentiles it does not lean to one side
//! where the figure's distribution does. It needs samples in some number: below about ten any bootstrap is too narrow.

use scenario::draw::Stream;
use statrs::distribution::{ContinuousCDF, Normal};

use super::Estimate;

/// The figure of the samples with a 95 % interval from so many resamples, drawn from the given stream; nothing without
/// samples. Where all resamples give the same, the interval has no width; fewer than two samples have none.
pub fn bootstrap(
    samples: &[f64],
    figure: impl Fn(&[f64]) -> f64,
    resamples: usize,
    stream: &mut Stream,
) -> Option<Estimate> {
    let n = samples.len();
    if n == 0 {
        return None;
    }
    let mut drawn = vec![0.0; n];
    let mut replicate = || {
        drawn.fill_with(|| samples[stream.below(n as u64) as usize]);
        figure(&drawn)
    };
    let replicates: Vec<f64> = (0..resamples).map(|_| replicate()).collect();
    Some(estimate(samples, figure, replicates))
}

fn estimate(samples: &[f64], figure: impl Fn(&[f64]) -> f64, mut replicates: Vec<f64>) -> Estimate {
    let mean = figure(samples);
    replicates.sort_unstable_by(f64::total_cmp);
    let interval = if samples.len() > 1 { bca(mean, &jackknife(samples, figure), &replicates) } else { None };
    Estimate { mean, interval, samples: samples.len() }
}

/// The figure with each sample left out in turn.
fn jackknife(samples: &[f64], figure: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let without = |left_out: usize| {
        let rest: Vec<f64> = [&samples[..left_out], &samples[left_out + 1..]].concat();
        figure(&rest)
    };
    (0..samples.len()).map(without).collect()
}

/// The interval from sorted replicates.
fn bca(figure: f64, jackknife: &[f64], sorted: &[f64]) -> Option<(f64, f64)> {
    sorted.first()?;
    // How far the figure is from the median of its replicates, in standard deviations; ties count one half.
    let below = sorted.partition_point(|&replicate| replicate < figure) as f64;
    let up_to = sorted.partition_point(|&replicate| replicate <= figure) as f64;
    let normal = Normal::standard();
    let bias = normal.inverse_cdf((below + up_to) / (2.0 * sorted.len() as f64));
    // How fast its standard deviation changes with the figure.
    let centre = jackknife.iter().sum::<f64>() / jackknife.len() as f64;
    let power = |exponent| jackknife.iter().map(|value| (centre - value).powi(exponent)).sum::<f64>();
    let squares = power(2);
    let acceleration = if squares > 0.0 { power(3) / (6.0 * squares.powf(1.5)) } else { 0.0 };
    let end = |probability: f64| {
        let shifted = bias + normal.inverse_cdf(probability);
        let probability = normal.cdf(bias + shifted / (1.0 - acceleration * shifted));
        (!probability.is_nan()).then(|| quantile(sorted, probability))
    };
    Some((end(0.025)?, end(0.975)?))
}

/// The quantile of sorted values, interpolated linearly between them.
fn quantile(sorted: &[f64], probability: f64) -> f64 {
    let place = probability.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{assert_close, average, median};

    const SAMPLES: [f64; 5] = [4.1, 5.3, 4.8, 9.9, 4.4];

    fn mean(samples: &[f64]) -> f64 {
        average(samples).unwrap()
    }

    /// All 3125 ways to draw five of five.
    fn all_resamples(figure: impl Fn(&[f64]) -> f64) -> Vec<f64> {
        let digit = |number: usize, place: u32| SAMPLES[number / 5_usize.pow(place) % 5];
        (0..3125).map(|number| figure(&[0, 1, 2, 3, 4].map(|place| digit(number, place)))).collect()
    }

    #[test]
    fn the_interval_over_all_resamples_is_that_of_scipy() {
        // SciPy 1.17.1: scipy.stats.bootstrap((samples,), numpy.mean, n_resamples=5**5, method="BCa", rng=all), where the
        // generator `all` returns itertools.product(range(5), repeat=5) from its method `integers`.
        let (low, high) = estimate(&SAMPLES, mean, all_resamples(mean)).interval.unwrap();
        assert_close(low, 4.4799999999999995, 1e-12);
        assert_close(high, 8.8, 1e-12);
    }

    #[test]
    fn the_same_stream_gives_the_same_interval_and_another_one_close_to_it() {
        let samples: Vec<f64> = (0..40).map(|i| (f64::from(i) * 0.37).exp().ln_1p()).collect();
        let run = |seed| bootstrap(&samples, mean, 2000, &mut Stream::named(seed, "bootstrap", 0)).unwrap();
        assert_eq!(run(1), run(1));
        let ((low, high), (other_low, other_high)) = (run(1).interval.unwrap(), run(2).interval.unwrap());
        assert_ne!(low, other_low);
        let width = high - low;
        assert!((low - other_low).abs() < width / 10.0 && (high - other_high).abs() < width / 10.0);
    }

    #[test]
    fn samples_without_scatter_have_an_interval_of_no_width() {
        let of = |samples: &[f64]| {
            bootstrap(samples, |drawn| median(drawn).unwrap_or(0.0), 100, &mut Stream::named(1, "bootstrap", 0))
        };
        assert_eq!(of(&[2.0; 4]).and_then(|estimate| estimate.interval), Some((2.0, 2.0)));
        assert_eq!(of(&[2.0]).map(|estimate| estimate.interval), Some(None));
        assert_eq!(of(&[]), None);
    }
}
