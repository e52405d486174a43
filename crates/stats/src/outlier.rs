//! Values that stand apart from the rest of their sample (Iglewicz and Hoaglin 1993).

use super::median;

/// Fewer values do not show what is usual among them: of five normal ones, one would often stand apart by this measure.
pub const FEWEST: usize = 10;

/// The modified z-score beyond which a value stands apart.
const LIMIT: f64 = 3.5;

/// The places of the values whose modified z-score, the distance from the median in robust standard deviations, is beyond
/// 3.5. Among fewer than [`FEWEST`] none is looked for.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let scale = if values.len() >= FEWEST { robust_deviation(values) } else { None };
    let Some((centre, deviation)) = scale.filter(|&(_, deviation)| deviation > 0.0) else { return Vec::new() };
    let stands_apart = |value: f64| (value - centre).abs() > LIMIT * deviation;
    (0..values.len()).filter(|&place| stands_apart(values[place])).collect()
}

/// The median, and the median of the distances from it, scaled so that it estimates a normal distribution's standard
/// deviation. Where more than half of the values are the same, the mean distance stands in.
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
    fn a_value_far_from_the_rest_stands_apart() {
        // The median is 10.05, the median distance 0.25, and a robust standard deviation 0.3706: 11.4 is 3.64 of them away,
        // 11.3 only 3.37.
        let mut values = [10.0, 10.1, 9.8, 9.7, 10.3, 10.2, 9.9, 9.8, 10.4, 11.4];
        assert_eq!(outliers(&values), [9]);
        values[9] = 11.3;
        assert!(outliers(&values).is_empty());
        (values[0], values[9]) = (-3.0, 10.5);
        assert_eq!(outliers(&values), [0]);
    }

    #[test]
    fn one_that_differs_from_many_equals_stands_apart() {
        let mut values = [5.0; 12];
        assert!(outliers(&values).is_empty());
        values[3] = 5.1;
        assert_eq!(outliers(&values), [3]);
    }

    #[test]
    fn nothing_is_said_of_few_values() {
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
