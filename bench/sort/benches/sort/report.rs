//! Tables of results, and whether the goals are met.

use std::fmt::Write;

use crate::arms::Arm;
use crate::ratio::{Ratio, median};

/// A run of an arm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Until all data is on the disk.
    pub(crate) seconds: f64,
    /// The CPU seconds on all CPUs.
    pub(crate) cpu: f64,
    /// The peak memory of the control group, in bytes.
    pub(crate) peak: Option<u64>,
    /// Bytes read from devices, and written.
    pub(crate) read: u64,
    pub(crate) written: u64,
}

/// The runs of an arm, in the order of the repetitions.
pub(crate) struct Row {
    pub(crate) arm: Arm,
    pub(crate) runs: Vec<Run>,
}

impl Row {
    fn of(&self, value: fn(&Run) -> f64) -> Vec<f64> {
        self.runs.iter().map(value).collect()
    }

    fn seconds(&self) -> Vec<f64> {
        self.of(|run| run.seconds)
    }
}

/// A table of the rows, for an input of this size.
pub(crate) fn table(rows: &[Row], length: u64) -> String {
    let mut text =
        "| | seconds | minimum to maximum | MB/s | times the floor | CPU s | peak memory, MiB | read / written, GB |\n\
        |---|---|---|---|---|---|---|---|\n"
            .to_owned();
    let floor = rows.iter().find(|row| row.arm == Arm::Floor);
    for row in rows.iter().filter(|row| !row.runs.is_empty()) {
        let seconds = row.seconds();
        let ratio = floor.and_then(|floor| Ratio::of(&seconds, &floor.seconds()));
        let peak = row.runs.iter().filter_map(|run| run.peak).max();
        let _ = writeln!(
            text,
            "| {} | {:.2} | {:.2} to {:.2} | {:.0} | {} | {:.1} | {} | {:.2} / {:.2} |",
            row.arm,
            median(&seconds),
            seconds.iter().copied().fold(f64::INFINITY, f64::min),
            seconds.iter().copied().fold(0.0, f64::max),
            length as f64 / 1e6 / median(&seconds),
            ratio.map_or("-".to_owned(), |ratio| ratio.to_string()),
            median(&row.of(|run| run.cpu)),
            peak.map_or("-".to_owned(), |peak| format!("{:.0}", peak as f64 / f64::from(1 << 20))),
            median(&row.of(|run| run.read as f64)) / 1e9,
            median(&row.of(|run| run.written as f64)) / 1e9,
        );
    }
    text
}

/// A limit for the time of an arm relative to another.
pub(crate) struct Goal {
    pub(crate) arm: Arm,
    pub(crate) to: Arm,
    pub(crate) asked: Asked,
}

/// The required ratio.
#[derive(Clone, Copy)]
pub(crate) enum Asked {
    AtMost(f64),
    AtLeast(f64),
}

impl Goal {
    /// Whether the goal is met. `None` if one of the arms did not run.
    pub(crate) fn judge(&self, rows: &[Row]) -> Option<String> {
        let seconds = |arm: Arm| rows.iter().find(|row| row.arm == arm).map(Row::seconds);
        let ratio = Ratio::of(&seconds(self.arm)?, &seconds(self.to)?)?;
        let (words, is_met) = match self.asked {
            Asked::AtMost(bound) => (format!("at most {bound}"), ratio.mean <= bound),
            Asked::AtLeast(bound) => (format!("at least {bound}"), ratio.mean >= bound),
        };
        let met = if is_met { "met" } else { "NOT met" };
        Some(format!("{} / {}: {ratio}, goal: {words}: {met}", self.arm, self.to))
    }
}
