//! Corrections for multiple tests: of a hundred comparisons of equals, five are "significant at 5
//! %" by chance.

/// Adjusts p values so that, if those below 5 % are called significant, the probability of even one
/// false positive is at most 5 % (Holm 1979). Returned in the order of the arguments. Valid for any
/// dependence between the tests.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    holm_among(p_values.len(), p_values)
}

/// The same if these are the p values of only some of `all` tests. The others count as not
/// significant, which is conservative.
pub fn holm_among(all: usize, p_values: &[f64]) -> Vec<f64> {
    let all = all.max(p_values.len());
    let mut adjusted = vec![1.0; p_values.len()];
    let mut least = 0.0_f64;
    for (rank, which) in ascending(p_values).into_iter().enumerate() {
        least = least.max((all - rank) as f64 * p_values[which]).min(1.0);
        adjusted[which] = least;
    }
    adjusted
}

/// Adjusts p values so that, if those below 5 % are called significant, at most 5 % of them are
/// expected to be false positives (Benjamini and Hochberg 1995). Returned in the order of the
/// arguments. Valid for tests that are independent or positively dependent.
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let (n, order) = (p_values.len(), ascending(p_values));
    let mut adjusted = vec![1.0; n];
    let mut most = 1.0_f64;
    for (rank, &which) in order.iter().enumerate().rev() {
        most = most.min(n as f64 / (rank + 1) as f64 * p_values[which]);
        adjusted[which] = most;
    }
    adjusted
}

/// The indices of the values from the smallest to the largest.
fn ascending(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assert_close;

    const P: [f64; 7] = [0.01, 0.04, 0.03, 0.005, 0.2, 0.9, 0.005];

    #[test]
    fn corrections_match_statsmodels() {
        // statsmodels 0.15, statsmodels.stats.multitest.multipletests(p, method="holm") and
        // method="fdr_bh"
        let by_holm = [0.05, 0.12, 0.12, 0.035, 0.4, 0.9, 0.035];
        let by_hochberg = [0.023333333333333334, 0.056, 0.0525, 0.0175, 0.23333333333333336, 0.9, 0.0175];
        for (adjusted, expected) in [(holm(&P), by_holm), (benjamini_hochberg(&P), by_hochberg)] {
            for (found, expected) in adjusted.into_iter().zip(expected) {
                assert_close(found, expected, 1e-14);
            }
        }
        for (found, expected) in holm_among(8, &P[..3]).into_iter().zip([0.08, 0.24, 0.21]) {
            assert_close(found, expected, 1e-14);
        }
        assert!(holm(&[]).is_empty() && benjamini_hochberg(&[]).is_empty());
    }

    proptest::proptest! {
        #[test]
        fn corrections_raise_p_values_in_order_and_are_milder_for_rates(
            p in proptest::collection::vec(0.0..=1.0_f64, 1..20),
        ) {
            let (by_holm, by_hochberg) = (holm(&p), benjamini_hochberg(&p));
            for (i, &one) in p.iter().enumerate() {
                assert!(one <= by_hochberg[i] && by_hochberg[i] <= by_holm[i] && by_holm[i] <= 1.0);
                for (j, &other) in p.iter().enumerate() {
                    assert!(one > other || (by_holm[i] <= by_holm[j] && by_hochberg[i] <= by_hochberg[j]));
                }
            }
        }
    }
}
