//! The rank test of Mann and Whitney: whether values of one sample tend to be larger than those of
//! another.
//!
//! It assumes no distribution, so a heavy tail can neither hide a difference nor create one.

use super::distribution::two_sided_normal;

/// The result of the test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannWhitney {
    /// The number of pairs, a value of each sample, whose first is larger; ties count one half.
    pub u: f64,
    /// The probability of a U at least this far from its middle if the distributions were equal.
    pub p: f64,
}

/// The exact distribution is used without ties and if both samples are at most this large.
const EXACT_UP_TO: usize = 50;

/// Compares two independent samples, two-sided. Returns `None` if either is empty.
pub fn mann_whitney(first: &[f64], second: &[f64]) -> Option<MannWhitney> {
    if first.is_empty() || second.is_empty() {
        return None;
    }
    let (n, m) = (first.len(), second.len());
    let mut all: Vec<(f64, bool)> =
        first.iter().map(|&value| (value, true)).chain(second.iter().map(|&value| (value, false))).collect();
    all.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
    // The rank of tied values is the mean of the ranks that they share.
    let (mut rank_sum, mut ties, mut before) = (0.0, 0.0, 0);
    for tied in all.chunk_by(|(a, _), (b, _)| a == b) {
        let length = tied.len() as f64;
        let of_first = tied.iter().filter(|(_, is_first)| *is_first).count() as f64;
        rank_sum += of_first * (before as f64 + (length + 1.0) / 2.0);
        ties += length.powi(3) - length;
        before += tied.len();
    }
    let u = rank_sum - (n * (n + 1)) as f64 / 2.0;
    if ties == 0.0 && n <= EXACT_UP_TO && m <= EXACT_UP_TO {
        return Some(MannWhitney { u, p: exact(u, n, m) });
    }
    let (n, m) = (n as f64, m as f64);
    let total = n + m;
    let variance = n * m / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    let distance = ((u - n * m / 2.0).abs() - 0.5).max(0.0);
    let p = if variance > 0.0 { two_sided_normal(distance / variance.sqrt()) } else { 1.0 };
    Some(MannWhitney { u, p })
}

/// Twice the share of the orders of `n` and `m` distinct values with a U at least this far out.
fn exact(u: f64, n: usize, m: usize) -> f64 {
    // The number of ways to choose k of the first ranks with a given sum above the smallest
    // possible one: the coefficients of the Gaussian binomial, built up by adding one rank after
    // the other.
    let largest = n * m;
    let mut ways = vec![vec![0.0_f64; largest + 1]; n + 1];
    ways[0][0] = 1.0;
    for rank in 0..n + m {
        for k in (1..=n.min(rank + 1)).rev() {
            let gain = rank + 1 - k;
            for sum in (gain..=largest).rev() {
                ways[k][sum] += ways[k - 1][sum - gain];
            }
        }
    }
    let far = (u as usize).max(largest - u as usize);
    let total: f64 = ways[n].iter().sum();
    (2.0 * ways[n][far..].iter().sum::<f64>() / total).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assert_close;

    #[track_caller]
    fn assert_test(first: &[f64], second: &[f64], u: f64, p: f64) {
        let found = mann_whitney(first, second).unwrap();
        assert_eq!(found.u, u);
        assert_close(found.p, p, 1e-10);
        let turned = mann_whitney(second, first).unwrap();
        assert_eq!(turned.u, (first.len() * second.len()) as f64 - u);
        assert_close(turned.p, p, 1e-10);
    }

    // Stored values from SciPy 1.17.1: scipy.stats.mannwhitneyu(first, second, method="exact") and
    // method="asymptotic".

    #[test]
    fn few_values_without_ties_match_scipys_exact_test() {
        let first = [12.1, 14.3, 11.8, 13.5, 15.2, 12.9];
        let second = [15.8, 14.9, 17.3, 16.1, 20.4, 15.5, 18.2];
        assert_test(&first, &second, 1.0, 0.002331002331002331);
        let (first, second) = ([10.2, 11.9, 9.8, 12.4, 10.7], [9.1, 11.2, 9.9, 10.8, 9.6]);
        assert_test(&first, &second, 18.0, 0.30952380952380953);
        let first: Vec<f64> = (0..30).map(f64::from).collect();
        let second: Vec<f64> = (0..31).map(|i| f64::from(i) + 3.5).collect();
        assert_test(&first, &second, 351.0, 0.10182894569154137);
    }

    #[test]
    fn ties_and_many_values_match_scipys_approximation() {
        let (first, second) = ([1.0, 2.0, 2.0, 3.0, 5.0, 5.0, 8.0], [2.0, 4.0, 5.0, 5.0, 6.0, 9.0]);
        assert_test(&first, &second, 13.0, 0.27454880138116333);
        let first: Vec<f64> = (0..60).map(f64::from).collect();
        let second: Vec<f64> = (0..55).map(|i| f64::from(i) * 1.3 + 4.05).collect();
        assert_test(&first, &second, 1210.0, 0.013865560073518511);
    }

    #[test]
    fn equal_values_are_not_different() {
        assert_eq!(mann_whitney(&[2.0; 3], &[2.0; 4]).map(|test| test.p), Some(1.0));
        assert_eq!(mann_whitney(&[], &[2.0]), None);
    }

    proptest::proptest! {
        #[test]
        fn an_increasing_scale_does_not_change_the_test(
            first in proptest::collection::vec(0.1..10.0_f64, 1..12),
            second in proptest::collection::vec(0.1..10.0_f64, 1..12),
        ) {
            let squared = |samples: &[f64]| samples.iter().map(|sample| sample.powi(2)).collect::<Vec<_>>();
            assert_eq!(mann_whitney(&first, &second), mann_whitney(&squared(&first), &squared(&second)));
        }
    }
}
