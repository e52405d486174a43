//! The answer as text for people.

use std::fmt::Write;

use scenario::Granularity;

use super::answer::{Answer, BoundOf};
use super::grid::{ADVISED, CPUS, Mix};
use super::{SHOWS, SOURCE};
use report::WIDTH;
use report::table::Table;
use report::words;

/// The whole answer.
pub fn render(answer: &Answer<'_>) -> String {
    let report = answer.report;
    let mut text = format!("{}\n\n", words::wrap(&report.title, WIDTH));
    // Writing to a string does not fail.
    let _ = writeln!(text, "{}", words::wrap(&format!("{SOURCE}: {SHOWS}"), WIDTH));
    let _ =
        writeln!(text, "{} runs of {} arms.", report.runs.len(), report.planned_runs / u64::from(report.repeat.max(1)));
    if !report.complete {
        let _ = writeln!(text, "Incomplete: {} runs were planned.", report.planned_runs);
    }
    let _ = write!(
        text,
        "\nThe last load (threads for each CPU) at which {ADVISED} is faster than blocking at once, and the first at which it\n\
         is slower (\"-\" where there is none)\n"
    );
    for mix in Mix::ALL.map(Mix::name) {
        let _ = write!(text, " {mix}\n{}", indented(&bounds(answer, mix)));
    }
    let _ = write!(
        text,
        "\nHow fast each rule is, over blocking at once, on average over machines and mixes\n{}",
        indented(&best(answer))
    );
    if let Some(width) = answer.width {
        let _ = writeln!(
            text,
            "\nHalf the 95 % interval of a speed-up is {:.1} % of it in the median and {:.1} % or less in nine of ten.",
            width.median_percent, width.ninety_percent
        );
    }
    text
}

fn bounds(answer: &Answer<'_>, mix: &str) -> Table {
    let cpus: Vec<u32> =
        CPUS.into_iter().filter(|cpus| answer.bounds.iter().any(|of| of.mix == mix && of.cpus == *cpus)).collect();
    let header =
        ["scheduler".to_owned(), "grain".to_owned()].into_iter().chain(cpus.iter().map(|cpus| format!("{cpus} CPUs")));
    let mut table = Table::with_header(header.collect(), 2);
    for scheduler in super::grid::SCHEDULERS {
        for grain in Granularity::ALL.map(Granularity::name) {
            let here = |of: &&BoundOf| of.scheduler == scheduler && of.mix == mix && of.grain == grain;
            if !answer.bounds.iter().any(|of| here(&of)) {
                continue;
            }
            let cell = |cpus: &u32| {
                let bound = answer.bounds.iter().find(|of| here(of) && of.cpus == *cpus)?;
                let load = |load: Option<f64>| load.map_or("-".to_owned(), |load| format!("{load}"));
                Some(format!("{}, {}", load(bound.last_winning), load(bound.first_losing)))
            };
            table.row([Some(scheduler.to_owned()), Some(grain.to_owned())].into_iter().chain(cpus.iter().map(cell)));
        }
    }
    table
}

fn best(answer: &Answer<'_>) -> Table {
    let mut table = Table::new(["scheduler", "grain", "load", "rules, the best first"], 4);
    for of in &answer.best {
        let rules: Vec<String> = of.rules.iter().map(|(rule, speed)| format!("{rule} {speed:.2}")).collect();
        table.row([of.scheduler.clone(), of.grain.clone(), of.loads.to_owned(), rules.join(", ")].map(Some));
    }
    table
}

fn indented(table: &Table) -> String {
    table.render(WIDTH - 2).lines().map(|line| format!("  {line}\n")).collect()
}
