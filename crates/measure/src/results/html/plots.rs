//! The plots.
//!
//! With an axis (`x`) there is a line chart for each figure, with a line for each value of
//! `compare`. The other factors make small multiples with the same scale. Without an axis there is
//! a dot chart with a row for each arm. Charts beyond a limit are folded.

use std::collections::BTreeMap;

use scenario::result::World;

use super::figures::{Metric, unit_of_time, values_of};
use super::value;
use crate::factor;
use crate::results::{ExperimentReport, text};
use crate::summary::Summary;
use report::distinct;
use report::html::page::Section;
use report::html::{figure, folded, grid};
use report::plot::axis::Axis;
use report::plot::svg::{Words, escape};
use report::plot::{DOTS, Mark, SERIES, Style, dots, evenly, lines};
use report::words;

/// The most small multiples of a figure that are not folded.
const MULTIPLES: usize = 6;

/// The most rows of a dot chart.
const ROWS: usize = 30;

pub(super) fn section(report: &ExperimentReport) -> Section {
    let blocks: Vec<(&str, String)> = text::jobs(report)
        .into_iter()
        .enumerate()
        .map(|(number, job)| (job, Job::new(report, number, job).render()))
        .filter(|(_, block)| !block.is_empty())
        .collect();
    let body: String = blocks.iter().map(|(job, block)| format!("<h3>{}</h3>\n{block}", escape(job))).collect();
    let body = if body.is_empty() { body } else { how_to_read(report) + &body };
    Section { id: "plots", title: "Results", body }
}

fn how_to_read(report: &ExperimentReport) -> String {
    let worlds = match text::worlds(report).as_slice() {
        [_, _] => " Filled marks and solid lines are simulated, hollow marks and dashed lines are this machine.",
        _ => "",
    };
    let some = if report.repeat as usize > DOTS { format!(" ({DOTS} of {})", report.repeat) } else { String::new() };
    let bars = if report.repeat > 1 {
        format!(
            "Marks are means, bars their 95 % intervals, small dots single runs{some}; values outside of a drawing are cut off."
        )
    } else {
        "Each mark is one run.".to_owned()
    };
    format!("<p>{bars}{worlds}</p>\n")
}

/// The plots of one job.
struct Job<'a> {
    report: &'a ExperimentReport,
    number: usize,
    worlds: Vec<World>,
    summaries: Vec<&'a Summary>,
    /// The labels of the lines or rows. A single empty label if nothing is compared.
    series: Vec<String>,
    /// The combinations of the other factors.
    groups: Vec<String>,
    /// The summaries by group and series. Searching all of them for each would take quadratic time.
    sorted: BTreeMap<String, BTreeMap<String, Vec<&'a Summary>>>,
    x: Option<HorizontalAxis<'a>>,
}

/// The scale of a figure.
struct Scale {
    metric: Metric,
    /// The length of the unit.
    unit: f64,
    axis: Axis,
    /// A reference value.
    reference: Option<f64>,
    caption: String,
}

impl Scale {
    /// The figure of a summary in the unit of the scale.
    fn mark(&self, summary: &Summary) -> Option<Mark> {
        Some(self.metric.mark(summary)?.scaled(self.unit))
    }
}

/// The horizontal axis.
struct HorizontalAxis<'a> {
    path: &'a str,
    /// The positions of the values by their labels.
    values: BTreeMap<String, f64>,
    axis: Axis,
    label: String,
}

impl<'a> Job<'a> {
    fn new(report: &'a ExperimentReport, number: usize, job: &'a str) -> Job<'a> {
        let summaries: Vec<&Summary> = report.summaries.iter().filter(|summary| summary.job == job).collect();
        let x = report.x.as_deref().filter(|path| report.compare.as_deref() != Some(*path));
        let x = x.and_then(|path| {
            let values = distinct(summaries.iter().filter_map(|summary| summary.x.as_ref()), ToString::to_string);
            HorizontalAxis::new(path, values.into_iter().cloned().collect())
        });
        let (worlds, series, groups) = (text::worlds(report), Vec::new(), Vec::new());
        let mut new = Job { report, number, worlds, summaries, series, groups, sorted: BTreeMap::new(), x };
        let known = values_of(report, new.line_factor()).iter().map(words::value).collect::<Vec<_>>();
        new.series = if known.is_empty() { vec![String::new()] } else { known };
        new.groups = distinct(new.summaries.iter().map(|summary| new.group_of(summary)), String::clone);
        for &summary in &new.summaries {
            let (group, series) = (new.group_of(summary), new.series_of(summary));
            new.sorted.entry(group).or_default().entry(series).or_default().push(summary);
        }
        new
    }

    /// The factor that labels the lines or rows.
    fn line_factor(&self) -> Option<&'a str> {
        if self.x.is_some() { self.report.compare.as_deref() } else { text::line_factor(self.report) }
    }

    fn series_of(&self, summary: &Summary) -> String {
        value(&summary.factors, self.line_factor())
    }

    fn group_of(&self, summary: &Summary) -> String {
        let by_line = |path: &str| self.line_factor().is_some_and(|line| factor::is_in(path, line));
        text::in_order(self.report, &summary.factors, |path| {
            !by_line(path) && !self.x.as_ref().is_some_and(|x| factor::is_determined_by(x.path, path))
        })
    }

    /// The arms of a group with the same line or row.
    fn of(&self, group: &str, series: &str) -> impl Iterator<Item = &'a Summary> {
        self.sorted.get(group).and_then(|group| group.get(series)).into_iter().flatten().copied()
    }

    fn id(&self, metric: Metric, place: usize) -> String {
        format!("plot-{}-{}-{place}", self.number, metric as usize)
    }

    fn style(&self, series: usize, world: World) -> Style {
        Style { series, hollow: world == World::Host && self.worlds.len() > 1 }
    }

    fn render(&self) -> String {
        let metrics: Vec<Metric> = Metric::ALL.into_iter().filter(|metric| self.is_worth_drawing(*metric)).collect();
        if metrics.is_empty() {
            return String::new();
        }
        let scales = metrics.into_iter().map(|metric| self.scale(metric));
        let Some(x) = &self.x else { return self.dots(&scales.collect::<Vec<_>>()) };
        // All series, or a selection if they are too many to distinguish.
        let lines: Vec<usize> = evenly(self.series.len(), SERIES).collect();
        let charts = |scale: &Scale| self.line_charts(x, scale, &lines);
        let body = if self.groups.len() == 1 {
            grid(&scales.flat_map(|scale| charts(&scale)).collect::<Vec<_>>())
        } else {
            scales.map(|scale| multiples(&scale, &charts(&scale))).collect()
        };
        self.legend(&lines) + &body
    }

    /// Whether the figure exists, and is not the speed-up of the baseline alone.
    fn is_worth_drawing(&self, metric: Metric) -> bool {
        let exists = self.summaries.iter().any(|summary| metric.mark(summary).is_some());
        exists && (metric != Metric::SpeedUp || values_of(self.report, self.report.compare.as_deref()).len() > 1)
    }

    /// The scale of a figure for all arms of the job.
    fn scale(&self, metric: Metric) -> Scale {
        let marks: Vec<Mark> = self.summaries.iter().filter_map(|summary| metric.mark(summary)).collect();
        let values = || marks.iter().flat_map(Mark::values);
        let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        // The axis includes only a part of wide intervals of few samples.
        let reach = |mark: &Mark| {
            let (from, to) = mark.estimate.interval.unwrap_or((low, high));
            [from.max(low / 2.0), to.min(high * 1.5)]
        };
        let (unit, name) = match metric {
            Metric::Completion => unit_of_time(high),
            Metric::Ssr => (1.0, "%"),
            Metric::SpeedUp | Metric::RoundsPerSecond => (1.0, ""),
        };
        let reference = (metric == Metric::SpeedUp).then_some(1.0);
        let axis = match metric {
            Metric::Ssr => Axis::linear(0.0, 100.0),
            _ => {
                let values = values().chain(marks.iter().flat_map(reach)).map(|value| value / unit);
                Axis::fitting(values.chain(reference))
            }
        };
        Scale { metric, unit, reference, caption: self.caption(metric, name, &axis), axis }
    }

    /// The name of a chart, its unit, and which direction is better.
    fn caption(&self, metric: Metric, unit: &str, axis: &Axis) -> String {
        let over = match &self.report.baseline {
            Some(baseline) if metric == Metric::SpeedUp => format!(" over {}", words::value(baseline)),
            _ => String::new(),
        };
        let scale = if axis.is_logarithmic { "logarithmic" } else { "" };
        let (name, better) = metric.words();
        let parts = [unit, scale, better].into_iter().filter(|part| !part.is_empty());
        [format!("{name}{over}")].into_iter().chain(parts.map(str::to_owned)).collect::<Vec<_>>().join(", ")
    }
}

/// Charts of lines.
impl Job<'_> {
    fn line_charts(&self, x: &HorizontalAxis<'_>, scale: &Scale, lines: &[usize]) -> Vec<String> {
        let Scale { metric, axis, reference, caption, .. } = scale;
        let chart = |(place, group): (usize, &String)| {
            let lines = self.lines_of(x, scale, group, lines);
            if lines.is_empty() {
                return String::new();
            }
            let shown = if self.groups.len() == 1 { caption } else { group };
            let title = if self.groups.len() == 1 { caption.clone() } else { format!("{caption}; {group}") };
            let description =
                format!("{title}, against {}: {}.", x.label, lines.iter().map(ends).collect::<Vec<_>>().join("; "));
            let words = Words { id: self.id(*metric, place), title, description };
            let reference = *reference;
            let chart = lines::Chart { words, x: &x.axis, x_label: &x.label, y: axis, reference, lines };
            figure(shown, &chart.render())
        };
        self.groups.iter().enumerate().map(chart).filter(|chart| !chart.is_empty()).collect()
    }

    fn lines_of(&self, x: &HorizontalAxis<'_>, scale: &Scale, group: &str, shown: &[usize]) -> Vec<lines::Line> {
        let point = |of: &Summary| Some((*x.values.get(&words::value(of.x.as_ref()?))?, scale.mark(of)?));
        let mut lines: Vec<lines::Line> = Vec::new();
        for (place, &series) in shown.iter().enumerate() {
            let mut name = self.series[series].as_str();
            for &world in &self.worlds {
                let of_line = self.of(group, &self.series[series]).filter(|of| of.world == world);
                let mut points: Vec<(f64, Mark)> = of_line.filter_map(point).collect();
                points.sort_by(|(one, _), (other, _)| one.total_cmp(other));
                if !points.is_empty() {
                    // Only the first line of a series has its name.
                    let label = std::mem::take(&mut name).to_owned();
                    lines.push(lines::Line { label, style: self.style(place, world), points });
                }
            }
        }
        lines
    }

    fn legend(&self, lines: &[usize]) -> String {
        let Some(compare) = self.line_factor() else { return String::new() };
        let marker = |class: &str, series| {
            let mut drawing =
                report::plot::svg::Drawing::bare("class=\"key\" viewBox=\"-9 -6 18 12\" aria-hidden=\"true\"");
            drawing.raw(format_args!("<g class=\"{class}\">"));
            drawing.line("line", (-9.0, 0.0), (9.0, 0.0));
            drawing.marker("marker", series, (0.0, 0.0));
            drawing.raw(format_args!("</g>"));
            drawing.finish()
        };
        let item = |(place, series): (usize, &usize)| {
            let style = self.style(place, World::Sim);
            format!("<li>{}{}</li>\n", marker(&style.class(), place), escape(&self.series[*series]))
        };
        let items: String = lines.iter().enumerate().map(item).collect();
        let left_out = match self.series.len() - lines.len() {
            0 => String::new(),
            more => format!("<li>({more} more are in the tables)</li>\n"),
        };
        format!("<ul class=\"legend\">\n<li>{}:</li>\n{items}{left_out}</ul>\n", escape(&words::path(compare)))
    }
}

/// Charts of dots.
impl Job<'_> {
    fn dots(&self, scales: &[Scale]) -> String {
        let mut charts: Vec<Vec<String>> = Vec::new();
        for scale in scales {
            let Scale { metric, axis, reference, caption, .. } = scale;
            for (place, rows) in self.rows(scale).chunks(ROWS).enumerate() {
                let description =
                    rows.iter().filter(|row| !row.marks.is_empty()).map(mean_of).collect::<Vec<_>>().join("; ");
                let words = Words { id: self.id(*metric, place), title: caption.clone(), description };
                if charts.len() <= place {
                    charts.push(Vec::new());
                }
                let chart = dots::Chart { words, x: axis, reference: *reference, rows };
                charts[place].push(figure(caption, &chart.render()));
            }
        }
        let mut charts = charts.iter().map(|charts| grid(charts));
        let first = charts.next().unwrap_or_default();
        let rest: String = charts.collect();
        if rest.is_empty() { first } else { first + &folded("More arms", &rest) }
    }

    /// A row for each arm with the figure, and a heading for each combination of other factors.
    fn rows(&self, scale: &Scale) -> Vec<dots::Row> {
        let mut rows = Vec::new();
        for group in &self.groups {
            let arms: Vec<dots::Row> =
                (0..self.series.len()).filter_map(|series| self.row(scale, group, series)).collect();
            if !arms.is_empty() && !group.is_empty() {
                rows.push(dots::Row { name: group.clone(), marks: Vec::new() });
            }
            rows.extend(arms);
        }
        rows
    }

    fn row(&self, scale: &Scale, group: &str, series: usize) -> Option<dots::Row> {
        let name = &self.series[series];
        // The first is the baseline.
        let colour = usize::from(series > 0);
        let mark = |of: &Summary| Some((self.style(colour, of.world), scale.mark(of)?));
        let marks: Vec<(Style, Mark)> = self.of(group, name).filter_map(mark).collect();
        (!marks.is_empty()).then(|| dots::Row { name: name.clone(), marks })
    }
}

impl<'a> HorizontalAxis<'a> {
    /// The axis of these values. `None` if there is only one.
    fn new(path: &'a str, values: Vec<toml::Value>) -> Option<HorizontalAxis<'a>> {
        if values.len() < 2 {
            return None;
        }
        // The number, and whether it is a time.
        let number = |value: &toml::Value| match value {
            toml::Value::Integer(number) => Some((*number as f64, false)),
            toml::Value::Float(number) => Some((*number, false)),
            toml::Value::String(text) => Some((text.parse::<scenario::Span>().ok()?.as_nanos() as f64, true)),
            _ => None,
        };
        let label = words::path(path);
        let Some(numbers) = values.iter().map(number).collect::<Option<Vec<_>>>() else {
            let axis = Axis::of_names(&values.iter().map(words::value).collect::<Vec<_>>());
            let values = values.iter().map(words::value).zip((0..).map(f64::from)).collect();
            return Some(HorizontalAxis { path, values, axis, label });
        };
        let longest = numbers.iter().map(|(number, _)| *number).fold(0.0, f64::max);
        let is_time = numbers.iter().all(|(_, is_time)| *is_time);
        let (unit, name) = if is_time { unit_of_time(longest) } else { (1.0, "") };
        let at: Vec<f64> = numbers.iter().map(|(number, _)| number / unit).collect();
        let mut ticks: Vec<(f64, String)> = at.iter().map(|at| (*at, at.to_string())).collect();
        ticks.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let label = if is_time { format!("{label}, {name}") } else { label };
        let values = values.iter().map(words::value).zip(at).collect();
        Some(HorizontalAxis { path, values, axis: Axis::of_numbers(&ticks), label })
    }
}

/// The small multiples of a figure.
fn multiples(scale: &Scale, charts: &[String]) -> String {
    let (shown, rest) = charts.split_at(charts.len().min(MULTIPLES));
    let rest = if rest.is_empty() { String::new() } else { folded(&format!("{} more", rest.len()), &grid(rest)) };
    let body = grid(shown) + &rest;
    match scale.metric {
        Metric::Completion | Metric::SpeedUp => format!("<h4>{}</h4>\n{body}", escape(&scale.caption)),
        Metric::Ssr | Metric::RoundsPerSecond => folded(&scale.caption, &body),
    }
}

/// The first and last mean of a line, in words.
fn ends(line: &lines::Line) -> String {
    let world = if line.style.hollow { " (host)" } else { "" };
    let mean = |point: Option<&(f64, Mark)>| {
        point.map_or(String::new(), |(_, mark)| words::significant(mark.estimate.mean, 3))
    };
    format!("{}{world} from {} to {}", line.label, mean(line.points.first()), mean(line.points.last()))
}

fn mean_of(row: &dots::Row) -> String {
    let means: Vec<String> = row.marks.iter().map(|(_, mark)| words::significant(mark.estimate.mean, 3)).collect();
    format!("{} {}", row.name, means.join(" and "))
}
