//! The report as text of at most [`WIDTH`] columns.

use std::collections::{BTreeSet, HashMap};

use scenario::result::{MachineOutcome, World};

use super::ExperimentReport;
use crate::claim::ClaimOutcome;
use crate::factor::{self, Factors};
use crate::summary::{Accuracy, Gap, Responses, Summary};
use crate::turns::Turns;
use crate::verdict::{Fastest, Verdict};
use report::WIDTH;
use report::distinct;
use report::table::Table;
use report::words;
use stats::Estimate;

/// The whole report.
pub fn render(report: &ExperimentReport) -> String {
    let mut text = String::new();
    if !report.title.is_empty() {
        text = format!("{}\n\n", words::wrap(&report.title, WIDTH));
    }
    for world in worlds(report) {
        text += &format!("{:<4}  {}\n", world.name(), machines(report, world));
    }
    for sentence in [method(report)].iter().chain(&report.notes) {
        text += &format!("{}\n", words::wrap(sentence, WIDTH));
    }
    for job in jobs(report) {
        text.push_str(&job_block(report, job));
    }
    text.push_str(&turns_block(report));
    if !report.gaps.is_empty() {
        text.push_str("\nPrediction against reality: sim over host, less one (SSR: sim less host)\n");
        for job in jobs(report) {
            text.push_str(&gap_block(report, job));
        }
    }
    let sentences = sentences(report);
    if !sentences.is_empty() {
        text.push_str("\nVerdict\n");
        for sentence in sentences {
            text += &format!("{}\n", words::wrap(&format!("- {sentence}"), WIDTH));
        }
    }
    text
}

/// The verdicts in sentences.
pub(super) fn sentences(report: &ExperimentReport) -> Vec<String> {
    let verdicts = report.verdicts.iter().map(|verdict| comparison(report, verdict));
    verdicts.chain(report.accuracy.iter().map(|of| accuracy(report, of))).collect()
}

pub(super) fn worlds(report: &ExperimentReport) -> Vec<World> {
    let with = |world: &World| report.runs.iter().any(|run| run.world == *world);
    [World::Sim, World::Host].into_iter().filter(with).collect()
}

/// The machines of a world's runs: one, unless the machine is swept.
pub(super) fn machines(report: &ExperimentReport, world: World) -> String {
    let runs = report.runs.iter().filter(|run| run.world == world);
    let machine =
        |machine: &MachineOutcome| format!("{}, {}", words::counted(machine.cpus.into(), "CPU"), machine.scheduler);
    let machines: BTreeSet<String> = runs.map(|run| machine(&run.outcome.machine)).collect();
    let machines = Vec::from_iter(machines);
    if machines.len() > 4 { format!("{} machines", machines.len()) } else { machines.join("; ") }
}

pub(super) fn method(report: &ExperimentReport) -> String {
    let ExperimentReport { repeat, seed, planned_runs, .. } = report;
    let runs = words::counted(*planned_runs, "run");
    match repeat {
        1 => format!("{runs}, seed {seed}."),
        _ => {
            let last = seed.wrapping_add(u64::from(*repeat) - 1);
            format!(
                "{runs}: {repeat} repetitions, seeds {seed} to {last}; means with 95 % intervals{}.",
                explained_mark(report)
            )
        }
    }
}

/// Marks a speed-up that differs significantly from one.
pub(super) const MARK: &str = "*";

fn explained_mark(report: &ExperimentReport) -> String {
    let has_mark = report.summaries.iter().any(differs_from_baseline);
    match report.comparisons {
        _ if !has_mark => String::new(),
        1 => format!("; {MARK} differs from the baseline (paired t-test at 5 %)"),
        n => format!("; {MARK} differs from the baseline (paired t-test at 5 %, Holm over {n} comparisons)"),
    }
}

pub(super) fn differs_from_baseline(summary: &Summary) -> bool {
    summary.speedup_corrected_p.is_some_and(|p| p < stats::SIGNIFICANCE_LEVEL)
}

pub(super) fn jobs(report: &ExperimentReport) -> Vec<&str> {
    distinct(report.summaries.iter().map(|summary| summary.job.as_str()), |job| *job)
}

/// The factor that labels the rows of a table: that with the compared path, or the last.
pub(super) fn line_factor(report: &ExperimentReport) -> Option<&str> {
    let is_compared = |factor: &&String| report.compare.as_ref().is_some_and(|compare| factor::is_in(factor, compare));
    report.factors.iter().find(is_compared).or(report.factors.last()).map(String::as_str)
}

/// Factors in words, in the order of the file.
pub(super) fn in_order(report: &ExperimentReport, factors: &Factors, wanted: impl Fn(&str) -> bool) -> String {
    let known = report.factors.iter().filter_map(|path| factors.get_key_value(path));
    let others = factors.iter().filter(|(path, _)| !report.factors.contains(path));
    words::factors(known.chain(others).filter(|(path, _)| wanted(path)))
}

/// A table for each combination of the other factors. The first cell of each row is its label; the
/// items have the other cells.
fn tables<'a, const N: usize>(
    report: &ExperimentReport,
    header: [&str; N],
    words: usize,
    items: impl Iterator<Item = (&'a Factors, Vec<Option<String>>)>,
) -> String {
    let mut tables: Vec<(String, Table)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut last = None;
    let line = line_factor(report);
    for (factors, cells) in items {
        let heading = in_order(report, factors, |path| line.is_none_or(|line| path != line));
        let label = line.and_then(|path| factor::value(factors, path)).map(words::value).unwrap_or_default();
        let known = *places.entry(heading).or_insert_with_key(|heading| {
            tables.push((heading.clone(), Table::new(header, words)));
            tables.len() - 1
        });
        // Successive rows with the same label show it once.
        let here = Some((known, label.clone()));
        let shown = (!label.is_empty()).then(|| if here == last { String::new() } else { label });
        tables[known].1.row(std::iter::once(shown).chain(cells));
        last = here;
    }
    let mut text = String::new();
    for (heading, table) in tables {
        if !heading.is_empty() {
            text += &format!(" {}\n", words::wrap(&heading, WIDTH - 1));
        }
        for line in table.render(WIDTH - 2).lines() {
            text += &format!("  {line}\n");
        }
    }
    text
}

fn job_block(report: &ExperimentReport, job: &str) -> String {
    let summaries = || report.summaries.iter().filter(|summary| summary.job == job);
    let copies = summaries().map(|summary| summary.copies).max().unwrap_or(1);
    let copies = if copies > 1 { " (mean of its copies)" } else { "" };
    let label = line_factor(report).map_or("", last_part);
    let header = [label, "world", "completion", "start", "rounds/s", "SSR %", "CPU time", "switches", "speed-up"];
    let rows = summaries().map(|summary| (&summary.factors, summary_cells(report, summary)));
    let text = format!("\n{job}{copies}\n{}", tables(report, header, 2, rows));
    if summaries().all(|summary| summary.responses.is_empty()) {
        return text;
    }
    let header = [label, "world", "group", "p50", "p95", "p99", "worst"];
    let rows = summaries()
        .flat_map(|summary| summary.responses.iter().map(|of| (&summary.factors, response_cells(summary.world, of))));
    format!(
        "{text}\n{job}, from when a fiber could run to the end of its next burst\n{}",
        tables(report, header, 3, rows)
    )
}

fn response_cells(world: World, of: &Responses) -> Vec<Option<String>> {
    let times = [of.p50_ns, of.p95_ns, of.p99_ns, of.worst_ns];
    let times = times.map(|estimate| estimate.map(|estimate| words::time(estimate.mean)));
    [Some(world.name().to_owned()), Some(of.group.clone())].into_iter().chain(times).collect()
}

fn summary_cells(report: &ExperimentReport, summary: &Summary) -> Vec<Option<String>> {
    let switches = [summary.voluntary_switches, summary.involuntary_switches].into_iter().flatten();
    let switches = switches.map(|estimate| estimate.mean).reduce(|one, other| one + other);
    let compared = report.compare.as_ref().and_then(|path| factor::value(&summary.factors, path));
    let is_baseline = report.baseline.as_ref() == compared;
    vec![
        Some(summary.world.name().to_owned()),
        summary.completion_ns.map(|estimate| words::with_share(&estimate, words::time)),
        summary.start_ns.map(|estimate| words::time(estimate.mean)),
        summary.rounds_per_second.map(|estimate| words::count(estimate.mean)),
        summary.ssr_percent.map(|estimate| words::with_half_width(&estimate)),
        summary.cpu_ns.map(|estimate| words::time(estimate.mean)),
        switches.map(words::count),
        summary.speedup.map(|estimate| {
            // Without a mark there is a space, so that the numbers are aligned.
            let mark = if differs_from_baseline(summary) { MARK } else { " " };
            if is_baseline { "baseline ".to_owned() } else { words::ratio(&estimate) + mark }
        }),
    ]
}

fn turns_block(report: &ExperimentReport) -> String {
    if report.turns.is_empty() {
        return String::new();
    }
    let label = line_factor(report).map_or("", last_part);
    let header = [label, "world", "slices", "turns", "delay", "its deviation"];
    let cells = |of: &Turns| {
        let count = |estimate: Option<Estimate>| estimate.map(|estimate| words::count(estimate.mean));
        let time = |estimate: Option<Estimate>| estimate.map(|estimate| words::time(estimate.mean));
        let (counts, times) = ([of.slices_most, of.turns].map(count), [of.delay_mean_ns, of.delay_sd_ns].map(time));
        [Some(of.world.name().to_owned())].into_iter().chain(counts).chain(times).collect()
    };
    let rows = report.turns.iter().map(|of| (&of.factors, cells(of)));
    format!("\nTurns of jobs on cells, and the delay from a boundary to a turn\n{}", tables(report, header, 2, rows))
}

fn gap_block(report: &ExperimentReport, job: &str) -> String {
    let label = line_factor(report).map_or("", last_part);
    let header = [label, "completion %", "rounds/s %", "SSR points", "CPU time %"];
    let cells = |gap: &Gap| -> Vec<Option<String>> {
        let Gap { completion_percent, rounds_per_second_percent, ssr_points, cpu_percent, .. } = gap;
        let estimates = [completion_percent, rounds_per_second_percent, ssr_points, cpu_percent];
        estimates.into_iter().map(|estimate| estimate.as_ref().map(words::signed)).collect()
    };
    let rows = report.gaps.iter().filter(|gap| gap.job == job).map(|gap| (&gap.factors, cells(gap)));
    format!("\n{job}\n{}", tables(report, header, 1, rows))
}

fn last_part(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

fn comparison(report: &ExperimentReport, verdict: &Verdict) -> String {
    let value = |of: &Fastest| format!("`{}`", words::value(&of.value));
    let level = |of: &Fastest| match of.not_told_from.as_slice() {
        [] => String::new(),
        _ if report.repeat == 1 => " (with only one repetition)".to_owned(),
        others => format!(" (not significantly different from {})", words::list(others)),
    };
    let each = |note: &dyn Fn(&Fastest) -> String| {
        let one = |(place, of): (usize, &Fastest)| {
            let is_fastest = if place == 0 { " is fastest" } else { "" };
            format!("{}{is_fastest} in {}{}", value(of), of.world.name(), note(of))
        };
        verdict.fastest.iter().enumerate().map(one).collect::<Vec<_>>().join(", ")
    };
    let answer = match verdict.agreement {
        Some(ClaimOutcome::Agrees) => {
            let note = |of: &Fastest| {
                let (world, others) = (of.world.name(), words::list(&of.not_told_from));
                format!("; in {world} it does not differ significantly from {others}")
            };
            let uncertain = verdict.fastest.iter().filter(|of| !of.not_told_from.is_empty());
            let first = &verdict.fastest[0];
            let notes = if report.repeat == 1 { level(first) } else { uncertain.map(note).collect() };
            format!("{} is fastest in both worlds{notes}", value(first))
        }
        Some(ClaimOutcome::Undecided) => each(&|_| String::new()) + "; the two do not differ significantly",
        Some(ClaimOutcome::Disagrees) => each(&level) + "; the worlds disagree",
        None => each(&level),
    };
    let shared = in_order(report, &verdict.factors, |_| true);
    let comma = if shared.is_empty() { "" } else { ", " };
    format!("{}{comma}{shared}: {answer}.", verdict.job)
}

fn accuracy(report: &ExperimentReport, accuracy: &Accuracy) -> String {
    let Accuracy { job, arms, median_absolute_gap_percent: median, largest_gap_percent: largest, .. } = accuracy;
    if *arms == 1 {
        return format!("{job}: the predicted completion time is off by {median:.1} %.");
    }
    let at = in_order(report, &accuracy.largest_gap_factors, |_| true);
    format!(
        "{job}: the predicted completion times are off by {median:.1} % in the median of {arms} arms, at most by \
         {largest:+.1} % ({at})."
    )
}
