//! The results of all contenders.

use std::collections::BTreeMap;
use std::path::Path;

use crate::process::Measured;
use crate::ratio::median;

/// By contender, program and figure: a value for each round that completed.
#[derive(Default)]
pub(crate) struct Figures {
    values: BTreeMap<(String, String, String), Vec<f64>>,
    /// Programs that failed, with the reasons.
    failures: BTreeMap<(String, String), String>,
}

impl Figures {
    /// Adds the results of a round: the median of several values of one name.
    pub(crate) fn add(&mut self, contender: &str, program: &str, results: &Measured) {
        let mut of: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        results.iter().for_each(|(name, value)| of.entry(name).or_default().push(*value));
        for (name, values) in of {
            let key = (contender.to_owned(), program.to_owned(), name.to_owned());
            self.values.entry(key).or_default().push(median(&values));
        }
    }

    pub(crate) fn fail(&mut self, contender: &str, program: &str, why: String) {
        self.failures.insert((contender.to_owned(), program.to_owned()), why);
    }

    pub(crate) fn has_failed(&self, contender: &str, program: &str) -> bool {
        self.failures.contains_key(&(contender.to_owned(), program.to_owned()))
    }

    /// All failures, one sentence each.
    pub(crate) fn failures(&self) -> impl Iterator<Item = String> {
        self.failures.iter().map(|((contender, program), why)| format!("{contender}, {program}: {why}"))
    }

    pub(crate) fn rounds(&self, contender: &str, program: &str, name: &str) -> Option<&[f64]> {
        if self.has_failed(contender, program) {
            return None;
        }
        self.values.get(&(contender.to_owned(), program.to_owned(), name.to_owned())).map(Vec::as_slice)
    }

    pub(crate) fn middle(&self, contender: &str, program: &str, name: &str) -> Option<f64> {
        self.rounds(contender, program, name).map(median)
    }
}

/// A figure of one run, as a line of a file.
#[derive(serde::Serialize)]
struct Line<'a> {
    contender: &'a str,
    program: &'a str,
    round: u32,
    figure: &'a str,
    value: f64,
}

/// Appends the results of a round to a file.
pub(crate) fn write(
    path: &Path,
    (contender, program): (&str, &str),
    round: u32,
    results: &Measured,
) -> anyhow::Result<()> {
    let file = sys::files::append(path)?;
    let is_new = file.metadata()?.len() == 0;
    let mut writer = csv::WriterBuilder::new().has_headers(is_new).from_writer(file);
    for (figure, value) in results {
        writer.serialize(Line { contender, program, round, figure, value: *value })?;
    }
    Ok(writer.flush()?)
}

/// Formats a number with three or four digits.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        size if size < 9_999.5 => format!("{value:.0}"),
        size if size < 999_500.0 => format!("{:.0}k", value / 1e3),
        _ => format!("{:.2}M", value / 1e6),
    }
}

/// The date and the time of day.
pub(crate) fn when() -> String {
    let date = std::process::Command::new("date").args(["--utc", "+%Y-%m-%d %H:%M"]).output();
    date.map_or_else(|_| "some day".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
