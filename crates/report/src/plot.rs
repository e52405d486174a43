//! Charts as SVG that take their colours from the page, and their axes.
//!
//! All text in them is escaped by [`svg::escape`].

pub mod axis;
pub mod bars;
pub mod dots;
pub mod lines;
mod rows;
pub mod svg;

use stats::Estimate;

/// The style of a series: its number determines colour and marker, its world the filling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// The number of the series in the comparison.
    pub series: usize,
    /// Whether markers are outlines and lines are dashed.
    pub hollow: bool,
}

/// The number of distinguishable series.
pub const SERIES: usize = 7;

/// The maximum number of samples drawn for a mark. More dots would look like a line, and make the
/// page of a large report too large.
pub const DOTS: usize = 100;

/// At most `at_most` evenly spaced numbers below `all`, including the first and the last one.
pub fn evenly(all: usize, at_most: usize) -> impl Iterator<Item = usize> {
    let shown = all.min(at_most);
    (0..shown).map(move |number| number * (all - 1) / (shown - 1).max(1))
}

impl Style {
    /// The CSS classes of the style.
    pub fn class(self) -> String {
        format!("s{}{}", self.series % SERIES, if self.hollow { " hollow" } else { "" })
    }
}

/// A mean with its interval and its samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// The mean.
    pub estimate: Estimate,
    /// The samples.
    pub samples: Vec<f64>,
}

impl Mark {
    /// Divides all values by a unit.
    pub fn scaled(self, unit: f64) -> Mark {
        let samples = self.samples.into_iter().map(|sample| sample / unit).collect();
        Mark { estimate: self.estimate.map(|value| value / unit), samples }
    }

    /// All values that the axis should include.
    pub fn values(&self) -> impl Iterator<Item = f64> + '_ {
        self.samples.iter().copied().chain([self.estimate.mean])
    }

    /// The samples to draw. Of many samples, a selection from the smallest to the largest.
    fn dots(&self) -> Vec<f64> {
        if self.samples.len() <= DOTS {
            return self.samples.clone();
        }
        let mut sorted = self.samples.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        evenly(sorted.len(), DOTS).map(|place| sorted[place]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_samples_a_selection_with_the_extremes_is_drawn() {
        let mark = |count: usize| {
            let samples: Vec<f64> = (0..count).rev().map(|number| number as f64).collect();
            Mark { estimate: stats::mean(&samples).unwrap(), samples }
        };
        assert_eq!(mark(3).dots(), [2.0, 1.0, 0.0]);
        let many = mark(12_345).dots();
        assert_eq!((many.len(), many[0], many[DOTS - 1]), (DOTS, 0.0, 12_344.0));
        assert!(many.windows(2).all(|pair| (124.0..=125.0).contains(&(pair[1] - pair[0]))), "{many:?}");
        assert_eq!([evenly(0, 3).count(), evenly(1, 3).count(), evenly(7, 1).count()], [0, 1, 1]);
    }
}
