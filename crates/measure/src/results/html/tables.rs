//! The tables: every job in every arm and world, and prediction against reality.

use super::figures::unit_of_time;
use crate::factor::Factors;
use crate::results::{ExperimentReport, text};
use crate::summary::{Gap, Summary};
use crate::turns::Turns;
use report::html::page::Section;
use report::html::table::{self, Cell, Column};
use report::words;
use stats::Estimate;

pub(super) fn section(report: &ExperimentReport) -> Section {
    let jobs = text::jobs(report);
    let summaries = jobs.iter().enumerate().map(|(number, job)| summary_table(report, number, job));
    let gaps: String = jobs.iter().enumerate().map(|(number, job)| gap_table(report, number, job)).collect();
    let gaps = match gaps.as_str() {
        "" => String::new(),
        _ => format!(
            "<h3>Prediction against reality</h3>\n<p>The simulated figure over the host's, less one, in percent; SSR is \
             simulated less host, in points. In brackets the 95 % interval.</p>\n{gaps}"
        ),
    };
    let body = summaries.collect::<String>() + &turns_table(report) + &gaps;
    Section { id: "figures", title: "All figures", body }
}

/// The columns of an arm's factors, in the order of the file.
pub(super) fn factor_columns<'a>(
    report: &ExperimentReport,
    arms: impl Iterator<Item = &'a Factors> + Clone,
) -> Vec<Column> {
    let column =
        |path: &String| Column::values(&words::path(path), arms.clone().map(|arm| super::value(arm, Some(path))));
    report.factors.iter().map(column).collect()
}

fn summary_table(report: &ExperimentReport, number: usize, job: &str) -> String {
    let summaries: Vec<&Summary> = report.summaries.iter().filter(|summary| summary.job == job).collect();
    let rows = || summaries.iter().copied();
    let longest = |figure: fn(&Summary) -> Option<Estimate>| {
        unit_of_time(rows().filter_map(figure).map(|estimate| estimate.mean).fold(0.0, f64::max))
    };
    let means = |name: &str, scale: f64, figure: fn(&Summary) -> Option<Estimate>| {
        Column::numbers(name, rows().map(|summary| figure(summary).map(|estimate| estimate.mean / scale)))
    };
    let share = |summary: &Summary| {
        let share = summary.completion_ns.and_then(|estimate| estimate.relative_half_width());
        share.map(|share| Cell::number(&words::percent(share), share * 100.0)).unwrap_or_default()
    };
    let completion = longest(|summary| summary.completion_ns);
    let (start, cpu) = (longest(|summary| summary.start_ns), longest(|summary| summary.cpu_ns));
    let speed_up = |summary: &Summary| {
        let mark = if text::differs_from_baseline(summary) { text::MARK } else { "" };
        let cell = |estimate: Estimate| Cell::number(&format!("{}{mark}", words::ratio(&estimate)), estimate.mean);
        summary.speedup.map(cell).unwrap_or_default()
    };
    let mut columns = factor_columns(report, rows().map(|summary| &summary.factors));
    columns.extend([
        Column::words("world", rows().map(|summary| summary.world.name().to_owned())),
        means(&format!("completion, {}", completion.1), completion.0, |summary| summary.completion_ns),
        Column::cells("± %", rows().map(share)),
        means(&format!("start, {}", start.1), start.0, |summary| summary.start_ns),
        means("rounds/s", 1.0, |summary| summary.rounds_per_second),
        Column::cells(
            "SSR, %",
            rows().map(|summary| {
                let cell = |estimate: &Estimate| Cell::number(&words::with_half_width(estimate), estimate.mean);
                summary.ssr_percent.as_ref().map(cell).unwrap_or_default()
            }),
        ),
        means(&format!("CPU time, {}", cpu.1), cpu.0, |summary| summary.cpu_ns),
        means("blocked", 1.0, |summary| summary.voluntary_switches),
        means("preempted", 1.0, |summary| summary.involuntary_switches),
        Column::cells("speed-up", rows().map(speed_up)),
    ]);
    let copies = rows().map(|summary| summary.copies).max().unwrap_or(1);
    let copies = if copies > 1 { ", mean of its copies" } else { "" };
    table::render(&format!("summary-{number}"), &format!("{job}{copies}"), columns)
}

fn turns_table(report: &ExperimentReport) -> String {
    let rows = || report.turns.iter();
    let means = |name: &str, scale: f64, figure: fn(&Turns) -> Option<Estimate>| {
        Column::numbers(name, rows().map(|of| figure(of).map(|estimate| estimate.mean / scale)))
    };
    let longest = rows().filter_map(|of| of.delay_mean_ns).map(|estimate| estimate.mean).fold(0.0, f64::max);
    let (scale, unit) = unit_of_time(longest);
    let mut columns = factor_columns(report, rows().map(|of| &of.factors));
    columns.extend([
        Column::words("world", rows().map(|of| of.world.name().to_owned())),
        means("slices", 1.0, |of| of.slices_most),
        means("turns", 1.0, |of| of.turns),
        means(&format!("delay, {unit}"), scale, |of| of.delay_mean_ns),
        means(&format!("its deviation, {unit}"), scale, |of| of.delay_sd_ns),
    ]);
    table::render("turns", "Turns of jobs on cells, and the delay from a boundary to a turn", columns)
}

fn gap_table(report: &ExperimentReport, number: usize, job: &str) -> String {
    let gaps: Vec<&Gap> = report.gaps.iter().filter(|gap| gap.job == job).collect();
    let rows = || gaps.iter().copied();
    let column = |name: &str, figure: fn(&Gap) -> Option<Estimate>| {
        let cell = |estimate: Estimate| Cell::number(&words::signed(&estimate), estimate.mean);
        Column::cells(name, rows().map(|gap| figure(gap).map(cell).unwrap_or_default()))
    };
    let mut columns = factor_columns(report, rows().map(|gap| &gap.factors));
    columns.extend([
        column("completion, %", |gap| gap.completion_percent),
        column("rounds/s, %", |gap| gap.rounds_per_second_percent),
        column("SSR, points", |gap| gap.ssr_points),
        column("CPU time, %", |gap| gap.cpu_percent),
    ]);
    table::render(&format!("gap-{number}"), &format!("{job}, sim over host"), columns)
}
