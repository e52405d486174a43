//! Corrections for multiple tests: five of a hundred comparisons of equals have p below 5 %.

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
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut least = 0.0_f64;
    for (rank, which) in order.into_iter().enumerate() {
        least = least.max((all - rank) as f64 * p_values[which]).min(1.0);
        adjusted[which] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assert_close;

    const P: [f64; 7] = [0.01, 0.04, 0.03, 0.005, 0.2, 0.9, 0.005];

    #[test]
    fn corrections_match_statsmodels() {
        // statsmodels 0.15, statsmodels.stats.multitest.multipletests(p, method="holm")
        let by_holm = [0.05, 0.12, 0.12, 0.035, 0.4, 0.9, 0.035];
        let among_eight = [0.08, 0.24, 0.21];
        for (adjusted, expected) in [(holm(&P), &by_holm[..]), (holm_among(8, &P[..3]), &among_eight)] {
            assert_eq!(adjusted.len(), expected.len());
            adjusted.iter().zip(expected).for_each(|(&found, &expected)| assert_close(found, expected, 1e-14));
        }
        assert!(holm(&[]).is_empty());
    }

    proptest::proptest! {
        #[test]
        fn corrections_raise_p_values_and_keep_their_order(p in proptest::collection::vec(0.0..=1.0_f64, 1..20)) {
            let adjusted = holm(&p);
            for (i, &one) in p.iter().enumerate() {
                assert!(one <= adjusted[i] && adjusted[i] <= 1.0);
                for (j, &other) in p.iter().enumerate() {
                    assert!(one > other || adjusted[i] <= adjusted[j]);
                }
            }
        }
    }
}
