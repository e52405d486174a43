//! The conclusions as drawings and as a page: for each kernel, the speed of each rule over that of
//! the best fixed rule, from the worst cell to the best.

use super::conclusions::{Conclusions, GridReport, schedulers};
use super::text;
use crate::figure::drawing::{Axes, DrawnLine, Panel, Point};
use crate::figure::expected::Scale;
use measure::results::incomplete;
use report::html::page::{Section, page, sentence};
use report::html::table::{self, Cell, Column};
use report::html::{figure, grid};
use report::plot::evenly;
use report::plot::svg::{escape, number};
use report::words;
use stats::Estimate;

/// The name of the file of the drawing.
pub const FILE: &str = "today.svg";

/// The width and height of a chart with its caption.
const CELL: (f64, f64) = (350.0, 240.0);
/// The size of a chart.
const CHART: (f64, f64) = (340.0, 212.0);
const CAPTION: f64 = 20.0;
/// The number of points of a line. More would only make the file larger.
const POINTS: usize = 25;

/// The colours of the report's page, for a drawing without one.
const STYLE: &str = "text { font-family: system-ui, sans-serif; font-size: 11px; fill: #1c1b19; } .caption { font-size: 12px; } \
    .tick { fill: #5a5750; } .name { font-style: italic; } .grid { stroke: #e4e0d6; } .axis { stroke: #8d897f; } \
    .reference { stroke: #5a5750; stroke-dasharray: 1 2.5; } .s0 { --c: #55524b; } .s1 { --c: #0068a8; } .s2 { --c: #c44e00; } \
    .s3 { --c: #007a5a; } .s4 { --c: #9c3f86; } .s5 { --c: #876400; } .s6 { --c: #5d55c9; } \
    .line { fill: none; stroke: var(--c); stroke-width: 1.5; stroke-linejoin: round; } .interval { stroke: var(--c); } \
    .marker { fill: var(--c); stroke: #fffefb; stroke-width: 0.8; }";

/// A chart for each kernel, with its caption.
fn charts(conclusions: &Conclusions) -> Vec<(String, String)> {
    let panels: Vec<Panel> = schedulers(&conclusions.cells)
        .into_iter()
        .map(|scheduler| panel(conclusions, scheduler))
        .filter(|panel| panel.lines.iter().any(|line| !line.points.is_empty()))
        .collect();
    let against = "the cells, the worst first, in percent";
    let axes =
        Axes { id: conclusions.grid.name(), x_label: "cells, the worst first (%)", against, scale: Scale::Ratio };
    let title = |panel: &Panel| format!("Speed over that of the best fixed rule: {}", panel.name);
    // Only round numbers have labels.
    let in_words = |share: f64| if share % 25.0 == 0.0 { share.to_string() } else { String::new() };
    let charts = axes.charts(&panels, title, in_words);
    panels.into_iter().map(|panel| panel.name).zip(charts).collect()
}

/// For each rule, its ratios in ascending order.
fn panel(conclusions: &Conclusions, scheduler: &str) -> Panel {
    let here = || conclusions.cells.iter().filter(|cell| cell.cell.kernel.name() == scheduler);
    let line = |rule: &String| {
        let mut ratios: Vec<f64> = here().filter_map(|cell| cell.ratio(rule)).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let point = |share: usize| {
            let mean = ratios[share * (ratios.len() - 1) / (POINTS - 1)];
            let load = 100.0 * share as f64 / (POINTS - 1) as f64;
            Point { load, value: Estimate { mean, interval: None, samples: 1 } }
        };
        let points = if ratios.is_empty() { Vec::new() } else { evenly(POINTS, POINTS).map(point).collect() };
        DrawnLine { name: rule.clone(), points }
    };
    Panel { name: scheduler.to_owned(), lines: conclusions.rules.iter().map(line).collect() }
}

/// All charts of a grid as one SVG file that stands alone.
pub fn render(conclusions: &Conclusions) -> String {
    let charts = charts(conclusions);
    let across = 2;
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

/// The page: for each grid, the drawings and the tables.
pub fn html(report: &GridReport<'_>) -> String {
    let incomplete = || format!("<p>{}</p>\n", incomplete(report.runs, report.planned_runs));
    let mut body = if report.complete { String::new() } else { incomplete() };
    body += &report.host.as_ref().map_or_else(String::new, |host| format!("<p>{}</p>\n", escape(&host.in_words())));
    for conclusions in &report.grids {
        let charts: Vec<String> = charts(conclusions).iter().map(|(caption, chart)| figure(caption, chart)).collect();
        body += &format!("<h3>{}</h3>\n{}{}", text::heading(conclusions), grid(&charts), tables(conclusions));
    }
    let lede = sentence(&report.paper.statement());
    let section = Section { id: "answer", title: "Whether to spin", body };
    page(report.paper.name, &lede, &[section])
}

fn tables(conclusions: &Conclusions) -> String {
    let summaries = &conclusions.summaries;
    let ratio = |ratio: Option<f64>| ratio.map(|ratio| Cell::number(&format!("{ratio:.2}"), ratio)).unwrap_or_default();
    let percent = |percent: f64| Cell::number(&format!("{percent:.0} %"), percent);
    let summary = vec![
        Column::words("rule", summaries.iter().map(|of| of.rule.clone())),
        Column::words("scheduler", summaries.iter().map(|of| of.scheduler.clone())),
        Column::numbers("cells", summaries.iter().map(|of| Some(of.cells as f64))),
        Column::cells("within 10 %", summaries.iter().map(|of| percent(of.close_percent))),
        Column::cells("geometric mean", summaries.iter().map(|of| ratio(Some(of.mean)))),
        Column::cells("worst", summaries.iter().map(|of| ratio(Some(of.worst)))),
        Column::cells("mean of several teams", summaries.iter().map(|of| ratio(of.teams_mean))),
        Column::cells("mean of the slowest", summaries.iter().map(|of| ratio(of.worst_team_mean))),
    ];
    let judged: Vec<_> =
        conclusions.cells.iter().flat_map(|cell| cell.rules.iter().map(move |rule| (cell, rule))).collect();
    let cells = vec![
        Column::numbers("cell", judged.iter().map(|(cell, _)| Some(f64::from(cell.cell.number)))),
        Column::words("machine and jobs", judged.iter().map(|(cell, _)| cell.cell.to_string())),
        Column::words("rule", judged.iter().map(|(_, rule)| rule.rule.clone())),
        Column::words("best", judged.iter().map(|(_, rule)| rule.best.clone())),
        Column::numbers("repetitions", judged.iter().map(|(_, rule)| Some(f64::from(rule.repeat)))),
        Column::cells(
            "ratio",
            judged.iter().map(|(_, rule)| {
                let speed = &rule.closeness.speed;
                Cell::number(&words::ratio(speed), speed.mean)
            }),
        ),
    ];
    let [of_kernels, of_cells] = ["kernels", "cells"].map(|part| format!("{}-{part}", conclusions.grid.name()));
    table::render(&of_kernels, "How close rules come to the best fixed rule of each cell", summary)
        + &table::render(&of_cells, "All cells", cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Paper;
    use crate::today::grid::Grid;
    use crate::today::judgement::tests::{clear, plan};

    #[test]
    fn the_drawing_has_a_chart_of_each_kernel_with_cells_and_the_page_is_well_formed() {
        let plan = plan();
        let conclusions = Conclusions::new(Grid::First, &plan, &clear(&plan.cells[0]));
        let text = render(&conclusions);
        let document = roxmltree::Document::parse(&text).unwrap();
        let captions = document.descendants().filter(|node| node.attribute("class") == Some("caption"));
        let scheduler = plan.cells[0].kernel.name();
        assert_eq!(captions.filter_map(|node| node.text()).collect::<Vec<_>>(), [scheduler]);
        let paper = Paper::named("barrier/today").unwrap();
        let report =
            GridReport { paper, complete: false, runs: 18, planned_runs: 20, host: None, grids: vec![conclusions] };
        let page = html(&report);
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        roxmltree::Document::parse_with_options(&page, options).unwrap();
        assert!(page.contains("18 of 20 runs"), "{page}");
        assert!(text::render(&report).contains("always-block"));
    }
}
