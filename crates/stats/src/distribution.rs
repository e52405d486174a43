//! Tails and quantiles of the distributions that the tests use.

use statrs::distribution::{Continuous, ContinuousCDF, StudentsT};
use statrs::function::beta::checked_beta_reg;
use statrs::function::erf::erfc;

/// The probability that Student's t with this many degrees of freedom is at least as far from zero
/// as `t`; NaN if there is no such distribution.
pub(crate) fn two_sided_t(t: f64, freedom: f64) -> f64 {
    checked_beta_reg(freedom / 2.0, 0.5, freedom / (freedom + t * t)).unwrap_or(f64::NAN)
}

/// The value that the distance of Student's t from zero exceeds with probability 1 - `confidence`:
/// 2.776 for 0.95 and four degrees of freedom. `None` if there is no such distribution.
pub(crate) fn two_sided_t_quantile(confidence: f64, freedom: f64) -> Option<f64> {
    let student = StudentsT::new(0.0, 1.0, freedom).ok().filter(|_| (0.0..1.0).contains(&confidence))?;
    let mut quantile = student.inverse_cdf(0.5 + confidence / 2.0);
    // The library's inverse has about six digits; two steps of Newton's method give the rest.
    for _ in 0..2 {
        let excess = two_sided_t(quantile, freedom) - (1.0 - confidence);
        quantile += excess / (2.0 * student.pdf(quantile));
    }
    Some(quantile)
}

/// The probability that F with these degrees of freedom is at least `f`.
pub(crate) fn upper_f(f: f64, numerator: f64, denominator: f64) -> f64 {
    let below = denominator / (denominator + numerator * f);
    checked_beta_reg(denominator / 2.0, numerator / 2.0, below).unwrap_or(f64::NAN)
}

/// The probability that a standard normal variable is at least as far from zero as `z`.
pub(crate) fn two_sided_normal(z: f64) -> f64 {
    erfc(z.abs() / std::f64::consts::SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assert_close;

    // Stored values from SciPy 1.17.1.

    #[test]
    fn quantiles_of_t_match_scipy() {
        // scipy.stats.t.ppf(0.5 + confidence / 2, freedom)
        for (confidence, freedom, quantile) in [
            (0.95, 1.0, 12.706204736174694),
            (0.95, 2.0, 4.302652729749462),
            (0.95, 4.5, 2.6589123472044034),
            (0.95, 9.0, 2.262157162798205),
            (0.95, 1e3, 1.9623390808264083),
            (0.95, 1e6, 1.959966356814107),
            (0.99, 7.0, 3.4994832973504924),
            (0.9998, 3.0, 22.203742273205),
        ] {
            assert_close(two_sided_t_quantile(confidence, freedom).unwrap(), quantile, 1e-10);
        }
        assert_eq!(two_sided_t_quantile(0.95, 0.0), None);
    }

    #[test]
    fn tails_match_scipy() {
        // 2 * scipy.stats.t.sf(t, freedom)
        for (t, freedom, p) in [
            (0.1, 3.0, 0.9266523488008059),
            (-2.5, 4.0, 0.06676654481198814),
            (12.0, 9.0, 7.699886222985653e-07),
            (60.0, 4.0, 4.621068727635128e-07),
            (5.0, 200.0, 1.2501981277715407e-06),
            (1.96, 1e6, 0.04999606758526985),
        ] {
            assert_close(two_sided_t(t, freedom), p, 1e-9);
        }
        // scipy.stats.f.sf(f, numerator, denominator)
        for (f, numerator, denominator, p) in [
            (330.285339234588, 6.0, 9.0, 4.984030528724813e-10),
            (1.2, 2.0, 10.0, 0.3411077401491927),
            (80.0, 3.0, 40.0, 5.987688752497379e-17),
        ] {
            assert_close(upper_f(f, numerator, denominator), p, 1e-9);
        }
        // 2 * scipy.stats.norm.sf(z)
        for (z, p) in [
            (0.5, 0.6170750774519738),
            (-1.96, 0.04999579029644087),
            (4.2, 2.669149803181262e-05),
            (9.0, 2.2571768119076647e-19),
        ] {
            assert_close(two_sided_normal(z), p, 1e-9);
        }
    }
}
