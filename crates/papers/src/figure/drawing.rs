//! The figure as the paper draws it: lines over the load.

use serde::Serialize;

use super::arms::{self, Arms};
use super::evidence::{Evidence, Quantity};
use super::expected::{Figure, LoadUnit, Measure, Scale};
use report::plot::axis::Axis;
use report::plot::lines::{Chart, Line};
use report::plot::svg::Words;
use report::plot::{Mark, Style};
use report::words;
use stats::Estimate;

/// A figure with its lines.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drawing {
    /// A description of the drawing.
    pub what: String,
    /// The measure.
    pub measure: Measure,
    /// The unit of load on the x axis.
    pub counted: LoadUnit,
    /// The panels, in the order of the file.
    pub panels: Vec<Panel>,
}

/// Lines that are drawn together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Panel {
    /// The name. Empty if there is only one panel.
    pub name: String,
    /// The lines, in the order of the file.
    pub lines: Vec<DrawnLine>,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DrawnLine {
    /// The label at its end.
    pub name: String,
    /// Its points, by ascending load.
    pub points: Vec<Point>,
}

/// A point of a line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The load.
    pub load: f64,
    /// The mean over the seeds.
    pub value: Estimate,
}

impl Drawing {
    /// The drawing of a figure. `None` if the file does not define its lines.
    pub(super) fn new(evidence: &Evidence<'_>, figure: &Figure) -> Option<Drawing> {
        let quantity = Quantity { jobs: &figure.job, measure: figure.measure, against: &figure.against };
        let mut panels: Vec<Panel> = Vec::new();
        for line in &figure.line {
            let points = Arms::of(evidence, &line.of, quantity).by_load(figure.counted).into_iter();
            let point = |(load, values): (f64, arms::BySeed)| Some(Point { load, value: arms::estimate(&values)? });
            let drawn = DrawnLine { name: line.name.clone(), points: points.filter_map(point).collect() };
            match panels.iter_mut().find(|panel| panel.name == line.panel) {
                Some(panel) => panel.lines.push(drawn),
                None => panels.push(Panel { name: line.panel.clone(), lines: vec![drawn] }),
            }
        }
        let (measure, counted) = (figure.measure, figure.counted);
        (!panels.is_empty()).then(|| Drawing { what: what(figure), measure, counted, panels })
    }

    /// Every panel as SVG, all with the same axes.
    pub(crate) fn charts(&self) -> Vec<String> {
        let title = |panel: &Panel| match panel.name.as_str() {
            "" => self.what.clone(),
            name => format!("{}; {name}", self.what),
        };
        let x_label = self.counted.name();
        let axes = Axes { id: "figure", x_label, against: x_label, scale: self.measure.scale() };
        axes.charts(&self.panels, title, |load| self.load_in_words(load))
    }

    /// A load with its meaningful decimals.
    pub(super) fn load_in_words(&self, load: f64) -> String {
        let decimals = if self.counted == LoadUnit::ThreadsPerCpu { 2 } else { 0 };
        format!("{load:.decimals$}")
    }
}

/// The axes of several panels.
pub(crate) struct Axes<'a> {
    /// The identifier of the charts in a page.
    pub(crate) id: &'a str,
    /// The label of the x axis.
    pub(crate) x_label: &'a str,
    /// The label in a sentence.
    pub(crate) against: &'a str,
    /// The kind of the values.
    pub(crate) scale: Scale,
}

impl Axes<'_> {
    /// Every panel as SVG, with these titles and loads in words.
    pub(crate) fn charts(
        &self,
        panels: &[Panel],
        title: impl Fn(&Panel) -> String,
        load_in_words: impl Fn(f64) -> String,
    ) -> Vec<String> {
        let points = || panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.points);
        let x = ascending(points()).into_iter().map(|load| (load, load_in_words(load)));
        let x = Axis::of_numbers(&x.collect::<Vec<_>>());
        let ends = |value: &Estimate| value.interval.into_iter().flat_map(|(low, high)| [low, high]);
        let values = points().flat_map(|point| [point.value.mean].into_iter().chain(ends(&point.value)));
        let (y, reference) = match self.scale {
            Scale::Percent => (Axis::linear(0.0, 100.0), Some(50.0)),
            Scale::Ratio => (Axis::fitting(values.chain([1.0])), Some(1.0)),
            Scale::Amount => (Axis::fitting(values.chain([0.0])), None),
        };
        let mark = |point: &Point| (point.load, Mark { estimate: point.value, samples: Vec::new() });
        let chart = |(place, panel): (usize, &Panel)| {
            let title = title(panel);
            let names: Vec<&str> = panel.lines.iter().map(|line| line.name.as_str()).collect();
            let description = format!("{title}, against {}: {}.", self.against, names.join(", "));
            let lines = panel.lines.iter().enumerate().map(|(series, line)| Line {
                label: line.name.clone(),
                style: Style { series, hollow: false },
                points: line.points.iter().map(mark).collect(),
            });
            let words = Words { id: format!("{}-{place}", self.id), title, description };
            Chart { words, x: &x, x_label: self.x_label, y: &y, reference, lines: lines.collect() }.render()
        };
        panels.iter().enumerate().map(chart).collect()
    }
}

/// The distinct loads of these points, ascending.
pub(super) fn ascending<'a>(points: impl Iterator<Item = &'a Point>) -> Vec<f64> {
    let mut loads: Vec<f64> = points.map(|point| point.load).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    loads
}

pub(super) fn what(figure: &Figure) -> String {
    match figure.measure {
        Measure::SpeedUp => format!("{} over {}", figure.measure.name(), reference(figure)),
        measure if measure.has_reference() => format!("{} ({})", measure.name(), words::factors(&figure.against)),
        measure => measure.name().to_owned(),
    }
}

/// The reference of the figure. If paths that vary together all have the same value, only that
/// value.
fn reference(figure: &Figure) -> String {
    let mut values = figure.against.values();
    match values.next() {
        Some(first) if values.all(|value| value == first) => words::value(first),
        _ => words::factors(&figure.against),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The labels of the y axis, and whether there is a line for reference.
    fn drawn(measure: Measure, values: [f64; 2]) -> (Vec<String>, bool) {
        let estimate = |mean| Estimate { mean, interval: None, samples: 1 };
        let points = [1.0, 8.0].into_iter().zip(values).map(|(load, value)| Point { load, value: estimate(value) });
        let lines = vec![DrawnLine { name: "strict".to_owned(), points: points.collect() }];
        let panels = vec![Panel { name: String::new(), lines }];
        let drawing = Drawing { what: "job".to_owned(), measure, counted: LoadUnit::Jobs, panels };
        let chart = drawing.charts().remove(0);
        let texts =
            chart.split("<text").filter(|text| text.contains("end")).filter_map(|text| text.split(['>', '<']).nth(1));
        (texts.map(str::to_owned).collect(), chart.contains("class=\"reference\""))
    }

    #[test]
    fn axes_fit_times_and_ratios_and_have_all_percentages() {
        let axis = |labels: &[&str]| labels.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(drawn(Measure::Elapsed, [0.5, 4.0]), (axis(&["0", "1", "2", "3", "4"]), false));
        assert_eq!(drawn(Measure::ElapsedRatio, [1.0, 3.8]), (axis(&["0", "1", "2", "3", "4"]), true));
        assert_eq!(drawn(Measure::Ssr, [40.0, 50.0]), (axis(&["0", "20", "40", "60", "80", "100"]), true));
    }
}
