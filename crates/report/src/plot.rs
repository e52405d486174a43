//! Drawings for the report: axes with sensible ticks, and charts as SVG that take their colours from the page.
//!
//! Everything is written to strings, and no text reaches one but by [`svg::escape`].

pub mod axis;
pub mod bars;
pub mod dots;
pub mod lines;
pub mod svg;

use stats::Estimate;

/// How a series is told from the others: the colour and the marker by its number, the world by the filling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// The number of the series among those that are compared.
    pub series: usize,
    /// Whether markers are outlines and lines are dashed.
    pub hollow: bool,
}

/// So many series can be told from each other.
pub const SERIES: usize = 7;

/// So many samples of a mark are drawn: more would be a line and no dots, and a page of many runs too large to be opened.
pub const DOTS: usize = 100;

/// Some of the numbers below `all`, evenly apart and with the first and the last among them; all where that is no more than
/// `at_most`.
pub fn evenly(all: usize, at_most: usize) -> impl Iterator<Item = usize> {
    let shown = all.min(at_most);
    (0..shown).map(move |number| number * (all - 1) / (shown - 1).max(1))
}

impl Style {
    /// The classes that the page's style sheet gives colours to.
    pub fn class(self) -> String {
        format!("s{}{}", self.series % SERIES, if self.hollow { " hollow" } else { "" })
    }
}

/// A mean with its interval, and the samples that it is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// The mean.
    pub estimate: Estimate,
    /// The samples.
    pub samples: Vec<f64>,
}

impl Mark {
    /// The mark in a unit of so much.
    pub fn scaled(self, unit: f64) -> Mark {
        let samples = self.samples.into_iter().map(|sample| sample / unit).collect();
        Mark { estimate: self.estimate.map(|value| value / unit), samples }
    }

    /// Every number that should be on the axis.
    pub fn values(&self) -> impl Iterator<Item = f64> + '_ {
        self.samples.iter().copied().chain([self.estimate.mean])
    }

    /// The samples that are drawn; of many, some from the smallest to the largest.
    fn dots(&self) -> Vec<f64> {
        if self.samples.len() <= DOTS {
            return self.samples.clone();
        }
        let mut sorted = self.samples.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        evenly(sorted.len(), DOTS).map(|place| sorted[place]).collect()
    }

    /// The interval as far as the axis goes.
    fn interval(&self, axis: &axis::Axis) -> Option<(f64, f64)> {
        self.estimate.interval.map(|(low, high)| (axis.position(low), axis.position(high)))
    }
}

/// Where sample `number` of so many stands beside the middle, from -1 to 1: spread evenly and always the same, so that equal
/// values do not hide each other and the same results give the same page.
fn beside(number: usize, of: usize) -> f64 {
    if of < 2 { 0.0 } else { number as f64 / (of - 1) as f64 * 2.0 - 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats;

    #[test]
    fn of_many_samples_some_are_drawn_and_the_extremes_among_them() {
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
