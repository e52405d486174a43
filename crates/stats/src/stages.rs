//! Two-stage sampling: sample until the interval is narrow enough, with a valid interval (after
//! Stein 1945).
//!
//! Sampling until the usual interval is narrow enough stops when the samples happen to lie close
//! together, so the interval contains the true mean less often than stated. Stein's procedure uses
//! only the variance of a first stage. If that has n0 samples and the variance s², the mean of all
//! N samples, plus or minus t s / √N with the quantile t of n0 - 1 degrees of freedom, contains the
//! true mean with exactly the stated probability, as long as the decision to stop has used
//! variances only: the mean of normal samples is independent of them. So the demands of other
//! series do not matter either.
//!
//! Measured samples are not quite normal. So the usual interval from the variance of all samples is
//! computed too, and the wider of the two is reported: disturbances that occur only in the second
//! stage are not hidden by the first. The rule is then to sample until that interval is narrow
//! enough. A wider interval contains the true mean at least as often, and continuing because of the
//! second interval is again a decision by variances, so the guarantee holds. (The width is
//! requested as a share of the mean, which lets the mean influence the decision a little; the tests
//! show that this does not matter.)

use super::Estimate;
use super::distribution::two_sided_t_quantile;
use super::student::{self, TTest};

/// Samples in the order in which they were taken.
#[derive(Clone, Debug, PartialEq)]
pub struct TwoStageSamples {
    /// All samples.
    pub samples: Vec<f64>,
    /// The number of samples in the first stage: all, if there was no other.
    pub first: usize,
}

impl TwoStageSamples {
    /// Tests whether the mean is zero. Returns `None` for fewer than two samples.
    pub fn test(&self) -> Option<TTest> {
        let by_all = student::one_sample(&self.samples)?;
        if self.first >= self.samples.len() {
            return Some(by_all);
        }
        let by_first = student::one_sample_with_variance_of(&self.samples[..self.first], &self.samples);
        Some(
            by_first
                .filter(|by_first| by_first.difference.half_width() > by_all.difference.half_width())
                .unwrap_or(by_all),
        )
    }

    /// The mean with its interval; `None` without samples.
    pub fn mean(&self) -> Option<Estimate> {
        self.test().map(|test| test.difference).or_else(|| super::mean(&self.samples))
    }

    /// The number of samples until half the width of the interval is at most this share of the
    /// mean, such as 0.02, if it shrinks as expected; the present number once it is that narrow.
    /// `None` if there is no interval, or if the mean is zero.
    pub fn needed(&self, share: f64) -> Option<u64> {
        let ratio = self.mean()?.relative_half_width()? / share;
        let n = self.samples.len() as u64;
        // Beyond the range of u64 it saturates; no experiment gets that far.
        Some(if ratio <= 1.0 { n } else { ((n as f64 * ratio * ratio).ceil() as u64).max(n + 1) })
    }
}

/// The total number of samples that will narrow an interval to this share of the mean if the
/// variance stays the same. A forecast for display, less strict than [`TwoStageSamples::needed`]:
/// more samples also improve the estimate of the variance.
pub fn forecast(share: f64, samples: &[f64]) -> Option<u64> {
    let n = samples.len() as f64;
    let reach = two_sided_t_quantile(0.95, n - 1.0)?;
    let per_root = super::mean(samples)?.relative_half_width()? / reach * n.sqrt();
    let fits = |n: u64| {
        two_sided_t_quantile(0.95, n as f64 - 1.0).is_some_and(|reach| reach * per_root / (n as f64).sqrt() <= share)
    };
    // The interval narrows with every sample, so the first sufficient number is found by bisection.
    let (mut few, mut enough) = (1, (1_u64..40).map(|power| 1 << power).find(|&n| fits(n))?);
    while enough - few > 1 {
        let middle = few.midpoint(enough);
        *(if fits(middle) { &mut enough } else { &mut few }) = middle;
    }
    Some(enough)
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::draw::Stream;

    const TRUTH: f64 = 100.0;

    /// Draws around [`TRUTH`]: normal ones, or skewed ones with the same mean.
    fn draw(stream: &mut Stream, skewed: bool) -> f64 {
        let (radius, angle) = (stream.uniform(), stream.uniform());
        let normal = (-2.0 * radius.ln()).sqrt() * (angle * std::f64::consts::TAU).cos();
        let sd = 0.15_f64;
        if skewed { TRUTH * (sd * normal - sd * sd / 2.0).exp() } else { TRUTH * (1.0 + sd * normal) }
    }

    fn by_stages(share: f64, first: usize, mut draw: impl FnMut() -> f64) -> Estimate {
        let mut stages = TwoStageSamples { samples: Vec::new(), first };
        let mut needed = first;
        while stages.samples.len() < needed {
            stages.samples.resize_with(needed, &mut draw);
            needed = stages.needed(share).unwrap() as usize;
        }
        stages.mean().unwrap()
    }

    /// Samples until the interval happens to be narrow enough.
    fn naive(share: f64, first: usize, mut draw: impl FnMut() -> f64) -> Estimate {
        let mut samples: Vec<f64> = (0..first).map(|_| draw()).collect();
        loop {
            let estimate = crate::mean(&samples).unwrap();
            if estimate.half_width().unwrap() <= share * estimate.mean {
                return estimate;
            }
            samples.push(draw());
        }
    }

    /// The share of 2000 intervals that contain the true mean, in percent.
    fn coverage(skewed: bool, rule: impl Fn(&mut dyn FnMut() -> f64) -> Estimate) -> f64 {
        let contains = |trial: &u32| {
            let mut stream = Stream::named(11, "coverage", *trial);
            rule(&mut || draw(&mut stream, skewed)).contains(TRUTH)
        };
        (0..2000).filter(contains).count() as f64 / 20.0
    }

    #[test]
    fn two_stages_have_the_stated_coverage_and_naive_stopping_does_not() {
        for skewed in [false, true] {
            for (first, share) in [(3, 0.1), (5, 0.05), (10, 0.04)] {
                let staged = coverage(skewed, |draw| by_stages(share, first, draw));
                assert!(staged >= 94.0, "skewed {skewed}, {first} first, {share}: {staged} %");
            }
            let stopped = coverage(skewed, |draw| naive(0.1, 3, draw));
            assert!(stopped < 90.0, "skewed {skewed}: {stopped} %");
        }
    }

    #[test]
    fn the_present_samples_suffice_for_the_present_interval() {
        let samples = [100.0, 104.0, 97.0, 101.0, 99.0, 103.0];
        let estimate = crate::mean(&samples).unwrap();
        let share = estimate.half_width().unwrap() / estimate.mean;
        let stages = |samples: &[f64]| TwoStageSamples { samples: samples.to_vec(), first: samples.len() };
        let needed = |share| stages(&samples).needed(share);
        assert_eq!((needed(share), forecast(share * 1.000_001, &samples)), (Some(6), Some(6)));
        // By definition, half the width takes four times as many samples, or fewer if the quantile
        // shrinks too.
        assert_eq!(needed(share / 2.0 * 1.000_001), Some(24));
        assert!(forecast(share / 2.0, &samples) < Some(24));
        // Samples that lie closer together than requested are enough.
        assert_eq!(needed(1.0), Some(6));
        assert_eq!(stages(&[5.0, 5.0]).needed(0.1), Some(2));
        for nothing in [&[][..], &[5.0], &[1.0, -1.0]] {
            assert_eq!((stages(nothing).needed(0.1), forecast(0.1, nothing)), (None, None));
        }
    }

    #[test]
    fn an_outlier_of_the_second_stage_widens_the_interval() {
        let calm = TwoStageSamples { samples: vec![10.0, 10.1, 9.9, 10.0, 10.1, 9.9], first: 4 };
        let disturbed = TwoStageSamples { samples: vec![10.0, 10.1, 9.9, 10.0, 10.1, 14.0], first: 4 };
        let by_all = crate::mean(&disturbed.samples).unwrap();
        assert_eq!(disturbed.mean(), Some(by_all));
        let by_first = calm.mean().and_then(|mean| mean.half_width()).unwrap();
        let all = crate::mean(&calm.samples).and_then(|mean| mean.half_width()).unwrap();
        assert!(by_first > all, "three degrees of freedom instead of five: {by_first} {all}");
        assert_eq!(TwoStageSamples { samples: vec![1.0], first: 1 }.mean().map(|mean| mean.interval), Some(None));
    }
}
