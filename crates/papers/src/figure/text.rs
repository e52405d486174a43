//! The judgement as text: the figure as tables, then the bands.

use std::fmt::Write;

use scenario::Scenario;
use scenario::keys::experiment::X_THREADS;

use super::arms::Arms;
use super::drawing::{self, Drawing, Panel};
use super::evidence::{Evidence, Quantity};
use super::expected::{Expected, Figure, Measure, Scale};
use super::judgement::{BandResult, FEWEST_SEEDS, Judgement};
use crate::text::{Column, indented, table, wrapped};
use measure::factor;
use measure::results::{ExperimentReport, incomplete};
use report::WIDTH;
use report::distinct;
use report::table::Table;
use report::words;
use stats::{self, Estimate};

/// The whole judgement.
pub fn render(judgement: &Judgement<'_>, expected: &Expected, evidence: &Evidence<'_>) -> String {
    let report = judgement.report;
    let mut text = wrapped(&report.title) + "\n" + &wrapped(&judgement.statement());
    // Writing to a string does not fail.
    let _ = writeln!(text, "{}", method(report));
    if !report.complete {
        let _ = writeln!(text, "{}", incomplete(report.runs.len(), report.planned_runs));
    }
    text.push_str(&match &judgement.figure {
        Some(drawing) => drawn(drawing),
        None if expected.figure.measure.is_of_transitions() => transitions(judgement),
        None if expected.figure.measure.is_of_alternation() => alternations(judgement),
        None => compared(evidence, &expected.figure),
    });
    // With changed settings, some arms of the bands may not exist.
    let is_shown = |band: &&BandResult| judgement.holds.is_some() || band.ours.is_some();
    let shown: Vec<&BandResult> = judgement.bands.iter().filter(is_shown).collect();
    if !shown.is_empty() {
        let _ = write!(text, "\nAgainst the paper\n{}", bands(&shown));
    }
    if judgement.holds.is_none() {
        return text + "\n" + &wrapped(&unjudged(judgement));
    }
    text.push_str(&wrapped(&verdict(judgement)));
    for (band, why) in judgement.known_misses() {
        text.push_str(&wrapped(&format!("Known miss: {}: {why}.", band.what)));
    }
    if report.repeat < FEWEST_SEEDS {
        let seeds = report.repeat;
        let _ = writeln!(text, "The bands are for means over {FEWEST_SEEDS} seeds or more; these are over {seeds}.");
    }
    text
}

/// How many bands hold, in a sentence for each kind.
pub(crate) fn verdict(judgement: &Judgement<'_>) -> String {
    let (of, missed, known) = (judgement.judged(), judgement.missed(), judgement.known_misses().count());
    let text = match (missed, known) {
        (0, _) => format!("All {of} bands hold."),
        (_, 0) => format!("Missed: {missed} of {of} bands."),
        _ if missed == known => format!("Missed: {missed} of {of} bands, as known."),
        _ => format!("Missed: {missed} of {of} bands, {known} of them as known."),
    };
    match judgement.surprises() + known - missed {
        0 => text,
        held => format!("{text} Known to be missed, but held: {held}. Remove `known_miss`."),
    }
}

fn method(report: &ExperimentReport) -> String {
    let ExperimentReport { planned_runs, repeat, seed, .. } = report;
    match repeat {
        1 => format!("{planned_runs} runs, seed {seed}."),
        _ => {
            let last = seed.wrapping_add(u64::from(*repeat) - 1);
            format!("{planned_runs} runs, seeds {seed} to {last}; means with 95 % intervals over the seeds.")
        }
    }
}

/// The measure of every arm. A row for each value on the axis, a column for each compared value,
/// and a table for each combination of the other factors.
fn compared(evidence: &Evidence<'_>, figure: &Figure) -> String {
    let Scenario { experiment, arms, .. } = evidence.scenario;
    let (x, compare) = (experiment.x.as_ref(), experiment.compare.as_ref());
    let is_shown = |path: &String| compare.is_some_and(|compare| factor::is_in(path, compare));
    let is_other = |path: &String| !is_shown(path) && !x.is_some_and(|x| factor::is_determined_by(x, path));
    let heading = |arm: usize| {
        let factors = arms[arm].factors.iter().filter(|(path, _)| is_other(path));
        words::factors(factors.map(|(path, value)| (path, value)))
    };
    // An arm that is its own reference has nothing to show.
    let is_reference =
        |arm| figure.measure.has_reference() && evidence.reference_arm(arm, &figure.against) == Some(arm);
    let shown = (0..arms.len()).filter(|&arm| !is_reference(arm));
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for arm in shown {
        let heading = heading(arm);
        match groups.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, arms)) => arms.push(arm),
            None => groups.push((heading, vec![arm])),
        }
    }
    let mut text = format!("\n{}", wrapped(&format!("{}: {}", figure.job.join(", "), caption(figure))));
    for (heading, arms) in groups {
        if !heading.is_empty() {
            let _ = writeln!(text, " {}", words::wrap(&heading, WIDTH - 1));
        }
        text.push_str(&indented(&table_of_arms(evidence, figure, x, compare, &arms)));
    }
    text
}

/// The lines of a figure: a table for each panel, with a row for each load and a column for each
/// line.
fn drawn(drawing: &Drawing) -> String {
    let mut text = format!("\n{}", wrapped(&drawing.what));
    for Panel { name, lines } in &drawing.panels {
        let loads = drawing::ascending(lines.iter().flat_map(|line| &line.points));
        if loads.is_empty() {
            // An interruption came before the first run that belongs here.
            continue;
        }
        if !name.is_empty() {
            let _ = writeln!(text, " {}", words::wrap(name, WIDTH - 1));
        }
        let header = [drawing.counted.name().to_owned()].into_iter().chain(lines.iter().map(|line| line.name.clone()));
        let mut table = Table::new(header, 0);
        for load in loads {
            let values = lines.iter().map(|line| {
                let point = line.points.iter().find(|point| point.load == load);
                point.map(|point| number(&point.value, drawing.measure.decimals()))
            });
            table.row([Some(drawing.load_in_words(load))].into_iter().chain(values));
        }
        text.push_str(&indented(&table));
    }
    text
}

fn caption(figure: &Figure) -> String {
    let name = match figure.measure {
        Measure::SpeedUp => format!("speed-up over {}", words::factors(&figure.against)),
        _ => drawing::what(figure),
    };
    if has_average(figure) { name + " (and the average ± the average absolute deviation)" } else { name }
}

fn has_average(figure: &Figure) -> bool {
    figure.measure.scale() != Scale::Amount
}

fn table_of_arms(
    evidence: &Evidence<'_>,
    figure: &Figure,
    x: Option<&String>,
    compare: Option<&String>,
    arms: &[usize],
) -> Table {
    let compared = |arm: usize| {
        compare.and_then(|path| factor::value(&evidence.factors[arm], path)).map(words::value).unwrap_or_default()
    };
    // The number of threads has its own column.
    let x = x.filter(|x| *x != X_THREADS);
    let across = |arm: usize| x.and_then(|x| evidence.axis_value(arm, x)).map(|value| words::value(&value));
    let row = |arm: usize| (evidence.load(arm).threads, across(arm).unwrap_or_default());
    let rows = distinct(arms.iter().map(|&arm| row(arm)), Clone::clone);
    let columns = distinct(arms.iter().map(|&arm| compared(arm)), Clone::clone);
    let x_name = x.map_or(String::new(), |path| words::path(path));
    let header = ["threads".to_owned(), x_name].into_iter().chain(columns.iter().map(|column| match compare {
        Some(_) => column.clone(),
        None => figure.measure.name().to_owned(),
    }));
    let mut table = Table::new(header, 1);
    let quantity = Quantity { jobs: &figure.job, measure: figure.measure, against: &figure.against };
    let among = |wanted: &dyn Fn(usize) -> bool| {
        Arms::collect(evidence, arms.iter().copied().filter(|arm| wanted(*arm)), quantity)
    };
    for of in &rows {
        let cell = |column: &String| {
            let here = among(&|arm| row(arm) == *of && compared(arm) == *column);
            here.mean().map(|estimate| number(&estimate, figure.measure.decimals()))
        };
        let named = [Some(of.0.to_string()), (!of.1.is_empty()).then(|| of.1.clone())];
        table.row(named.into_iter().chain(columns.iter().map(cell)));
    }
    let average = |column: &String| {
        let here = among(&|arm| compared(arm) == *column);
        let (mean, deviation) = (here.mean()?.mean, here.deviation()?);
        let decimals = figure.measure.decimals();
        Some(format!("{mean:.decimals$} ± {deviation:.decimals$}"))
    };
    if rows.len() > 1 && has_average(figure) {
        table.row([Some("average".to_owned()), None].into_iter().chain(columns.iter().map(average)));
    }
    table
}

fn transitions(judgement: &Judgement<'_>) -> String {
    let mut table = Table::new(["seed", "transition after", "at", "SSR % before", "SSR % from then on"], 1);
    for of in &judgement.transitions {
        let cells = of.transition.map(|found| {
            vec![
                format!("{} rounds", found.round),
                words::time(found.at_ns.as_nanos() as f64),
                format!("{:.1}", found.before_percent),
                format!("{:.1}", found.after_percent),
            ]
        });
        table.row(row_of_a_run(judgement, of.repeat, cells));
    }
    format!("\nTransition points\n{}", indented(&table))
}

/// Why there is no verdict.
pub(crate) fn unjudged(judgement: &Judgement<'_>) -> String {
    let Judgement { changed, report, .. } = judgement;
    match changed.as_slice() {
        [] if report.complete => "Not judged: not all runs were searched for patterns.".to_owned(),
        [] => format!("Not judged: only {} of {} runs were made.", report.runs.len(), report.planned_runs),
        changed => {
            format!("Not judged: the bands are those of the paper's machine, and this is {}.", changed.join(" "))
        }
    }
}

fn alternations(judgement: &Judgement<'_>) -> String {
    let header = ["seed", "from", "after", "groups", "alternating rounds %", "changing sides %", "kept their group %"];
    let mut table = Table::new(header, 1);
    for of in &judgement.alternations {
        let cells = of.alternation.as_ref().map(|found| {
            let [one, other] = found.groups;
            vec![
                words::time(found.at_ns.as_nanos() as f64),
                format!("{} rounds", found.round),
                format!("{one:.1} and {other:.1}"),
                format!("{:.1}", found.alternating_percent),
                format!("{:.1}", found.clean_percent),
                format!("{:.0}", found.kept_percent),
            ]
        });
        table.row(row_of_a_run(judgement, of.repeat, cells));
    }
    format!("\nAlternating synchronization\n{}", indented(&table))
}

/// The seed of a run, and the cells of its pattern.
fn row_of_a_run(judgement: &Judgement<'_>, repeat: u32, cells: Option<Vec<String>>) -> Vec<Option<String>> {
    let seed = judgement.report.seed.wrapping_add(u64::from(repeat));
    let cells = cells.unwrap_or_else(|| vec!["none".to_owned()]);
    [seed.to_string()].into_iter().chain(cells).map(Some).collect()
}

fn bands(bands: &[&BandResult]) -> String {
    let columns: [Column<'_, &BandResult>; 5] = [
        ("", &|band| Some(band.what.clone())),
        ("the paper", &|band| band.paper.clone()),
        ("here", &|band| band.in_words()),
        ("band", &|band| ends(band)),
        ("verdict", &|band| band.verdict().map(str::to_owned)),
    ];
    table(bands, 1, columns)
}

/// The band in words. `None` if it is not judged.
pub(crate) fn ends(band: &BandResult) -> Option<String> {
    let ends = match (band.at_least, band.above, band.at_most) {
        _ if band.inside.is_none() => return None,
        (Some(low), _, Some(high)) => format!("{low} to {high}"),
        (_, Some(low), Some(high)) => format!("above {low}, at most {high}"),
        (Some(low), _, None) => format!("at least {low}"),
        (None, Some(low), None) => format!("above {low}"),
        (None, None, Some(high)) => format!("at most {high}"),
        (None, None, None) => "any".to_owned(),
    };
    Some(ends)
}

/// An estimate with half the width of its interval.
pub(crate) fn number(estimate: &Estimate, decimals: usize) -> String {
    let half = estimate.half_width().map_or(String::new(), |half| format!(" ±{half:.decimals$}"));
    format!("{:.decimals$}{half}", stats::six_digits(estimate.mean))
}
