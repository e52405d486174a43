//! The goals of the adaptive rule, and whether it meets them.

use std::fmt::{self, Write};

use crate::report::{BASELINE, FLOOR, NEAR, agree, head, low_beside_hogs, row, short};
use crate::score::{Ratio, Scorer};
use crate::sheet::{Rates, Sheet};

/// The judged arm.
const JUDGED: &str = "rule:adaptive";

/// Writes the goals that concern the cells of the sheet, if the arm ran in them.
pub(crate) fn write(out: &mut String, sheet: &Sheet, seed: u64) -> fmt::Result {
    let Some(judged) = sheet.arm(JUDGED) else { return Ok(()) };
    let goals =
        if sheet.cells.iter().any(Rates::is_lock) { locks(sheet, judged, seed) } else { barriers(sheet, judged, seed) };
    writeln!(out, "Goals of `{JUDGED}`:\n")?;
    head(out, ["figure", "goal", "here", ""].map(str::to_owned))?;
    for goal in goals {
        let verdict = if goal.is_reached { "reached" } else { "missed" };
        row(out, [goal.figure.to_owned(), goal.wanted, goal.here, verdict.to_owned()])?;
    }
    writeln!(out)
}

struct Goal {
    figure: &'static str,
    wanted: String,
    here: String,
    is_reached: bool,
}

fn at_least(figure: &'static str, bound: f64, here: Option<f64>) -> Option<Goal> {
    let here = here?;
    Some(Goal { figure, wanted: format!("at least {bound}"), here: short(here), is_reached: here >= bound })
}

fn none(figure: &'static str, cells: usize) -> Goal {
    Goal { figure, wanted: "none".to_owned(), here: cells.to_string(), is_reached: cells == 0 }
}

fn barriers(sheet: &Sheet, judged: usize, seed: u64) -> Vec<Goal> {
    let scorer = Scorer::new(sheet, seed);
    let best = scorer.against_best();
    let scores: Vec<Ratio> = best.cells.iter().filter_map(|scores| scores[judged]).collect();
    let overall = best.overall[judged].map(|score| score.value);
    let mut goals = Vec::new();
    goals.extend(at_least("geometric mean against the best arm", 0.92, overall));
    let copy = sheet.arms.iter().position(|label| label.arm == JUDGED && label.copy == 2);
    if let Some(copy) = copy {
        let of_copy = scorer.against(|_, other| other == judged);
        let equal = of_copy.cells.iter().filter_map(|scores| scores[copy]).filter(|ratio| agree(ratio.value)).count();
        let near = scores.iter().filter(|score| score.value >= NEAR).count();
        goals.push(Goal {
            figure: "cells within 10 % of the best arm, against those in which its own copy is within 10 % of it",
            wanted: format!("at least {equal}"),
            here: near.to_string(),
            is_reached: near >= equal,
        });
    }
    let low = scores.iter().filter(|score| score.is_surely_below(FLOOR)).count();
    goals.push(none("cells surely below 0.60 of the best arm", low));
    if let Some(baseline) = sheet.arm(BASELINE) {
        let ratios = scorer.against(|_, other| other == baseline);
        let beside = low_beside_hogs(sheet, &ratios, judged);
        goals.push(none("cells with two hogs surely below 0.85 of `pthread`", beside));
        let least = |threads: std::ops::RangeInclusive<u32>| {
            let alone = sheet
                .cells
                .iter()
                .zip(&ratios.cells)
                .filter(|(cell, _)| cell.hogs == 0 && cell.work == "500 ns" && threads.contains(&cell.threads));
            alone.filter_map(|(_, ratios)| Some(ratios[judged]?.value)).min_by(f64::total_cmp)
        };
        goals.extend(at_least("2 threads alone, 500 ns: times `pthread`", 5.0, least(2..=2)));
        goals.extend(at_least("3 to 8 threads alone, 500 ns: times `pthread`, the least", 3.0, least(3..=8)));
    }
    goals
}

fn locks(sheet: &Sheet, judged: usize, seed: u64) -> Vec<Goal> {
    let contended = sheet.only(|cell| cell.threads > 1);
    let of_others = Scorer::new(&contended, seed).against(|_, other| !sheet.arms[other].is_ours());
    let uncontended = sheet.arm("parking_lot").and_then(|other| {
        let scores = Scorer::new(&sheet.only(|cell| cell.threads == 1), seed).against(|_, arm| arm == other);
        scores.overall[judged].map(|ratio| ratio.value)
    });
    [
        at_least("uncontended lock: speed against `parking_lot`", NEAR, uncontended),
        at_least(
            "contended lock: geometric mean against the best arm of others",
            0.95,
            of_others.overall[judged].map(|ratio| ratio.value),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}
