//! The tables, in Markdown.

use std::fmt::{self, Write};

use crate::goals;
use crate::score::{Ratio, Scorer, Scores};
use crate::sheet::{Rates, Sheet, median};

/// The reference for all arms, if it ran.
pub(crate) const BASELINE: &str = "pthread";

/// Within 10 % and within 20 % of the best.
pub(crate) const NEAR: f64 = 0.9;
const FAIR: f64 = 0.8;

/// No cell should be significantly below this share of the best.
pub(crate) const FLOOR: f64 = 0.6;

/// Beside two hogs, no cell should be significantly below this share of the baseline.
pub(crate) const FLOOR_BESIDE_HOGS: f64 = 0.85;

/// Writes the tables of a sheet.
pub(crate) fn write(out: &mut String, sheet: &Sheet, seed: u64) -> fmt::Result {
    let scorer = Scorer::new(sheet, seed);
    let best = scorer.against_best();
    let baseline = sheet.arm(BASELINE);
    let to_baseline = baseline.map(|baseline| scorer.against(|_, other| other == baseline));
    if let (Some(baseline), Some(to_baseline)) = (baseline, &to_baseline) {
        write_cells(out, sheet, baseline, to_baseline, &best)?;
    }
    write_summary(out, sheet, &scorer, &best, to_baseline.as_ref())?;
    write_copies(out, sheet, &scorer)?;
    goals::write(out, sheet, seed)?;
    write_aside(out, sheet)?;
    if let Some(alone) = sheet.cells.iter().find(|cell| cell.threads == 1) {
        write_uncontended(out, sheet, alone)?;
    }
    Ok(())
}

pub(crate) fn row(out: &mut String, cells: impl IntoIterator<Item = String>) -> fmt::Result {
    for cell in cells {
        write!(out, "| {cell} ")?;
    }
    writeln!(out, "|")
}

/// Writes a row with the names of the columns, and the line below it.
pub(crate) fn head(out: &mut String, columns: impl IntoIterator<Item = String>) -> fmt::Result {
    let columns: Vec<String> = columns.into_iter().collect();
    let line = vec!["---".to_owned(); columns.len()];
    row(out, columns)?;
    writeln!(out, "|{}|", line.join("|"))
}

fn name(cell: &Rates) -> String {
    format!("{}, {}, {}", cell.threads, cell.hogs, cell.work)
}

/// Writes the speed of every arm in every cell, relative to the baseline.
fn write_cells(out: &mut String, sheet: &Sheet, baseline: usize, ratios: &Scores, best: &Scores) -> fmt::Result {
    writeln!(out, "Ratio to `{BASELINE}`; * = within 10 % of the best.\n")?;
    let shown: Vec<usize> = (0..sheet.arms.len()).filter(|&arm| arm != baseline && sheet.arms[arm].copy == 1).collect();
    let names = shown.iter().map(|&arm| sheet.arms[arm].to_string());
    head(out, ["threads, hogs, work".to_owned(), format!("{BASELINE}, 1/s")].into_iter().chain(names))?;
    for (number, cell) in sheet.cells.iter().enumerate() {
        let star = |arm: usize| if best.cells[number][arm].is_some_and(|score| score.value >= NEAR) { "*" } else { "" };
        let rate = median(cell.rates[baseline].iter().copied().flatten().collect());
        let rate = rate.map_or("-".to_owned(), |rate| format!("{rate:.0}{}", star(baseline)));
        let of_arm = |&arm: &usize| match ratios.cells[number][arm] {
            Some(ratio) => format!("{}{}", short(ratio.value), star(arm)),
            None => "-".to_owned(),
        };
        row(out, [name(cell), rate].into_iter().chain(shown.iter().map(of_arm)))?;
    }
    writeln!(out)
}

/// Formats a number with two digits, or more if it would round to zero.
pub(crate) fn short(value: f64) -> String {
    if value < 0.0095 { format!("{value:.1e}") } else { format!("{value:.2}") }
}

pub(crate) fn with_interval(ratio: Option<Ratio>) -> String {
    match ratio {
        None => "-".to_owned(),
        Some(Ratio { value, interval: None }) => short(value),
        Some(Ratio { value, interval: Some((low, high)) }) => {
            format!("{} [{}, {}]", short(value), short(low), short(high))
        }
    }
}

/// Writes one row per arm: how close it is to the best over all cells.
fn write_summary(
    out: &mut String,
    sheet: &Sheet,
    scorer: &Scorer<'_>,
    best: &Scores,
    to_baseline: Option<&Scores>,
) -> fmt::Result {
    let of_others = scorer.against(|_, other| !sheet.arms[other].is_ours());
    writeln!(
        out,
        "Against the best arm of each cell, chosen on one half of the repetitions and scored on the other:\n"
    )?;
    let columns = [
        "arm",
        "cells",
        "within 10 %",
        "within 20 %",
        "geometric mean",
        "no cell above 1",
        "worst cell",
        "surely below 0.60",
        "geometric mean against the best of the others' arms",
        "against `pthread`",
        "2 hogs: surely below 0.85 of `pthread`",
    ];
    head(out, columns.map(str::to_owned))?;
    for (arm, label) in sheet.arms.iter().enumerate() {
        let scored: Vec<(usize, Ratio)> =
            best.cells.iter().enumerate().filter_map(|(cell, scores)| Some((cell, scores[arm]?))).collect();
        let count = |keep: &dyn Fn(Ratio) -> bool| scored.iter().filter(|(_, ratio)| keep(*ratio)).count().to_string();
        let worst = scored.iter().min_by(|(_, one), (_, other)| one.value.total_cmp(&other.value));
        let worst =
            worst.map(|&(cell, ratio)| format!("{} at {}", with_interval(Some(ratio)), name(&sheet.cells[cell])));
        let beside = to_baseline.map(|ratios| low_beside_hogs(sheet, ratios, arm));
        row(
            out,
            [
                format!("`{label}`"),
                scored.len().to_string(),
                count(&|ratio| ratio.value >= NEAR),
                count(&|ratio| ratio.value >= FAIR),
                with_interval(best.overall[arm]),
                best.capped(arm).map_or("-".to_owned(), short),
                worst.unwrap_or("-".to_owned()),
                count(&|ratio| ratio.is_surely_below(FLOOR)),
                with_interval(of_others.overall[arm]),
                with_interval(to_baseline.and_then(|ratios| ratios.overall[arm])),
                beside.map_or("-".to_owned(), |count| count.to_string()),
            ],
        )?;
    }
    writeln!(out)
}

/// The number of cells with two hogs in which the arm is significantly slower than the baseline.
pub(crate) fn low_beside_hogs(sheet: &Sheet, to_baseline: &Scores, arm: usize) -> usize {
    let beside = to_baseline.cells.iter().zip(&sheet.cells).filter(|(_, cell)| cell.hogs == 2);
    beside.filter(|(ratios, _)| ratios[arm].is_some_and(|ratio| ratio.is_surely_below(FLOOR_BESIDE_HOGS))).count()
}

/// Writes the noise: the ratios between the copies of arms that ran twice.
fn write_copies(out: &mut String, sheet: &Sheet, scorer: &Scorer<'_>) -> fmt::Result {
    for (second, label) in sheet.arms.iter().enumerate().filter(|(_, label)| label.copy == 2) {
        let Some(first) = sheet.arm(&label.arm) else { continue };
        let scores = scorer.against(|_, other| other == first);
        let ratios: Vec<f64> = scores.cells.iter().filter_map(|scores| Some(scores[second]?.value)).collect();
        let count = |keep: &dyn Fn(f64) -> bool| ratios.iter().filter(|ratio| keep(**ratio)).count();
        writeln!(
            out,
            "`{}` against itself: within 10 % of each other in {} of {} cells, the second at least {NEAR} of the first in {}; \
             geometric mean {}.",
            label.arm,
            count(&agree),
            ratios.len(),
            count(&|ratio| ratio >= NEAR),
            with_interval(scores.overall[second]),
        )?;
    }
    if sheet.arms.iter().any(|label| label.copy == 2) { writeln!(out) } else { Ok(()) }
}

/// Whether two copies are within 10 % of each other, by their ratio.
pub(crate) fn agree(ratio: f64) -> bool {
    (NEAR..=1.0 / NEAR).contains(&ratio)
}

/// Writes the other results of the runs.
fn write_aside(out: &mut String, sheet: &Sheet) -> fmt::Result {
    let has_any = |arm: usize| sheet.cells.iter().any(|cell| cell.aside[arm].is_some());
    let shown: Vec<usize> = (0..sheet.arms.len()).filter(|&arm| sheet.arms[arm].copy == 1 && has_any(arm)).collect();
    if shown.is_empty() {
        return Ok(());
    }
    let locks = sheet.cells.iter().any(Rates::is_lock);
    let title = if locks {
        "Turns of the thread with the fewest turns, in percent of the mean; medians"
    } else {
        "Successful spins in percent, medians"
    };
    writeln!(out, "{title}:\n")?;
    let names = shown.iter().map(|&arm| sheet.arms[arm].to_string());
    head(out, ["threads, hogs, work".to_owned()].into_iter().chain(names))?;
    for cell in sheet.cells.iter().filter(|cell| cell.threads > 1) {
        let of_arm = |&arm: &usize| cell.aside[arm].map_or("-".to_owned(), |percent| format!("{percent:.0}"));
        row(out, std::iter::once(name(cell)).chain(shown.iter().map(of_arm)))?;
    }
    writeln!(out)
}

/// Writes the cost of an uncontended lock.
fn write_uncontended(out: &mut String, sheet: &Sheet, cell: &Rates) -> fmt::Result {
    writeln!(out, "Acquiring and releasing an uncontended lock, medians:\n")?;
    head(out, ["arm", "ns"].map(str::to_owned))?;
    for (label, rates) in sheet.arms.iter().zip(&cell.rates) {
        let rate = median(rates.iter().copied().flatten().collect());
        row(out, [format!("`{label}`"), rate.map_or("-".to_owned(), |rate| format!("{:.1}", 1e9 / rate))])?;
    }
    writeln!(out)
}
