//! The frame of charts with a row for each arm: names on the left, and a horizontal axis below.

use super::axis::Axis;
use super::svg::{Anchor, Drawing, Words, fit, width};

pub(super) const WIDTH: f64 = 340.0;
pub(super) const TOP: f64 = 6.0;
/// The right end of the axis.
pub(super) const RIGHT: f64 = WIDTH - 12.0;
const ROW: f64 = 17.0;
const BOTTOM: f64 = 22.0;

/// The maximum width of a name.
const NAME: f64 = 130.0;

/// The frame of a chart.
pub(super) struct RowFrame<'a> {
    x: &'a Axis,
    /// The left end of the axis.
    pub(super) left: f64,
    /// The lower end of the rows.
    pub(super) below: f64,
}

impl<'a> RowFrame<'a> {
    /// A frame for this many rows, with room for these names.
    pub(super) fn new<'n>(x: &'a Axis, rows: usize, names: impl Iterator<Item = &'n str>) -> RowFrame<'a> {
        let left = names.map(width).fold(0.0, f64::max).min(NAME) + 14.0;
        RowFrame { x, left, below: TOP + ROW * rows as f64 }
    }

    /// Begins the drawing with the ticks of the axis.
    pub(super) fn begin(&self, words: &Words) -> Drawing {
        let below = self.below;
        let mut drawing = Drawing::new(&format!("class=\"chart\" viewBox=\"0 0 {WIDTH} {}\"", below + BOTTOM), words);
        for (value, label) in &self.x.ticks {
            let at = self.across(*value);
            drawing.line("grid", (at, TOP), (at, below));
            drawing.text("tick", (at, below + 13.0), Anchor::Middle, label);
        }
        drawing
    }

    /// The horizontal place of a value.
    pub(super) fn across(&self, value: f64) -> f64 {
        self.left + self.x.position(value) * (RIGHT - self.left)
    }

    /// The vertical middle of a row.
    pub(super) fn middle(number: usize) -> f64 {
        TOP + ROW * (number as f64 + 0.5)
    }

    /// Writes the name of a row, and returns its middle.
    pub(super) fn label(&self, drawing: &mut Drawing, number: usize, name: &str) -> f64 {
        let middle = RowFrame::middle(number);
        drawing.text("label", (self.left - 8.0, middle + 3.5), Anchor::End, &fit(name, NAME));
        middle
    }
}
