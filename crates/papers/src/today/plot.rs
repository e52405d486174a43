//! The answer as a drawing: for each kernel and grain, how fast the rules are over blocking at once as the load grows.

use std::collections::BTreeMap;

use scenario::Granularity;

use super::answer::Speed;
use super::grid::{BASELINE, RULES, SCHEDULERS};
use report::plot::axis::Axis;
use report::plot::lines::{Chart, Line};
use report::plot::svg::{Words, escape, number};
use report::plot::{Mark, Style};
use stats::Estimate;

/// What the file of the drawing is called.
pub const FILE: &str = "today.svg";

/// How wide and high the drawing gives a chart room, with its caption.
const ROOM: (f64, f64) = (350.0, 240.0);
/// The size of a chart.
const CHART: (f64, f64) = (340.0, 212.0);
const CAPTION: f64 = 20.0;

/// The colours that the report's page has, for a drawing without one.
const STYLE: &str = "text { font-family: system-ui, sans-serif; font-size: 11px; fill: #1c1b19; } .caption { font-size: 12px; } \
    .tick { fill: #5a5750; } .name { font-style: italic; } .grid { stroke: #e4e0d6; } .axis { stroke: #8d897f; } \
    .reference { stroke: #5a5750; stroke-dasharray: 1 2.5; } .s0 { --c: #55524b; } .s1 { --c: #0068a8; } .s2 { --c: #c44e00; } \
    .line { fill: none; stroke: var(--c); stroke-width: 1.5; stroke-linejoin: round; } .interval { stroke: var(--c); } \
    .marker { fill: var(--c); stroke: #fffefb; stroke-width: 0.8; }";

/// A chart for each kernel's scheduler and grain, with what it shows.
pub fn charts(speeds: &[Speed]) -> Vec<(String, String)> {
    let panels: Vec<Panel> = Granularity::ALL
        .map(Granularity::name)
        .into_iter()
        .flat_map(|grain| SCHEDULERS.map(|scheduler| Panel::of(speeds, scheduler, grain)))
        .filter(|panel| !panel.lines.is_empty())
        .collect();
    let points = || panels.iter().flat_map(|panel| &panel.lines).flat_map(|(_, points)| points);
    let mut loads: Vec<f64> = points().map(|point| point.0).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let x = Axis::of_numbers(&loads.iter().map(|load| (*load, format!("{load}"))).collect::<Vec<_>>());
    let y = Axis::fitting(points().map(|point| point.1).chain([1.0]));
    panels.iter().enumerate().map(|(place, panel)| (panel.caption(), panel.render(place, &x, &y))).collect()
}

/// All charts as one SVG file that stands alone, a row for each grain.
pub fn render(speeds: &[Speed]) -> String {
    let charts = charts(speeds);
    let across = SCHEDULERS.len();
    let rows = charts.len().div_ceil(across);
    let (width, height) = (ROOM.0 * across as f64, ROOM.1 * rows as f64);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
         <style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fffefb\"/>\n"
    );
    for (place, (caption, chart)) in charts.iter().enumerate() {
        let (left, top) = ((place % across) as f64 * ROOM.0, (place / across) as f64 * ROOM.1);
        let [x, y] = [left + 5.0, top + 14.0].map(number);
        text += &format!("<text class=\"caption\" x=\"{x}\" y=\"{y}\">{}</text>\n", escape(caption));
        let [x, y] = [left + 5.0, top + CAPTION].map(number);
        let place = format!("<svg x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" ", CHART.0, CHART.1);
        text += &chart.replacen("<svg ", &place, 1);
    }
    text + "</svg>\n"
}

/// One kernel's scheduler and one grain.
struct Panel {
    scheduler: &'static str,
    grain: &'static str,
    /// For each rule, the geometric mean of its speed-ups over machines and mixes at each load.
    lines: Vec<(&'static str, Vec<(f64, f64)>)>,
}

impl Panel {
    fn of(speeds: &[Speed], scheduler: &'static str, grain: &'static str) -> Panel {
        let here = |speed: &&Speed| speed.scheduler == scheduler && speed.grain == grain;
        let line = |rule: &'static str| {
            // By the load in thousandths, which are whole numbers.
            let mut loads: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
            for speed in speeds.iter().filter(here).filter(|speed| speed.waiting == rule) {
                loads.entry((speed.load * 1000.0).round() as u64).or_default().push(speed.speed_up.mean.ln());
            }
            let mean = |(load, logs): (u64, Vec<f64>)| {
                (load as f64 / 1000.0, (logs.iter().sum::<f64>() / logs.len() as f64).exp())
            };
            (rule, loads.into_iter().map(mean).collect::<Vec<_>>())
        };
        let rules = RULES.into_iter().filter(|rule| *rule != BASELINE).map(line);
        Panel { scheduler, grain, lines: rules.filter(|(_, points)| !points.is_empty()).collect() }
    }

    fn caption(&self) -> String {
        format!("{}, {} grain", self.scheduler, self.grain)
    }

    fn render(&self, place: usize, x: &Axis, y: &Axis) -> String {
        let title = format!("Speed-up over {BASELINE}: {}", self.caption());
        let rules: Vec<&str> = self.lines.iter().map(|(rule, _)| *rule).collect();
        let description = format!("{title}, against the threads for each CPU: {}.", rules.join(", "));
        let mark = |&(load, mean): &(f64, f64)| {
            let estimate = Estimate { mean, interval: None, samples: 1 };
            (load, Mark { estimate, samples: Vec::new() })
        };
        let lines = self.lines.iter().enumerate().map(|(series, (rule, points))| Line {
            label: (*rule).to_owned(),
            style: Style { series, hollow: false },
            points: points.iter().map(mark).collect(),
        });
        Chart {
            words: Words { id: format!("today-{place}"), title, description },
            x,
            x_label: "threads for each CPU",
            y,
            reference: Some(1.0),
            lines: lines.collect(),
        }
        .render()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_and_grain_has_a_chart_of_means_over_machines() {
        let speed = |cpus: u32, mean: f64| Speed {
            scheduler: "cfs".into(),
            mix: "single".into(),
            grain: "fine".into(),
            cpus,
            load: 1.25,
            waiting: "2cs+".into(),
            speed_up: Estimate { mean, interval: None, samples: 3 },
        };
        let speeds = [speed(8, 2.0), speed(32, 0.5)];
        let panel = Panel::of(&speeds, "cfs", "fine");
        assert_eq!(panel.lines, [("2cs+", vec![(1.25, 1.0)])]);
        let text = render(&speeds);
        let document = roxmltree::Document::parse(&text).unwrap();
        let captions = document.descendants().filter(|node| node.attribute("class") == Some("caption"));
        assert_eq!(captions.filter_map(|node| node.text()).collect::<Vec<_>>(), ["cfs, fine grain"]);
        assert!(document.descendants().any(|node| node.attribute("class") == Some("marker")), "{text}");
    }
}
