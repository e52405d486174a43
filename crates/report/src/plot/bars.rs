//! A bar chart: one bar for each arm, starting at zero.

use super::axis::Axis;
use super::rows::{RowFrame, TOP};
use super::svg::Words;
use super::{Mark, Style};

const THICK: f64 = 11.0;

/// The bar of an arm.
#[derive(Clone, Debug)]
pub struct Bar {
    /// The name of the arm.
    pub name: String,
    /// The style.
    pub style: Style,
    /// The value.
    pub mark: Mark,
}

/// A bar chart.
#[derive(Clone, Debug)]
pub struct Chart<'a> {
    /// The title and description.
    pub words: Words,
    /// The horizontal axis. It must begin at zero, or the lengths of bars would be misleading.
    pub x: &'a Axis,
    /// The bars from top to bottom.
    pub bars: &'a [Bar],
}

impl Chart<'_> {
    /// Renders the chart as SVG.
    pub fn render(&self) -> String {
        let frame = RowFrame::new(self.x, self.bars.len(), self.bars.iter().map(|bar| bar.name.as_str()));
        let mut drawing = frame.begin(&self.words);
        for (number, Bar { name, style, mark }) in self.bars.iter().enumerate() {
            let middle = frame.label(&mut drawing, number, name);
            drawing.raw(format_args!("<g class=\"{}\">\n", style.class()));
            let end = frame.across(mark.estimate.mean);
            drawing.rectangle("filled", (frame.left, middle - THICK / 2.0), (end - frame.left, THICK));
            drawing.raw(format_args!("</g>\n"));
            if let Some((low, high)) = mark.estimate.interval {
                drawing.line("whisker", (frame.across(low), middle), (frame.across(high), middle));
            }
        }
        drawing.line("axis", (frame.left, TOP), (frame.left, frame.below));
        drawing.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_the_length_of_its_mean_and_a_whisker_for_its_interval() {
        let bar = |name: &str, samples: &[f64]| Bar {
            name: name.to_owned(),
            style: Style { series: 1, hollow: false },
            mark: Mark { estimate: stats::mean(samples).unwrap(), samples: Vec::new() },
        };
        let words = Words { id: "b".into(), title: "A & B".into(), description: "less".into() };
        let axis = Axis::linear(0.0, 10.0);
        let bars = [bar("<10/50>", &[10.0, 10.5, 9.5]), bar("one", &[5.0])];
        let text = Chart { words, x: &axis, bars: &bars }.render();
        let document = roxmltree::Document::parse(&text).unwrap();
        let of =
            |class: &'static str| document.descendants().filter(move |node| node.attribute("class") == Some(class));
        let long: Vec<f64> = of("filled").map(|node| node.attribute("width").unwrap().parse().unwrap()).collect();
        assert_eq!((long.len(), of("whisker").count()), (2, 1));
        assert!((long[0] / long[1] - 2.0).abs() < 0.02, "{long:?}");
    }
}
