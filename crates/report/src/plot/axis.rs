//! Axes: from what to what, how a value becomes a position, and where the ticks are.

use stats::six_digits;

/// From this ratio of the largest to the smallest on, values are drawn on a logarithmic axis: the small ones would lie on
/// top of each other on another.
const LOGARITHMIC_FROM: f64 = 20.0;

/// Values that differ by no more than this share are one to an axis: numbers of six digits could not tell its ticks apart.
const CLOSE: f64 = 1e-4;

/// How values are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps are equal differences.
    Linear,
    /// Equal steps are equal ratios.
    Logarithmic,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    /// Where ticks are, and what is written there.
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    /// An axis for these values with round ends: logarithmic where its range asks for it; else from zero where that leaves
    /// most of it used.
    pub fn fitting(values: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = range(values);
        if is_wide(low, high) {
            return Axis::logarithmic(low, high);
        }
        Axis::linear(if low > 0.0 && low < 0.6 * high { 0.0 } else { low }, high)
    }

    /// An axis from a number to another, both rounded outwards to a tick.
    pub fn linear(low: f64, high: f64) -> Axis {
        let is_range = high - low > CLOSE * low.abs().max(high.abs());
        let (low, high) = if is_range { (low, high) } else { (low - room(low), high + room(high)) };
        let step = nice_step((high - low) / 5.0);
        // What is on a tick but for rounding is on it.
        let (first, last) = ((low / step + 1e-9).floor() as i64, (high / step - 1e-9).ceil() as i64);
        let largest = first.abs().max(last.abs()) as f64 * step;
        let tick = |number: i64| six_digits(number as f64 * step);
        let ticks = (first..=last).map(|number| (tick(number), label(tick(number), largest))).collect();
        Axis { scale: Scale::Linear, low: first as f64 * step, high: last as f64 * step, ticks }
    }

    /// An axis between two positive numbers, both rounded outwards to a tick.
    fn logarithmic(low: f64, high: f64) -> Axis {
        let decades = (high / low).log10();
        // So many ticks in a decade, or a tick in so many decades.
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
        Axis { scale: Scale::Logarithmic, low, high, ticks }
    }

    /// An axis with a tick at each of these numbers, which ascend, or at round ones if there are many; with some room beside
    /// them. It is logarithmic where that keeps a wide range of numbers better apart.
    pub fn of_numbers(numbers: &[(f64, String)]) -> Axis {
        let (low, high) = range(numbers.iter().map(|(number, _)| *number));
        let closest = |of: fn(f64) -> f64| {
            let gaps = numbers.windows(2).map(|pair| (of(pair[1].0) - of(pair[0].0)) / (of(high) - of(low)));
            gaps.fold(f64::INFINITY, f64::min)
        };
        let is_logarithmic = low > 0.0 && high / low > 8.0 && closest(f64::ln) > closest(|number| number);
        let scale = if is_logarithmic { Scale::Logarithmic } else { Scale::Linear };
        let (low, high) = match scale {
            Scale::Logarithmic => (low / (high / low).powf(0.05), high * (high / low).powf(0.05)),
            Scale::Linear if low < high => (low - 0.05 * (high - low), high + 0.05 * (high - low)),
            Scale::Linear => (low - room(low), high + room(high)),
        };
        let ticks = if numbers.len() > 9 && scale == Scale::Linear {
            Axis::linear(low, high).ticks.into_iter().filter(|(at, _)| (low..=high).contains(at)).collect()
        } else {
            numbers.to_vec()
        };
        Axis { scale, low, high, ticks }
    }

    /// An axis with these names side by side, at 0, 1, 2 and so on.
    pub fn of_names(names: &[String]) -> Axis {
        let ticks: Vec<(f64, String)> = (0..).map(f64::from).zip(names.iter().cloned()).collect();
        Axis { scale: Scale::Linear, low: -0.5, high: names.len().max(1) as f64 - 0.5, ticks }
    }

    /// Whether equal steps are equal ratios.
    pub fn is_logarithmic(&self) -> bool {
        self.scale == Scale::Logarithmic
    }

    /// Where a value is between the ends of the axis, from 0 to 1; values beyond are at its ends.
    pub fn position(&self, value: f64) -> f64 {
        let position = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic if value <= 0.0 => 0.0,
            Scale::Logarithmic => (value / self.low).ln() / (self.high / self.low).ln(),
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

fn is_wide(low: f64, high: f64) -> bool {
    low > 0.0 && high / low > LOGARITHMIC_FROM
}

/// What to leave beside a single value.
fn room(value: f64) -> f64 {
    if value == 0.0 { 0.5 } else { value.abs() * 0.25 }
}

/// The next number up that is 1, 2 or 5 times a power of ten.
fn nice_step(step: f64) -> f64 {
    let power = 10_f64.powi(step.log10().floor() as i32);
    let steps = [1.0, 2.0, 5.0, 10.0].map(|of| of * power);
    steps.into_iter().find(|&nice| nice >= step * (1.0 - 1e-9)).unwrap_or(step)
}

/// A number in the thousands or millions of `like`, where that is large.
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
    fn numbers_that_double_are_on_a_logarithmic_axis_and_those_that_are_counted_up_are_not() {
        let axis =
            |numbers: Vec<f64>| Axis::of_numbers(&numbers.iter().map(|at| (*at, at.to_string())).collect::<Vec<_>>());
        assert!(axis(vec![1.0, 2.0, 4.0, 8.0, 16.0]).is_logarithmic());
        let loads = axis((0..50).map(|number| f64::from(5 + 4 * number)).collect());
        assert!(!loads.is_logarithmic());
        assert_eq!(labels(&loads), ["0", "50", "100", "150", "200"]);
    }

    proptest! {
        #[test]
        fn an_axis_holds_its_values_in_order_and_has_a_few_ticks_that_can_be_told_apart(
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
            // Nothing is beyond the ends but for rounding.
            let (low, high) = (axis.ticks[0].0, axis.ticks[axis.ticks.len() - 1].0);
            let slack = (high - low) * 1e-5;
            prop_assert!(low <= values[0] + slack && values[values.len() - 1] <= high + slack, "{axis:?}");
            prop_assert!(axis.position(low) < 1e-3 && axis.position(high) > 0.999);
        }

        #[test]
        fn an_axis_of_numbers_has_them_apart_and_inside(mut numbers in proptest::collection::vec(0.5..1e4_f64, 1..9)) {
            numbers.sort_by(f64::total_cmp);
            numbers.dedup();
            let axis = Axis::of_numbers(&numbers.iter().map(|number| (*number, number.to_string())).collect::<Vec<_>>());
            let positions: Vec<f64> = numbers.iter().map(|number| axis.position(*number)).collect();
            prop_assert!(positions.windows(2).all(|pair| pair[0] < pair[1]), "{positions:?}");
            prop_assert!(positions.iter().all(|position| (0.01..0.99).contains(position)), "{positions:?}");
        }
    }
}
