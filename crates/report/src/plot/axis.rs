//! Axes with their ranges, scales and ticks.

use stats::six_digits;

/// The ratio of the largest to the smallest value from which an axis is logarithmic, because small
/// values would overlap on a linear one.
const LOGARITHMIC_FROM: f64 = 20.0;

/// Values with a smaller relative difference count as equal: labels of six digits would not differ.
const CLOSE: f64 = 1e-4;

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Whether equal steps are equal ratios rather than equal differences.
    pub is_logarithmic: bool,
    low: f64,
    high: f64,
    /// The positions and labels of the ticks.
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Chooses an axis with round ends for these values. It is logarithmic if their range is wide.
    /// Otherwise it begins at zero if the values then still use most of it.
    pub fn fitting(values: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = range(values);
        if low > 0.0 && high / low > LOGARITHMIC_FROM {
            return Axis::logarithmic(low, high);
        }
        Axis::linear(if low > 0.0 && low < 0.6 * high { 0.0 } else { low }, high)
    }

    /// A linear axis between two numbers, both rounded outwards to a tick.
    pub fn linear(low: f64, high: f64) -> Axis {
        let is_range = high - low > CLOSE * low.abs().max(high.abs());
        let (low, high) = if is_range { (low, high) } else { (low - room(low), high + room(high)) };
        let step = nice_step((high - low) / 5.0);
        // Tolerates rounding errors in values on a tick.
        let (first, last) = ((low / step + 1e-9).floor() as i64, (high / step - 1e-9).ceil() as i64);
        let largest = first.abs().max(last.abs()) as f64 * step;
        let tick = |number: i64| six_digits(number as f64 * step);
        let ticks = (first..=last).map(|number| (tick(number), label(tick(number), largest))).collect();
        Axis { is_logarithmic: false, low: first as f64 * step, high: last as f64 * step, ticks }
    }

    /// A logarithmic axis between two positive numbers, both rounded outwards to a tick.
    fn logarithmic(low: f64, high: f64) -> Axis {
        let decades = (high / low).log10();
        // Several ticks per decade, or one tick for several decades.
        let steps: &[f64] = if decades < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = (decades / 6.0).ceil().max(1.0) as usize;
        let exponents = low.log10().floor() as i32 - 1..=high.log10().ceil() as i32 + every as i32;
        let candidates: Vec<f64> = exponents
            .step_by(every)
            .flat_map(|exponent| steps.iter().map(move |step| six_digits(step * 10_f64.powi(exponent))))
            .collect();
        let first = candidates.iter().rposition(|&tick| tick <= low * (1.0 + 1e-9)).unwrap_or(0);
        let last = candidates.iter().position(|&tick| tick >= high * (1.0 - 1e-9)).unwrap_or(candidates.len() - 1);
        let (low, high) = (candidates[first], candidates[last]);
        let ticks = candidates[first..=last].iter().map(|&tick| (tick, label(tick, tick))).collect();
        Axis { is_logarithmic: true, low, high, ticks }
    }

    /// An axis with a tick at each of these ascending numbers, or at round numbers if there are
    /// many, and some room on both sides. It is logarithmic if that separates the numbers of a wide
    /// range better.
    pub fn of_numbers(numbers: &[(f64, String)]) -> Axis {
        let (low, high) = range(numbers.iter().map(|(number, _)| *number));
        let closest = |of: fn(f64) -> f64| {
            let gaps = numbers.windows(2).map(|pair| (of(pair[1].0) - of(pair[0].0)) / (of(high) - of(low)));
            gaps.fold(f64::INFINITY, f64::min)
        };
        let is_logarithmic = low > 0.0 && high / low > 8.0 && closest(f64::ln) > closest(|number| number);
        let (low, high) = match low < high {
            true if is_logarithmic => (low / (high / low).powf(0.05), high * (high / low).powf(0.05)),
            true => (low - 0.05 * (high - low), high + 0.05 * (high - low)),
            false => (low - room(low), high + room(high)),
        };
        let ticks = if numbers.len() > 9 && !is_logarithmic {
            Axis::linear(low, high).ticks.into_iter().filter(|(at, _)| (low..=high).contains(at)).collect()
        } else {
            numbers.to_vec()
        };
        Axis { is_logarithmic, low, high, ticks }
    }

    /// An axis with these names at the positions 0, 1, 2 and so on.
    pub fn of_names(names: &[String]) -> Axis {
        let ticks: Vec<(f64, String)> = (0..).map(f64::from).zip(names.iter().cloned()).collect();
        Axis { is_logarithmic: false, low: -0.5, high: names.len().max(1) as f64 - 0.5, ticks }
    }

    /// The position of a value on the axis, from 0 to 1. Values outside are moved to the ends.
    pub fn position(&self, value: f64) -> f64 {
        let position = match self.is_logarithmic {
            false => (value - self.low) / (self.high - self.low),
            true if value <= 0.0 => 0.0,
            true => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        position.clamp(0.0, 1.0)
    }
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let finite = values.filter(|value| value.is_finite());
    let range = finite.fold(None, |range: Option<(f64, f64)>, value| {
        Some(range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
    });
    range.unwrap_or((0.0, 1.0))
}

/// The room beside a single value.
fn room(value: f64) -> f64 {
    if value == 0.0 { 0.5 } else { value.abs() * 0.25 }
}

/// The smallest number of the form 1, 2 or 5 times a power of ten that is at least `step`.
fn nice_step(step: f64) -> f64 {
    let power = 10_f64.powi(step.log10().floor() as i32);
    let steps = [1.0, 2.0, 5.0, 10.0].map(|of| of * power);
    steps.into_iter().find(|&nice| nice >= step * (1.0 - 1e-9)).unwrap_or(step)
}

/// Formats a tick. Uses thousands or millions if `like` is large.
fn label(tick: f64, like: f64) -> String {
    match [(1e9, " G"), (1e6, " M"), (1e3, " k")].into_iter().find(|(unit, _)| like.abs() >= 10.0 * unit) {
        Some((unit, name)) if tick != 0.0 => format!("{}{name}", six_digits(tick / unit)),
        _ => tick.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn ticks_are_at_round_numbers() {
        assert_eq!(labels(&Axis::fitting([0.3, 3.7].into_iter())), ["0", "1", "2", "3", "4"]);
        assert_eq!(labels(&Axis::fitting([0.83, 0.97].into_iter())), ["0.8", "0.85", "0.9", "0.95", "1"]);
        assert_eq!(labels(&Axis::fitting([4e3, 43e3].into_iter())), ["0", "10 k", "20 k", "30 k", "40 k", "50 k"]);
        assert_eq!(labels(&Axis::fitting([0.7, 60.0].into_iter())), ["0.5", "1", "2", "5", "10", "20", "50", "100"]);
        assert_eq!(labels(&Axis::fitting([3.0, 80_000.0].into_iter())), ["1", "10", "100", "1000", "10 k", "100 k"]);
        assert_eq!(labels(&Axis::linear(0.0, 100.0)), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(&Axis::fitting([3.0, 3.000_001].into_iter())), ["2", "2.5", "3", "3.5", "4"]);
        assert_eq!(labels(&Axis::fitting(std::iter::empty())), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
    }

    #[test]
    fn doubling_numbers_have_a_logarithmic_axis_and_equidistant_ones_a_linear_one() {
        let axis =
            |numbers: Vec<f64>| Axis::of_numbers(&numbers.iter().map(|at| (*at, at.to_string())).collect::<Vec<_>>());
        assert!(axis(vec![1.0, 2.0, 4.0, 8.0, 16.0]).is_logarithmic);
        let loads = axis((0..50).map(|number| f64::from(5 + 4 * number)).collect());
        assert!(!loads.is_logarithmic);
        assert_eq!(labels(&loads), ["0", "50", "100", "150", "200"]);
    }

    proptest! {
        #[test]
        fn an_axis_contains_its_values_in_order_and_has_a_few_distinct_ticks(
            mut values in proptest::collection::vec(
                prop_oneof![-1e3..1e3_f64, 1e-6..1e12_f64, (-6..12_i32).prop_map(|exponent| 10_f64.powi(exponent))],
                1..20,
            ),
        ) {
            let axis = Axis::fitting(values.iter().copied());
            prop_assert!((2..=12).contains(&axis.ticks.len()), "{axis:?}");
            let mut labels = labels(&axis);
            labels.dedup();
            prop_assert_eq!(labels.len(), axis.ticks.len());
            values.sort_by(f64::total_cmp);
            prop_assert!(values.windows(2).all(|pair| axis.position(pair[0]) <= axis.position(pair[1])));
            // Up to rounding, all values are on the axis.
            let (low, high) = (axis.ticks[0].0, axis.ticks[axis.ticks.len() - 1].0);
            let slack = (high - low) * 1e-5;
            prop_assert!(low <= values[0] + slack && values[values.len() - 1] <= high + slack, "{axis:?}");
            prop_assert!(axis.position(low) < 1e-3 && axis.position(high) > 0.999);
        }

        #[test]
        fn an_axis_of_numbers_separates_and_contains_them(mut numbers in proptest::collection::vec(0.5..1e4_f64, 1..9)) {
            numbers.sort_by(f64::total_cmp);
            numbers.dedup();
            let axis = Axis::of_numbers(&numbers.iter().map(|number| (*number, number.to_string())).collect::<Vec<_>>());
            let positions: Vec<f64> = numbers.iter().map(|number| axis.position(*number)).collect();
            prop_assert!(positions.windows(2).all(|pair| pair[0] < pair[1]), "{positions:?}");
            prop_assert!(positions.iter().all(|position| (0.01..0.99).contains(position)), "{positions:?}");
        }
    }
}
