//! A line chart: results against the values of a factor, with intervals and samples.

use super::axis::Axis;
use super::svg::{Anchor, Drawing, Words, fit, width};
use super::{Mark, Style};

/// The size of the drawing, in units of which a letter is eleven high.
const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 212.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 34.0;

/// The maximum width of a label at the end of a line.
const LABEL: f64 = 92.0;

/// The maximum number of markers on a line; more would hide it, so only its label has one.
const MOST_MARKERS: usize = 24;

/// The height of a line of text.
const TEXT: f64 = 11.0;

/// A line.
#[derive(Clone, Debug)]
pub struct Line {
    /// The label at its end. Lines of the same series in another style need not repeat it.
    pub label: String,
    /// The style.
    pub style: Style,
    /// The points in ascending order: positions on the horizontal axis, and values.
    pub points: Vec<(f64, Mark)>,
}

/// A line chart.
#[derive(Clone, Debug)]
pub struct Chart<'a> {
    /// The title and description.
    pub words: Words,
    /// The horizontal axis.
    pub x: &'a Axis,
    /// The label of the horizontal axis.
    pub x_label: &'a str,
    /// The vertical axis.
    pub y: &'a Axis,
    /// A reference value, such as a speed-up of one.
    pub reference: Option<f64>,
    /// The lines.
    pub lines: Vec<Line>,
}

/// The positions of the axes in the drawing.
struct Frame<'a> {
    left: f64,
    right: f64,
    x: &'a Axis,
    y: &'a Axis,
}

impl Frame<'_> {
    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (self.left + self.x.position(x) * (self.right - self.left), self.height(y))
    }

    fn height(&self, y: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.position(y) * (HEIGHT - BOTTOM - TOP)
    }
}

impl Chart<'_> {
    /// Renders the chart as SVG.
    pub fn render(&self) -> String {
        let widest = |texts: &mut dyn Iterator<Item = &str>| texts.map(width).fold(0.0, f64::max);
        let label = widest(&mut self.lines.iter().map(|line| line.label.as_str())).min(LABEL);
        let frame = Frame {
            left: widest(&mut self.y.ticks.iter().map(|(_, label)| label.as_str())) + 6.0,
            right: WIDTH - label - if label > 0.0 { 26.0 } else { 9.0 },
            x: self.x,
            y: self.y,
        };
        let mut drawing = Drawing::new(&format!("class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\""), &self.words);
        self.axes(&mut drawing, &frame);
        let last = self.lines.len().saturating_sub(1);
        for (number, line) in self.lines.iter().enumerate() {
            let side = if last == 0 { 0.0 } else { number as f64 / last as f64 * 2.0 - 1.0 };
            self.line(&mut drawing, &frame, line, side);
        }
        self.labels(&mut drawing, &frame);
        drawing.finish()
    }

    fn axes(&self, drawing: &mut Drawing, frame: &Frame<'_>) {
        for (value, label) in &self.y.ticks {
            let height = frame.height(*value);
            drawing.line("grid", (frame.left, height), (frame.right, height));
            drawing.text("tick", (frame.left - 4.0, height + 3.5), Anchor::End, label);
        }
        let below = HEIGHT - BOTTOM;
        drawing.line("axis", (frame.left, below), (frame.right, below));
        let mut free_from = f64::NEG_INFINITY;
        let room = (frame.right - frame.left) / self.x.ticks.len().max(1) as f64;
        for (value, label) in &self.x.ticks {
            let (at, _) = frame.at(*value, 0.0);
            drawing.line("axis", (at, below), (at, below + 3.0));
            let label = fit(label, room.max(30.0));
            let half = width(&label) / 2.0;
            if at - half > free_from {
                drawing.text("tick", (at, below + 13.0), Anchor::Middle, &label);
                free_from = at + half + 3.0;
            }
        }
        let middle = (frame.left + frame.right) / 2.0;
        drawing.text("name", (middle, HEIGHT - 6.0), Anchor::Middle, &fit(self.x_label, WIDTH - 20.0));
        if let Some(value) = self.reference {
            let height = frame.height(value);
            drawing.line("reference", (frame.left, height), (frame.right, height));
        }
    }

    /// Draws a line shifted to a `side`, from -1 to 1.
    fn line(&self, drawing: &mut Drawing, frame: &Frame<'_>, line: &Line, side: f64) {
        let Line { style, points, .. } = line;
        drawing.raw(format_args!("<g class=\"{}\">\n", style.class()));
        // Lines are shifted a little, so that their intervals do not hide each other.
        let room = (frame.right - frame.left) / self.x.ticks.len().max(1) as f64;
        let shift = side * (room * 0.12).min(9.0);
        let at = |(x, mark): &(f64, Mark)| {
            let (across, up) = frame.at(*x, mark.estimate.mean);
            (across + shift, up)
        };
        drawing.polyline("line", &points.iter().map(at).collect::<Vec<_>>());
        for point in points {
            let (x, mark) = point;
            for sample in mark.dots() {
                let (across, up) = frame.at(*x, sample);
                drawing.dot("sample", (across + shift + 3.0 * side.signum(), up));
            }
            let (across, up) = at(point);
            if let Some((low, high)) = mark.estimate.interval {
                drawing.line("interval", (across, frame.height(low)), (across, frame.height(high)));
            }
            if points.len() <= MOST_MARKERS {
                drawing.marker("marker", style.series, (across, up));
            }
        }
        drawing.raw(format_args!("</g>\n"));
    }

    /// Draws the labels at the ends of the lines, moved apart if they would overlap.
    fn labels(&self, drawing: &mut Drawing, frame: &Frame<'_>) {
        let end = |line: &Line| line.points.last().map_or(0.0, |(_, mark)| frame.height(mark.estimate.mean));
        let mut labels: Vec<(f64, &Line)> =
            self.lines.iter().filter(|line| !line.label.is_empty()).map(|line| (end(line), line)).collect();
        labels.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let heights = spread(&labels.iter().map(|(height, _)| *height).collect::<Vec<_>>(), HEIGHT - BOTTOM);
        for (height, (_, line)) in heights.into_iter().zip(labels) {
            drawing.raw(format_args!("<g class=\"{}\">", line.style.class()));
            drawing.marker("marker", line.style.series, (frame.right + 16.0, height));
            drawing.raw(format_args!("</g>\n"));
            drawing.text("label", (frame.right + 23.0, height + 3.5), Anchor::Start, &fit(&line.label, LABEL));
        }
    }
}

/// Moves ascending heights apart to the height of a text, as little as possible, up to `lowest`.
fn spread(wanted: &[f64], lowest: f64) -> Vec<f64> {
    let mut heights = wanted.to_vec();
    for number in 1..heights.len() {
        heights[number] = heights[number].max(heights[number - 1] + TEXT);
    }
    let mut limit = lowest;
    for height in heights.iter_mut().rev() {
        *height = height.min(limit);
        limit = *height - TEXT;
    }
    heights
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn spread_labels_do_not_overlap_and_keep_their_order(
            mut wanted in proptest::collection::vec(0.0..178.0_f64, 1..12),
        ) {
            wanted.sort_by(f64::total_cmp);
            let heights = spread(&wanted, 178.0);
            assert!(heights.windows(2).all(|pair| pair[1] - pair[0] > TEXT - 1e-9), "{heights:?}");
            assert!(heights.iter().all(|height| *height <= 178.0));
        }
    }

    #[test]
    fn a_chart_has_a_marker_an_interval_and_its_samples_for_each_point() {
        let mark = |samples: &[f64]| Mark { estimate: stats::mean(samples).unwrap(), samples: samples.to_vec() };
        let style = Style { series: 1, hollow: true };
        let points = vec![(1.0, mark(&[3.0, 4.0])), (2.0, mark(&[5.0]))];
        let lines = vec![Line { label: "<cs>".into(), style, points }];
        let words = Words { id: "f1".into(), title: "A & B".into(), description: "less".into() };
        let (x, y) = (Axis::of_numbers(&[(1.0, "1".into()), (2.0, "2".into())]), Axis::linear(0.0, 6.0));
        let text = Chart { words, x: &x, x_label: "load", y: &y, reference: Some(1.0), lines }.render();
        let document = roxmltree::Document::parse(&text).unwrap();
        let count = |class| document.descendants().filter(|node| node.attribute("class") == Some(class)).count();
        // The label has a marker, too.
        assert_eq!(["marker", "interval", "sample", "line", "reference", "s1 hollow"].map(count), [3, 1, 3, 1, 1, 2]);
        assert!(document.descendants().any(|node| node.text() == Some("<cs>")), "{text}");
    }
}
