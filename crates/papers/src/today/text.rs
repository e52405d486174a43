//! The conclusions as text.

use std::fmt::Write;

use super::conclusions::{BistableRule, COPY, Conclusions, GridReport, Judged, Share, Summary};
use super::grid::Grid;
use super::speed_ups::SpeedUps;
use crate::text::{Column, indented, table, wrapped};
use measure::results::incomplete;
use report::table::Table;

/// All conclusions, a part for each grid.
pub fn render(report: &GridReport<'_>) -> String {
    let mut text = wrapped(&report.paper.statement());
    if !report.complete {
        text += &format!("{}\n", incomplete(report.runs, report.planned_runs));
    }
    text += &format!("{} runs.\n", report.runs);
    text += &report.host.as_ref().map_or_else(String::new, |host| wrapped(&host.in_words()));
    report.grids.iter().for_each(|grid| of_grid(&mut text, grid));
    text
}

/// The heading of the conclusions from a grid.
pub(super) fn heading(conclusions: &Conclusions) -> String {
    let cells = report::words::counted(conclusions.cells.len() as u64, "cell");
    let grid = match conclusions.grid {
        Grid::Host => "This machine".to_owned(),
        grid => format!("The {} grid", grid.name()),
    };
    format!("{grid}, {cells}: the speed of a rule over that of the best fixed rule of each cell")
}

fn of_grid(text: &mut String, conclusions: &Conclusions) {
    // Writing to a string does not fail.
    let _ = write!(text, "\n{}\n{}", heading(conclusions), summaries(&conclusions.summaries));
    if conclusions.incomplete > 0 {
        let _ = writeln!(text, "  {} cells lack runs.", conclusions.incomplete);
    }
    if conclusions.cells.is_empty() {
        return;
    }
    let _ = write!(
        text,
        "\nThe share of cells in which a fixed rule is the best, in percent\n{}",
        shares(&conclusions.best)
    );
    // On this machine the time bounds all runs.
    if conclusions.grid != Grid::Host && conclusions.cut_off.iter().any(|share| share.percent > 0.0) {
        let _ = write!(
            text,
            "\nThe share of cells in which a run of a rule was cut off, so that its time is extrapolated, in percent\n{}",
            shares(&conclusions.cut_off)
        );
    }
    let _ = write!(
        text,
        "\nThe speed-up of each rule over immediate blocking, on average over machines and companies\n{}",
        speed_ups(&conclusions.speed_ups)
    );
    let mut rules: Vec<&str> = conclusions.summaries.iter().map(|summary| summary.rule.as_str()).collect();
    rules.dedup();
    for rule in rules.into_iter().filter(|rule| *rule != COPY) {
        let worst = conclusions.worst(rule);
        if worst.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\nThe cells in which {rule} is furthest from the best (--cell N runs one alone)");
        let mut table = Table::new(["cell", "ratio", "95 % interval", "best"], 1);
        for (cell, judged) in worst {
            let speed = judged.closeness.speed;
            table.row([
                Some(format!("{}: {}", cell.cell.number, cell.cell)),
                Some(format!("{:.2}", speed.mean)),
                speed.interval.map(|(low, high)| format!("{low:.2} to {high:.2}")),
                Some(judged.best.clone()),
            ]);
        }
        *text += &indented(&table);
    }
    *text += &bistable(&conclusions.cells);
}

fn summaries(summaries: &[Summary]) -> String {
    let ratio = |ratio: f64| Some(format!("{ratio:.2}"));
    let columns: [Column<'_, Summary>; 8] = [
        ("rule", &|of| Some(of.rule.clone())),
        ("scheduler", &|of| Some(of.scheduler.clone())),
        ("cells", &|of| Some(of.cells.to_string())),
        ("within 10 %", &|of| Some(format!("{:.0} %", of.close_percent))),
        ("mean", &|of| ratio(of.mean)),
        ("worst", &|of| ratio(of.worst)),
        ("several teams", &|of| of.teams_mean.and_then(ratio)),
        ("slowest team", &|of| of.worst_team_mean.and_then(ratio)),
    ];
    table(summaries, 2, columns)
}

fn speed_ups(speed_ups: &[SpeedUps]) -> String {
    let rules = |rules: &[(String, f64)]| {
        rules.iter().map(|(rule, speed)| format!("{rule} {speed:.2}")).collect::<Vec<_>>().join(", ")
    };
    let columns: [Column<'_, SpeedUps>; 4] = [
        ("scheduler", &|of| Some(of.scheduler.clone())),
        ("grain", &|of| Some(of.grain.to_owned())),
        ("load", &|of| Some(of.loads.to_owned())),
        ("rules, the best first", &|of| Some(rules(&of.rules))),
    ];
    table(speed_ups, 4, columns)
}

fn shares(shares: &[Share]) -> String {
    let kernels = || shares.chunk_by(|one, other| one.scheduler == other.scheduler);
    let rules = kernels().next().into_iter().flatten().map(|share| share.rule.clone());
    let mut table = Table::new(["scheduler".to_owned()].into_iter().chain(rules), 1);
    for here in kernels() {
        let cells = here.iter().map(|share| Some(format!("{:.0}", share.percent)));
        table.row([here.first().map(|share| share.scheduler.clone())].into_iter().chain(cells));
    }
    indented(&table)
}

fn bistable(cells: &[Judged]) -> String {
    let mut table = Table::new(["cell", "rule", "share", "fast", "slow"], 2);
    let mut count = 0;
    for cell in cells {
        for BistableRule { rule, states } in &cell.bistable {
            count += 1;
            let time = |seconds: f64| Some(report::words::time(seconds * 1e9));
            table.row([
                Some(cell.cell.number.to_string()),
                Some(rule.clone()),
                Some(format!("{:.0} %", 100.0 * states.fast_share)),
                time(states.fast_seconds),
                time(states.slow_seconds),
            ]);
        }
    }
    if count == 0 {
        return String::new();
    }
    format!(
        "\nBistable: the share of runs in the faster of two states, and the mean times of both\n{}",
        indented(&table)
    )
}
