//! The conclusions as text.

use std::fmt::Write;

use scenario::Granularity;

use super::conclusions::{AdviceBound, BestRules, Conclusions};
use super::grid::{ADVISED, CPUS, Mix, SCHEDULERS};
use crate::Paper;
use crate::text::{Column, indented, table, wrapped};
use measure::results::incomplete;
use report::table::Table;

/// All conclusions.
pub fn render(paper: &Paper, conclusions: &Conclusions<'_>) -> String {
    let report = conclusions.report;
    let mut text = wrapped(&report.title) + "\n" + &wrapped(&paper.statement());
    // Writing to a string does not fail.
    let _ =
        writeln!(text, "{} runs of {} arms.", report.runs.len(), report.planned_runs / u64::from(report.repeat.max(1)));
    if !report.complete {
        let _ = writeln!(text, "{}", incomplete(report.runs.len(), report.planned_runs));
    }
    let _ = write!(
        text,
        "\nThe last load (threads for each CPU) at which {ADVISED} is faster than immediate blocking, and the first at which it\n\
         is slower (\"-\" if there is none)\n"
    );
    for mix in Mix::ALL.map(Mix::name) {
        let _ = write!(text, " {mix}\n{}", indented(&bounds(conclusions, mix)));
    }
    let _ = write!(
        text,
        "\nThe speed-up of each rule over immediate blocking, on average over machines and mixes\n{}",
        best(conclusions)
    );
    if let Some(width) = conclusions.width {
        let _ = writeln!(
            text,
            "\nHalf the 95 % interval of a speed-up is {:.1} % of it in the median and {:.1} % or less in nine of ten.",
            width.median_percent, width.ninety_percent
        );
    }
    text
}

fn bounds(conclusions: &Conclusions<'_>, mix: &str) -> Table {
    let of_mix: Vec<&AdviceBound> = conclusions.bounds.iter().filter(|bound| bound.place.mix == mix).collect();
    let cpus: Vec<u32> = CPUS.into_iter().filter(|cpus| of_mix.iter().any(|bound| bound.place.cpus == *cpus)).collect();
    let header =
        ["scheduler".to_owned(), "grain".to_owned()].into_iter().chain(cpus.iter().map(|cpus| format!("{cpus} CPUs")));
    let mut table = Table::new(header, 2);
    for scheduler in SCHEDULERS {
        for grain in Granularity::ALL.map(Granularity::name) {
            let is_here = |bound: &AdviceBound| bound.place.scheduler == scheduler && bound.place.grain == grain;
            if !of_mix.iter().any(|bound| is_here(bound)) {
                continue;
            }
            let cell = |cpus: &u32| {
                let bound = of_mix.iter().find(|bound| is_here(bound) && bound.place.cpus == *cpus)?;
                let load = |load: Option<f64>| load.map_or("-".to_owned(), |load| format!("{load}"));
                Some(format!("{}, {}", load(bound.last_winning), load(bound.first_losing)))
            };
            table.row([Some(scheduler.to_owned()), Some(grain.to_owned())].into_iter().chain(cpus.iter().map(cell)));
        }
    }
    table
}

fn best(conclusions: &Conclusions<'_>) -> String {
    let rules = |rules: &[(String, f64)]| {
        rules.iter().map(|(rule, speed)| format!("{rule} {speed:.2}")).collect::<Vec<_>>().join(", ")
    };
    let columns: [Column<'_, BestRules>; 4] = [
        ("scheduler", &|of| Some(of.scheduler.clone())),
        ("grain", &|of| Some(of.grain.clone())),
        ("load", &|of| Some(of.loads.to_owned())),
        ("rules, the best first", &|of| Some(rules(&of.rules))),
    ];
    table(&conclusions.best, 4, columns)
}
