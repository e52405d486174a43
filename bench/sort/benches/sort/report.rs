//! Tables of what was measured, and whether it is what was asked for.

use std::fmt::Write;

use crate::arms::Arm;
use crate::ratio::{Ratio, median};

/// One run of one arm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Until everything is on the disk.
    pub(crate) seconds: f64,
    /// Of all CPUs.
    pub(crate) cpu: f64,
    /// The most memory in use in the cage, in bytes.
    pub(crate) peak: Option<u64>,
    /// From devices and to them, in bytes.
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

/// The rows as a table, of what has so many bytes.
pub(crate) fn table(rows: &[Row], length: u64) -> String {
    let mut text =
        "| | seconds | least to greatest | MB/s | to the floor | CPU s | peak memory, MiB | read / written, GB |\n\
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

/// One arm takes at most so many times as long as another, or at least.
pub(crate) struct Goal {
    pub(crate) arm: Arm,
    pub(crate) to: Arm,
    pub(crate) asked: Asked,
}

/// What a ratio should be.
#[derive(Clone, Copy)]
pub(crate) enum Asked {
    AtMost(f64),
    AtLeast(f64),
}

impl Goal {
    /// Whether it is so, in words; nothing where one of the two was not run.
    pub(crate) fn judge(&self, rows: &[Row]) -> Option<String> {
        let seconds = |arm: Arm| rows.iter().find(|row| row.arm == arm).map(Row::seconds);
        let ratio = Ratio::of(&seconds(self.arm)?, &seconds(self.to)?)?;
        let (words, is_met) = match self.asked {
            Asked::AtMost(bound) => (format!("at most {bound}"), ratio.mean <= bound),
            Asked::AtLeast(bound) => (format!("at least {bound}"), ratio.mean >= bound),
        };
        let met = if is_met { "met" } else { "NOT met" };
        Some(format!("{} / {}: {ratio}, asked for {words}: {met}", self.arm, self.to))
    }
}
