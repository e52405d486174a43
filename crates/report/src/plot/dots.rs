//! A dot chart: a row for each arm.

use super::axis::Axis;
use super::svg::{Anchor, Drawing, Words, fit, width};
use super::{Mark, Style};

const WIDTH: f64 = 340.0;
const ROW: f64 = 17.0;
const TOP: f64 = 6.0;
const BOTTOM: f64 = 22.0;

/// The maximum width of a row's name.
const NAME: f64 = 130.0;

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
        let below = TOP + ROW * self.rows.len() as f64;
        let height = below + BOTTOM;
        let is_arm = |row: &&Row| !row.marks.is_empty();
        let names = self.rows.iter().filter(is_arm).map(|row| width(&row.name));
        let left = names.fold(0.0, f64::max).min(NAME) + 14.0;
        let right = WIDTH - 12.0;
        let across = |position: f64| left + position * (right - left);
        let mut drawing = Drawing::new(&format!("class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\""), &self.words);
        for (value, label) in &self.x.ticks {
            let at = across(self.x.position(*value));
            drawing.line("grid", (at, TOP), (at, below));
            drawing.text("tick", (at, below + 13.0), Anchor::Middle, label);
        }
        drawing.line("axis", (left, below), (right, below));
        if let Some(value) = self.reference {
            let at = across(self.x.position(value));
            drawing.line("reference", (at, TOP), (at, below));
        }
        for (number, row) in self.rows.iter().enumerate() {
            let middle = TOP + ROW * (number as f64 + 0.5);
            if row.marks.is_empty() {
                drawing.text("name", (0.0, middle + 4.5), Anchor::Start, &fit(&row.name, WIDTH));
                continue;
            }
            drawing.text("label", (left - 8.0, middle + 3.5), Anchor::End, &fit(&row.name, NAME));
            for (place, (style, mark)) in row.marks.iter().enumerate() {
                // The marks of two worlds are above each other.
                let up = middle + (place as f64 - (row.marks.len() - 1) as f64 / 2.0) * 7.0;
                drawing.raw(format_args!("<g class=\"{}\">\n", style.class()));
                for sample in mark.dots() {
                    drawing.dot("sample", (across(self.x.position(sample)), up));
                }
                if let Some((low, high)) = mark.interval(self.x) {
                    drawing.line("interval", (across(low), up), (across(high), up));
                }
                drawing.marker("marker", style.series, (across(self.x.position(mark.estimate.mean)), up));
                drawing.raw(format_args!("</g>\n"));
            }
        }
        drawing.finish()
    }
}
