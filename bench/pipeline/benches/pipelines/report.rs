//! Tables of results, and whether the goals are met.

use std::fmt::Write;

use crate::ratio::{Ratio, median};

/// The runs of one arm in one cell, in the order of the repetitions.
pub(crate) struct Row {
    pub(crate) arm: String,
    /// Seconds per item.
    pub(crate) times: Vec<f64>,
    /// CPU seconds per item.
    pub(crate) cpu: Vec<f64>,
    /// Context switches per item.
    pub(crate) switches: Vec<f64>,
}

/// A table of the rows, with ratios to the row `to`.
pub(crate) fn table(rows: &[Row], to: &str) -> String {
    let mut text = format!(
        "| | time per item | minimum to maximum | CPU time per item | switches per item | times {to} |\n|---|---|---|---|---|---|\n"
    );
    let base = rows.iter().find(|row| row.arm == to);
    for row in rows {
        let least = row.times.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = row.times.iter().copied().fold(0.0, f64::max);
        let ratio = base.and_then(|base| Ratio::of(&row.times, &base.times));
        let _ = writeln!(
            text,
            "| {} | {} | {} to {} | {} | {:.2} | {} |",
            row.arm,
            span(median(&row.times)),
            span(least),
            span(greatest),
            span(median(&row.cpu)),
            median(&row.switches),
            ratio.map_or("-".to_owned(), |ratio| ratio.to_string())
        );
    }
    text
}

/// Whether an arm meets its limit relative to the best of others. `None` if one of them did not
/// run.
pub(crate) fn goal(rows: &[Row], arm: &str, others: &[&str], at_most: f64) -> Option<String> {
    let judged = rows.iter().find(|row| row.arm == arm)?;
    let others = rows.iter().filter(|row| others.contains(&row.arm.as_str()));
    // The best of them, even if only by chance, which is the harder reference.
    let best = others.min_by(|one, other| median(&one.times).total_cmp(&median(&other.times)))?;
    let ratio = Ratio::of(&judged.times, &best.times)?;
    let met = if ratio.mean <= at_most { "met" } else { "NOT met" };
    Some(format!("{arm} / {}: {ratio}, goal: at most {at_most}: {met}", best.arm))
}

/// Formats seconds with a suitable unit.
fn span(seconds: f64) -> String {
    match seconds {
        s if s < 1e-6 => format!("{:.0} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.2} us", s * 1e6),
        s if s < 1.0 => format!("{:.3} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}
