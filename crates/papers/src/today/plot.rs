//! The conclusions as drawings: for each kernel and granularity, the speed-up of the rules over
//! immediate blocking, by load.

use std::collections::BTreeMap;

use scenario::Granularity;

use super::conclusions::{Conclusions, Speed};
use super::grid::{BASELINE, RULES, SCHEDULERS};
use crate::figure::drawing::{Axes, DrawnLine, Panel, Point};
use crate::figure::expected::Scale;
use measure::manifest::Manifest;
use measure::results::html;
use measure::sample::History;
use report::html::page::{Section, sentence};
use report::html::{figure, grid};
use report::plot::svg::{escape, number};
use stats::Estimate;

/// The name of the file of the drawing.
pub const FILE: &str = "today.svg";

/// The width and height of a chart with its caption.
const CELL: (f64, f64) = (350.0, 240.0);
/// The size of a chart.
const CHART: (f64, f64) = (340.0, 212.0);
const CAPTION: f64 = 20.0;

/// The colours of the report's page, for a drawing without one.
const STYLE: &str = "text { font-family: system-ui, sans-serif; font-size: 11px; fill: #1c1b19; } .caption { font-size: 12px; } \
    .tick { fill: #5a5750; } .name { font-style: italic; } .grid { stroke: #e4e0d6; } .axis { stroke: #8d897f; } \
    .reference { stroke: #5a5750; stroke-dasharray: 1 2.5; } .s0 { --c: #55524b; } .s1 { --c: #0068a8; } .s2 { --c: #c44e00; } \
    .line { fill: none; stroke: var(--c); stroke-width: 1.5; stroke-linejoin: round; } .interval { stroke: var(--c); } \
    .marker { fill: var(--c); stroke: #fffefb; stroke-width: 0.8; }";

/// A chart for each kernel's scheduler and granularity, with its caption.
fn charts(speeds: &[Speed]) -> Vec<(String, String)> {
    let panels: Vec<Panel> = Granularity::ALL
        .map(Granularity::name)
        .into_iter()
        .flat_map(|grain| SCHEDULERS.map(|scheduler| panel(speeds, scheduler, grain)))
        .filter(|panel| !panel.lines.is_empty())
        .collect();
    let against = "the threads for each CPU";
    let axes = Axes { id: "today", x_label: "threads for each CPU", against, scale: Scale::Ratio };
    let title = |panel: &Panel| format!("Speed-up over {BASELINE}: {}", panel.name);
    let charts = axes.charts(&panels, title, |load| load.to_string());
    panels.into_iter().map(|panel| panel.name).zip(charts).collect()
}

/// For each rule, the geometric mean of its speed-ups over machines and mixes at each load.
fn panel(speeds: &[Speed], scheduler: &str, grain: &str) -> Panel {
    let here = |speed: &&Speed| speed.place.scheduler == scheduler && speed.place.grain == grain;
    let line = |rule: &str| {
        // By the load in thousandths, which are whole numbers.
        let mut loads: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for speed in speeds.iter().filter(here).filter(|speed| speed.waiting == rule) {
            loads.entry((speed.load * 1000.0).round() as u64).or_default().push(speed.speed_up.mean.ln());
        }
        let point = |(load, logs): (u64, Vec<f64>)| {
            let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
            Point { load: load as f64 / 1000.0, value: Estimate { mean, interval: None, samples: 1 } }
        };
        DrawnLine { name: rule.to_owned(), points: loads.into_iter().map(point).collect() }
    };
    let lines = RULES.into_iter().filter(|rule| *rule != BASELINE).map(line);
    let lines = lines.filter(|line| !line.points.is_empty()).collect();
    Panel { name: format!("{scheduler}, {grain} grain"), lines }
}

/// All charts as one SVG file that stands alone, a row for each granularity.
pub fn render(speeds: &[Speed]) -> String {
    let charts = charts(speeds);
    let across = SCHEDULERS.len();
    let rows = charts.len().div_ceil(across);
    let (width, height) = (CELL.0 * across as f64, CELL.1 * rows as f64);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
         <style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fffefb\"/>\n"
    );
    for (place, (caption, chart)) in charts.iter().enumerate() {
        let (left, top) = ((place % across) as f64 * CELL.0, (place / across) as f64 * CELL.1);
        let [x, y] = [left + 5.0, top + 14.0].map(number);
        text += &format!("<text class=\"caption\" x=\"{x}\" y=\"{y}\">{}</text>\n", escape(caption));
        let [x, y] = [left + 5.0, top + CAPTION].map(number);
        let place = format!("<svg x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" ", CHART.0, CHART.1);
        text += &chart.replacen("<svg ", &place, 1);
    }
    text + "</svg>\n"
}

/// The page: the drawings, then the report of the experiment.
pub fn page(conclusions: &Conclusions<'_>, manifest: &Manifest, histories: &[History]) -> String {
    let charts: Vec<String> =
        charts(&conclusions.speeds).iter().map(|(caption, chart)| figure(caption, chart)).collect();
    let sentence = sentence(
        "The speed-up of each rule over immediate blocking: the geometric mean over machines and mixes of jobs.",
    );
    let body = format!("<p>{sentence}</p>\n{}", grid(&charts));
    let section = Section { id: "answer", title: "Whether to spin", body };
    html::render(Some(section), conclusions.report, manifest, histories)
}

#[cfg(test)]
mod tests {
    use super::super::conclusions::Place;
    use super::*;

    #[test]
    fn each_kernel_and_granularity_has_a_chart_of_means_over_machines() {
        let speed = |cpus: u32, mean: f64| Speed {
            place: Place { scheduler: "cfs".into(), mix: "single".into(), grain: "fine".into(), cpus },
            load: 1.25,
            waiting: "2cs+".into(),
            speed_up: Estimate { mean, interval: None, samples: 3 },
        };
        let speeds = [speed(8, 2.0), speed(32, 0.5)];
        let value = Estimate { mean: 1.0, interval: None, samples: 1 };
        let line = DrawnLine { name: "2cs+".into(), points: vec![Point { load: 1.25, value }] };
        assert_eq!(panel(&speeds, "cfs", "fine").lines, [line]);
        let text = render(&speeds);
        let document = roxmltree::Document::parse(&text).unwrap();
        let captions = document.descendants().filter(|node| node.attribute("class") == Some("caption"));
        assert_eq!(captions.filter_map(|node| node.text()).collect::<Vec<_>>(), ["cfs, fine grain"]);
        assert!(document.descendants().any(|node| node.attribute("class") == Some("marker")), "{text}");
    }
}
