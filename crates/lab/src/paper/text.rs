//! The judgement as text for people: the figure as tables, then the bands.

use std::fmt::Write;

use super::Paper;
use super::evidence::{self, Evidence};
use super::expected::{Expected, Figure, Measure};
use super::judgement::{Arms, FEWEST_SEEDS, Judged, Judgement};
use crate::report::Report;
use crate::report::text::WIDTH;
use crate::statistics::{self, Estimate};
use crate::summary::Factors;
use crate::table::Table;
use crate::words;

/// The whole judgement.
pub fn render(judgement: &Judgement<'_>, expected: &Expected, evidence: &Evidence<'_>) -> String {
    let report = judgement.report;
    let mut text = format!("{}\n\n", words::wrap(&report.title, WIDTH));
    // Writing to a string does not fail.
    let _ = writeln!(text, "{}", words::wrap(&format!("{}: {}", judgement.source, judgement.shows), WIDTH));
    let _ = writeln!(text, "{}", method(report));
    if !report.complete {
        let _ = writeln!(text, "Incomplete: all figures are from {} of these runs.", report.runs.len());
    }
    text.push_str(&match expected.figure.measure.is_of_transitions() {
        true => transitions(judgement),
        false => figure(evidence, &expected.figure),
    });
    text.push_str("\nAgainst the paper\n");
    text.push_str(&indented(&bands(&judgement.bands)));
    let of = judgement.bands.len();
    let verdict = match judgement.missed() {
        0 => format!("All {of} bands hold."),
        missed => format!("Missed: {missed} of {of} bands."),
    };
    let _ = writeln!(text, "{verdict}");
    if report.repeat < FEWEST_SEEDS {
        let _ = writeln!(
            text,
            "They are meant for means over {FEWEST_SEEDS} seeds or more, and these are of {}.",
            report.repeat
        );
    }
    text
}

fn method(report: &Report) -> String {
    let Report { planned_runs, repeat, seed, .. } = report;
    match repeat {
        1 => format!("{planned_runs} runs, seed {seed}."),
        _ => {
            let last = seed.wrapping_add(u64::from(*repeat) - 1);
            format!("{planned_runs} runs, seeds {seed} to {last}; means with 95 % intervals over the seeds.")
        }
    }
}

/// A list of all papers.
pub fn list(papers: &[(&Paper, Expected, u64)]) -> String {
    let mut text = String::new();
    for (paper, expected, runs) in papers {
        let _ = writeln!(text, "{}  {}", paper.name, expected.source);
        let _ = writeln!(text, "  {}", words::wrap(&expected.shows, WIDTH - 2));
        let _ = writeln!(text, "  {runs} runs; about {} on two CPUs", expected.takes);
    }
    text
}

/// The measure of every arm: a row for each value on the axis, a column for each value that is compared, and a table for
/// each combination of the other factors.
fn figure(evidence: &Evidence<'_>, figure: &Figure) -> String {
    let experiment = &evidence.scenario().experiment;
    let (x, compare) = (experiment.x.as_ref(), experiment.compare.as_ref());
    let is_other = |path: &String| Some(path) != x && Some(path) != compare;
    let heading = |arm: usize| {
        let factors = evidence.scenario().arms[arm].factors.iter().filter(|(path, _)| is_other(path));
        words::factors(factors.map(|(path, value)| (path, value)))
    };
    let all = 0..evidence.scenario().arms.len();
    // Whoever is everybody's rival has nothing to show.
    let shown = all.filter(|&arm| evidence.rival(arm, &figure.against) != Some(arm) || figure.against.is_empty());
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for arm in shown {
        let heading = heading(arm);
        match groups.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, arms)) => arms.push(arm),
            None => groups.push((heading, vec![arm])),
        }
    }
    let mut text = format!("\n{}: {}\n", figure.job, caption(figure));
    for (heading, arms) in groups {
        if !heading.is_empty() {
            let _ = writeln!(text, " {}", words::wrap(&heading, WIDTH - 1));
        }
        text.push_str(&indented(&table(evidence, figure, x, compare, &arms)));
    }
    text
}

fn caption(figure: &Figure) -> String {
    let against = words::factors(&figure.against);
    match figure.measure {
        Measure::SpeedUp => format!("speed-up over {against} (and the average ± the average absolute deviation)"),
        _ => "SSR % (and the average ± the average absolute deviation)".to_owned(),
    }
}

fn table(
    evidence: &Evidence<'_>,
    figure: &Figure,
    x: Option<&String>,
    compare: Option<&String>,
    arms: &[usize],
) -> Table {
    let value = |arm: usize, path: Option<&String>| value(evidence.factors(arm), path);
    let (mut rows, mut columns): (Vec<(u64, String)>, Vec<String>) = (Vec::new(), Vec::new());
    let row = |arm: usize| (evidence::threads(&evidence.scenario().arms[arm]), value(arm, x));
    for &arm in arms {
        if !rows.contains(&row(arm)) {
            rows.push(row(arm));
        }
        if !columns.contains(&value(arm, compare)) {
            columns.push(value(arm, compare));
        }
    }
    let x_name = x.map_or("", |path| words::path(path)).to_owned();
    let header = ["threads".to_owned(), x_name].into_iter().chain(columns.iter().map(|column| match compare {
        Some(_) => column.clone(),
        None => "SSR %".to_owned(),
    }));
    let mut table = Table::with_header(header.collect(), 1);
    let measured = (figure.measure, &figure.against);
    let among = |wanted: &dyn Fn(usize) -> bool| {
        let arms = arms.iter().filter(|arm| wanted(**arm));
        Arms::collect(arms.map(|arm| evidence.values(*arm, measured)))
    };
    for of in &rows {
        let cell = |column: &String| {
            let here = among(&|arm| row(arm) == *of && value(arm, compare) == *column);
            here.mean().map(|estimate| number(&estimate, figure.measure))
        };
        let named = [Some(of.0.to_string()), (!of.1.is_empty()).then(|| of.1.clone())];
        table.row(named.into_iter().chain(columns.iter().map(cell)));
    }
    let average = |column: &String| {
        let here = among(&|arm| value(arm, compare) == *column);
        let (mean, deviation) = (here.mean()?.mean, here.deviation()?);
        let decimals = decimals(figure.measure);
        Some(format!("{mean:.decimals$} ± {deviation:.decimals$}"))
    };
    if rows.len() > 1 {
        table.row([Some("average".to_owned()), None].into_iter().chain(columns.iter().map(average)));
    }
    table
}

fn value(factors: &Factors, path: Option<&String>) -> String {
    path.and_then(|path| factors.get(path)).map(words::value).unwrap_or_default()
}

fn transitions(judgement: &Judgement<'_>) -> String {
    let mut table = Table::new(["seed", "transition after", "at", "SSR % before", "SSR % from then on"], 1);
    for of in &judgement.transitions {
        let seed = judgement.report.seed.wrapping_add(u64::from(of.repeat));
        let cells = of.transition.map(|found| {
            [
                format!("{} rounds", found.round),
                words::time(found.at_ns.as_nanos() as f64),
                format!("{:.1}", found.before_percent),
                format!("{:.1}", found.after_percent),
            ]
        });
        let cells = cells.map_or([Some("none".to_owned()), None, None, None], |cells| cells.map(Some));
        table.row([Some(seed.to_string())].into_iter().chain(cells));
    }
    format!("\nTransition points\n{}", indented(&table))
}

fn bands(bands: &[Judged]) -> Table {
    let mut table = Table::new(["", "the paper", "here", "band", "verdict"], 1);
    for band in bands {
        table.row([
            Some(band.what.clone()),
            band.paper.clone(),
            band.ours.map(|ours| number(&ours, band.measure)),
            Some(ends(band)),
            Some(if band.inside { "inside" } else { "OUTSIDE" }.to_owned()),
        ]);
    }
    table
}

/// The band in words.
pub(crate) fn ends(band: &Judged) -> String {
    match (band.at_least, band.above, band.at_most) {
        (Some(low), _, Some(high)) => format!("{low} to {high}"),
        (_, Some(low), Some(high)) => format!("above {low}, at most {high}"),
        (Some(low), _, None) => format!("at least {low}"),
        (None, Some(low), None) => format!("above {low}"),
        (None, None, Some(high)) => format!("at most {high}"),
        (None, None, None) => "any".to_owned(),
    }
}

/// An estimate with half the width of its interval.
pub(crate) fn number(estimate: &Estimate, measure: Measure) -> String {
    let decimals = decimals(measure);
    let half = estimate.half_width().map_or(String::new(), |half| format!(" ±{half:.decimals$}"));
    format!("{:.decimals$}{half}", statistics::six_digits(estimate.mean))
}

fn decimals(measure: Measure) -> usize {
    if measure == Measure::SpeedUp { 2 } else { 1 }
}

fn indented(table: &Table) -> String {
    table.render(WIDTH - 2).lines().map(|line| format!("  {line}\n")).collect()
}
