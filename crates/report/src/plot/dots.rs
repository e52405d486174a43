//! A dot chart: a row for each arm.

use super::axis::Axis;
use super::rows::{RIGHT, RowFrame, TOP, WIDTH};
use super::svg::{Anchor, Words, fit};
use super::{Mark, Style};

/// The row of an arm.
#[derive(Clone, Debug)]
pub struct Row {
    /// The name; a row without marks is a heading.
    pub name: String,
    /// The marks, one for each world.
    pub marks: Vec<(Style, Mark)>,
}

/// A dot chart.
#[derive(Clone, Debug)]
pub struct Chart<'a> {
    /// The title and description.
    pub words: Words,
    /// The horizontal axis.
    pub x: &'a Axis,
    /// A reference value, such as a speed-up of one.
    pub reference: Option<f64>,
    /// The rows from top to bottom.
    pub rows: &'a [Row],
}

impl Chart<'_> {
    /// Renders the chart as SVG.
    pub fn render(&self) -> String {
        let arms = self.rows.iter().filter(|row| !row.marks.is_empty());
        let frame = RowFrame::new(self.x, self.rows.len(), arms.map(|row| row.name.as_str()));
        let mut drawing = frame.begin(&self.words);
        drawing.line("axis", (frame.left, frame.below), (RIGHT, frame.below));
        if let Some(value) = self.reference {
            let at = frame.across(value);
            drawing.line("reference", (at, TOP), (at, frame.below));
        }
        for (number, row) in self.rows.iter().enumerate() {
            if row.marks.is_empty() {
                drawing.text("name", (0.0, RowFrame::middle(number) + 4.5), Anchor::Start, &fit(&row.name, WIDTH));
                continue;
            }
            let middle = frame.label(&mut drawing, number, &row.name);
            for (place, (style, mark)) in row.marks.iter().enumerate() {
                // The marks of two worlds are above each other.
                let up = middle + (place as f64 - (row.marks.len() - 1) as f64 / 2.0) * 7.0;
                drawing.raw(format_args!("<g class=\"{}\">\n", style.class()));
                for sample in mark.dots() {
                    drawing.dot("sample", (frame.across(sample), up));
                }
                if let Some((low, high)) = mark.estimate.interval {
                    drawing.line("interval", (frame.across(low), up), (frame.across(high), up));
                }
                drawing.marker("marker", style.series, (frame.across(mark.estimate.mean), up));
                drawing.raw(format_args!("</g>\n"));
            }
        }
        drawing.finish()
    }
}
