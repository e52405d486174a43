//! Outliers of a sample (Iglewicz and Hoaglin 1993).

use super::median;

/// The smallest sample that is examined: one of five normal values would often be an outlier.
pub const FEWEST: usize = 10;

/// The modified z-score above which a value is an outlier.
const LIMIT: f64 = 3.5;

/// The indices of the outliers: values whose modified z-score, the distance from the median in
/// robust standard deviations, exceeds 3.5. Samples smaller than [`FEWEST`] are not examined.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let scale = if values.len() >= FEWEST { robust_deviation(values) } else { None };
    let Some((centre, deviation)) = scale.filter(|&(_, deviation)| deviation > 0.0) else { return Vec::new() };
    let is_outlier = |value: f64| (value - centre).abs() > LIMIT * deviation;
    (0..values.len()).filter(|&place| is_outlier(values[place])).collect()
}

/// The median, and the median of the distances from it, scaled to estimate the standard deviation
/// of a normal distribution. If more than half of the values are equal, the mean distance is used
/// instead.
fn robust_deviation(values: &[f64]) -> Option<(f64, f64)> {
    let centre = median(values)?;
    let distances: Vec<f64> = values.iter().map(|value| (value - centre).abs()).collect();
    let of_median = median(&distances)? / 0.6745;
    let of_mean = distances.iter().sum::<f64>() / distances.len() as f64 * 1.253314;
    Some((centre, if of_median > 0.0 { of_median } else { of_mean }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_far_from_the_rest_is_an_outlier() {
        // The median is 10.05, the median distance 0.25, and a robust standard deviation 0.3706:
        // 11.4 is 3.64 of them away, 11.3 only 3.37.
        let mut values = [10.0, 10.1, 9.8, 9.7, 10.3, 10.2, 9.9, 9.8, 10.4, 11.4];
        assert_eq!(outliers(&values), [9]);
        values[9] = 11.3;
        assert!(outliers(&values).is_empty());
        (values[0], values[9]) = (-3.0, 10.5);
        assert_eq!(outliers(&values), [0]);
    }

    #[test]
    fn one_value_among_many_equal_ones_is_an_outlier() {
        let mut values = [5.0; 12];
        assert!(outliers(&values).is_empty());
        values[3] = 5.1;
        assert_eq!(outliers(&values), [3]);
    }

    #[test]
    fn few_values_are_not_examined() {
        assert!(outliers(&[1.0, 1.1, 0.9, 1.0, 50.0]).is_empty());
    }

    proptest::proptest! {
        #[test]
        fn the_unit_of_the_values_does_not_matter(
            values in proptest::collection::vec(0.0..10.0_f64, 10..30),
            power in -3..4_i32,
        ) {
            // A power of two, which rounds nothing.
            let scaled: Vec<f64> = values.iter().map(|value| value * 2.0_f64.powi(power)).collect();
            assert_eq!(outliers(&values), outliers(&scaled));
        }
    }
}
