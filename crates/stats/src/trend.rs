//! The rank test of Mann and Kendall: whether values tend to rise or fall in the order in which
//! they were taken.
//!
//! It detects a machine that heats up, and is not affected by a single outlier.

use super::distribution::two_sided_normal;

/// The result of the test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Kendall's tau against time: 1 if every value is larger than all before it, -1 if smaller.
    pub tau: f64,
    /// The probability of a tau at least this far from zero if the order were random.
    pub p: f64,
}

/// The exact distribution is used without ties and for at most this many values.
const EXACT_UP_TO: usize = 50;

/// Tests values in the order of time. `None` for fewer than two values or if all are equal.
pub fn trend(values: &[f64]) -> Option<Trend> {
    let n = values.len();
    let compare = |(i, later): (usize, &f64)| values[..i].iter().map(|earlier| sign(later - earlier)).sum::<i64>();
    let excess: i64 = values.iter().enumerate().map(compare).sum();
    let pairs = (n * n.saturating_sub(1) / 2) as f64;
    let (tied_pairs, tied_variance) = ties(values);
    if pairs - tied_pairs <= 0.0 {
        return None;
    }
    // Time has no ties, so ties reduce only one factor of the product.
    let tau = excess as f64 / (pairs * (pairs - tied_pairs)).sqrt();
    if tied_pairs == 0.0 && n <= EXACT_UP_TO {
        return Some(Trend { tau, p: exact(excess, n) });
    }
    let variance = (n * (n - 1) * (2 * n + 5)) as f64 / 18.0 - tied_variance;
    Some(Trend { tau, p: two_sided_normal(excess as f64 / variance.sqrt()) })
}

fn sign(difference: f64) -> i64 {
    i64::from(difference > 0.0) - i64::from(difference < 0.0)
}

/// The number of tied pairs, and the reduction of the variance.
fn ties(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let groups = sorted.chunk_by(|a, b| a == b).map(|tied| tied.len() as f64);
    groups.fold((0.0, 0.0), |(pairs, variance), t| {
        let of_group = t * (t - 1.0);
        (pairs + of_group / 2.0, variance + of_group * (2.0 * t + 5.0) / 18.0)
    })
}

/// Twice the share of all orders of `n` distinct values with at least this excess of rising pairs
/// over falling ones, or of falling ones over rising ones.
fn exact(excess: i64, n: usize) -> f64 {
    let pairs = n * (n - 1) / 2;
    // The number of orders by their falling pairs: a value can fall below any number before it.
    let mut ways = vec![0.0_f64; pairs + 1];
    ways[0] = 1.0;
    for before in 1..n {
        // A sliding sum over `before` + 1 entries, from the top down so that its inputs are still
        // unchanged.
        for falling in (0..=pairs).rev() {
            ways[falling] = ways[falling.saturating_sub(before)..=falling].iter().sum();
        }
    }
    // With k falling pairs, the excess is pairs - 2 k.
    let few = (pairs - excess.unsigned_abs() as usize) / 2;
    let total: f64 = ways.iter().sum();
    (2.0 * ways[..=few].iter().sum::<f64>() / total).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assert_close;

    #[test]
    fn trends_match_scipy() {
        // SciPy 1.17.1: scipy.stats.kendalltau(range(len(values)), values, method="exact"), and
        // "asymptotic" with ties
        let few = [3.0, 1.0, 4.0, 1.5, 5.0, 9.0, 2.0, 6.0];
        let rising = [1.0, 2.0, 3.0, 4.0, 5.0, 6.5, 6.0, 8.0, 9.0, 10.0];
        let tied = [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 2.0, 4.0, 4.0, 5.0, 6.0, 5.0];
        for (values, tau, p) in [
            (&few[..], 0.42857142857142855, 0.17886904761904762),
            (&rising, 0.9555555555555554, 5.5114638447971785e-06),
            (&tied, 0.8493327995650773, 0.0002141761534630682),
        ] {
            let found = trend(values).unwrap();
            assert_close(found.tau, tau, 1e-12);
            assert_close(found.p, p, 1e-9);
        }
    }

    #[test]
    fn equal_values_have_no_trend() {
        for values in [&[2.0; 5][..], &[2.0], &[]] {
            assert_eq!(trend(values), None);
        }
    }

    proptest::proptest! {
        #[test]
        fn reversing_time_only_changes_the_sign(
            values in proptest::collection::vec(0..8_u8, 2..70),
        ) {
            let mut values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let there = trend(&values);
            values.reverse();
            let back = trend(&values);
            assert_eq!(there.map(|trend| (-trend.tau + 0.0, trend.p)), back.map(|trend| (trend.tau + 0.0, trend.p)));
        }
    }
}
