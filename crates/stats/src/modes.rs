//! The dip test: whether a sample has more than one mode (Hartigan and Hartigan 1985).
//!
//! The dip is the largest distance between the sample's distribution function and the nearest
//! unimodal one. It is computed by its definition: a tube of that radius around the sample's
//! function is just wide enough for a taut string through it to bend left first and right
//! afterwards, as a unimodal function does. (Of all functions in a tube, the taut string has the
//! fewest modes; Davies and Kovac 2001.)

/// The smallest sample that is tested: fewer values cannot distinguish two modes from one.
pub const FEWEST: usize = 20;

/// The critical values: the square root of the number of values times the dip that one sample in a
/// hundred from a uniform distribution exceeds; from other unimodal distributions fewer do.
/// Quantiles of `diptest.dipstat(numpy.random.default_rng(2024).random(n))` for Python, 200 000 of
/// them for each number up to 50, 100 000 up to 200 and 40 000 beyond.
const CRITICAL: [(usize, f64); 7] =
    [(20, 0.540), (30, 0.557), (50, 0.573), (100, 0.590), (200, 0.604), (500, 0.613), (1000, 0.623)];

/// Whether the values have more than one mode, at the 1 % level. False for fewer than [`FEWEST`].
pub fn has_several_modes(values: &[f64]) -> bool {
    values.len() >= FEWEST && !contains_unimodal(&knots(values), critical(values.len()))
}

/// The critical dip for this number of values, interpolated in its inverse.
fn critical(n: usize) -> f64 {
    let place = CRITICAL.partition_point(|&(of, _)| of <= n).clamp(1, CRITICAL.len() - 1);
    let ((fewer, low), (more, high)) = (CRITICAL[place - 1], CRITICAL[place]);
    let inverse = |n: usize| 1.0 / n as f64;
    let share = ((inverse(fewer) - inverse(n)) / (inverse(fewer) - inverse(more))).min(1.0);
    (low + (high - low) * share) / (n as f64).sqrt()
}

/// The corners of the sample's distribution function: before and after each distinct value.
fn knots(values: &[f64]) -> Vec<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let mut knots = Vec::with_capacity(2 * sorted.len());
    let mut before = 0;
    for same in sorted.chunk_by(|a, b| a == b) {
        knots.push((same[0], before as f64 / n));
        before += same.len();
        knots.push((same[0], before as f64 / n));
    }
    knots
}

/// Whether a tube of this radius around the step function contains a unimodal function.
fn contains_unimodal(knots: &[(f64, f64)], radius: f64) -> bool {
    // Before the first value and after the last one the function may be arbitrarily flat. So the
    // string starts at the upper edge and ends at the lower one, where bending is easiest.
    let Some(((first, _), (last, _))) = knots.first().zip(knots.last()) else { return true };
    let end = (*last, 1.0 - radius);
    let mut at = (*first, radius);
    let (mut next, mut steepest, mut falling) = (1, 0.0_f64, false);
    while next < knots.len() {
        // The bounds of the slope that passes every corner so far, and the corners that set them.
        let (mut low, mut high) = ((f64::NEG_INFINITY, next, at), (f64::INFINITY, next, at));
        let mut bend = None;
        for (place, &(x, y)) in knots.iter().enumerate().skip(next) {
            let is_end = place == knots.len() - 1;
            let (under, over) = if is_end { (end, end) } else { ((x, y - radius), (x, y + radius)) };
            let (to_under, to_over) = (slope(at, under, f64::NEG_INFINITY), slope(at, over, f64::INFINITY));
            if to_under > high.0 {
                bend = Some(high);
                break;
            }
            if to_over < low.0 {
                bend = Some(low);
                break;
            }
            if to_under >= low.0 {
                low = (to_under, place, under);
            }
            if to_over <= high.0 {
                high = (to_over, place, over);
            }
        }
        // The end is a single point: from here the string is straight.
        let (slope, place, corner) = bend.unwrap_or((slope(at, end, 0.0), knots.len() - 1, end));
        if slope < steepest {
            falling = true;
        } else if falling && slope > steepest {
            return false;
        }
        steepest = slope;
        at = corner;
        next = place + 1;
    }
    true
}

/// The slope from one point to another that is not to its left: infinite straight up or down, and
/// `there` if the points are equal.
fn slope((x, y): (f64, f64), (to_x, to_y): (f64, f64), there: f64) -> f64 {
    let (run, rise) = (to_x - x, to_y - y);
    match (run > 0.0, rise == 0.0) {
        (true, _) => rise / run,
        (false, true) => there,
        (false, false) => rise * f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assert_close;
    use scenario::draw::Stream;

    /// The dip of the values: 0 for fewer than two, or if all are equal.
    fn dip(values: &[f64]) -> f64 {
        let knots = knots(values);
        // No dip is larger than a quarter. Fifty bisections reach the precision of a float.
        let (mut too_narrow, mut wide) = (0.0, 0.25);
        for _ in 0..50 {
            let middle = (too_narrow + wide) / 2.0;
            *(if contains_unimodal(&knots, middle) { &mut wide } else { &mut too_narrow }) = middle;
        }
        wide
    }

    #[test]
    fn the_dip_matches_the_package_diptest() {
        // diptest 0.12 for Python: diptest.dipstat(values, allow_zero=False)
        let two_modes = [1.0, 1.1, 1.2, 1.3, 1.4, 5.0, 5.1, 5.2, 5.3, 5.4, 5.5];
        let scattered = [0.1, 0.15, 2.2, 2.3, 2.35, 2.4, 2.9, 3.3, 4.1, 7.0, 7.1, 7.15, 7.3, 9.0, 11.0];
        let tied = [1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 3.0, 3.0, 7.0, 7.0, 7.0, 7.0, 8.0, 8.0];
        let even: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_close(dip(&two_modes), 0.20454545454545456, 1e-12);
        assert_close(dip(&scattered), 0.12083333333333335, 1e-12);
        assert_close(dip(&tied), 0.16, 1e-12);
        assert_close(dip(&even), 0.05, 1e-12);
        for nothing in [&[][..], &[3.0], &[3.0; 9]] {
            assert!(dip(nothing) < 1e-12);
        }
    }

    fn uniform(stream: &mut Stream, n: usize) -> Vec<f64> {
        (0..n).map(|_| stream.uniform()).collect()
    }

    #[test]
    fn about_one_unimodal_sample_in_a_hundred_is_reported() {
        for n in [20, 40, 120] {
            let mut stream = Stream::named(7, "one heap", n as u32);
            let alarms = (0..1000).filter(|_| has_several_modes(&uniform(&mut stream, n))).count();
            assert!((3..=20).contains(&alarms), "{n} values: {alarms} of 1000");
        }
    }

    #[test]
    fn two_modes_are_detected_and_too_few_values_are_not_tested() {
        let mut stream = Stream::named(8, "two heaps", 0);
        let values: Vec<f64> = (0_u8..40).map(|i| stream.uniform() + if i % 3 == 0 { 2.0 } else { 0.0 }).collect();
        assert!(has_several_modes(&values));
        let clear: Vec<f64> = (0..20_u8).map(|i| f64::from(i % 2) * 9.0 + stream.uniform()).collect();
        assert!(has_several_modes(&clear) && !has_several_modes(&clear[..FEWEST - 1]));
        assert!(!has_several_modes(&[5.0; 40]));
        // A long tail is not a second mode.
        let tail: Vec<f64> = (0..60).map(|_| 1.0 / stream.uniform()).collect();
        assert!(!has_several_modes(&tail));
    }

    proptest::proptest! {
        #[test]
        fn mirroring_and_scaling_by_powers_of_two_keep_the_dip(
            values in proptest::collection::vec(-10.0..10.0_f64, 2..30),
            power in -3..4_i32,
        ) {
            let moved: Vec<f64> = values.iter().map(|value| value * -(2.0_f64.powi(power))).collect();
            assert!((dip(&values) - dip(&moved)).abs() < 1e-9);
        }
    }
}
