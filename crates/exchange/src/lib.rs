#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod json;
mod name;
pub mod rt_app;
pub mod sched;

use std::ops::Range;

use scenario::{Diagnostic, Diagnostics, Scenario};

/// A file format for scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The JSON format of rt-app.
    RtApp,
    /// The kernel's scheduling events as text, from `perf script`, `trace-cmd report` or tracefs.
    Sched,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 2] = [Format::RtApp, Format::Sched];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Format::RtApp => "rt-app",
            Format::Sched => "sched",
        }
    }

    /// Guesses the format from the content. Returns `None` if it is unclear.
    pub fn guess(bytes: &[u8]) -> Option<Format> {
        let mut rest = bytes.strip_prefix(json::BYTE_ORDER_MARK.as_bytes()).unwrap_or(bytes).trim_ascii_start();
        while let Some(comment) = rest.strip_prefix(b"/*") {
            let end = comment.windows(2).position(|end| end == b"*/").map_or(comment.len(), |end| end + 2);
            rest = comment[end..].trim_ascii_start();
        }
        if rest.starts_with(b"{") {
            return Some(Format::RtApp);
        }
        sched::is_likely(bytes).then_some(Format::Sched)
    }
}

/// A scenario converted from another format.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The scenario file.
    pub toml: String,
    /// The parsed scenario.
    pub scenario: Scenario,
    /// Omissions and assumptions.
    pub notes: Vec<String>,
}

impl Imported {
    /// Parses and checks the scenario file.
    fn checked(toml: String, notes: Vec<String>) -> Result<Imported, ImportError> {
        match scenario::read("the imported scenario", toml.as_bytes()) {
            Ok(scenario) => Ok(Imported { toml, scenario, notes }),
            Err(diagnostics) => Err(ImportError::TooLarge(diagnostics)),
        }
    }
}

/// The reason why there is no scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The file has errors, or a scenario cannot express it.
    #[error("{0}")]
    Refused(Diagnostics),
    /// The file contains nothing for a scenario.
    #[error("{0}")]
    Empty(String),
    /// The result exceeds the limits of a scenario.
    #[error("this exceeds the limits of a scenario:\n{0}")]
    TooLarge(Diagnostics),
}

/// Reads a file of this format. `name` is its name in diagnostics.
///
/// # Errors
///
/// Returns an [`ImportError`].
pub fn import(format: Format, name: &str, bytes: &[u8]) -> Result<Imported, ImportError> {
    match format {
        Format::RtApp => rt_app::read(name, bytes),
        Format::Sched => sched::read(name, bytes),
    }
}

/// A result, or the problem that prevents it.
type Refused<T> = Result<T, Box<Diagnostic>>;

/// Refuses what is at this place of a file.
fn refuse<T>(place: &Range<usize>, message: impl Into<String>, help: &str) -> Refused<T> {
    Err(Box::new(Diagnostic::new(place.clone(), message).help(help)))
}

/// Writes the header of a job's table, its name, its kind, and the keys that have a value.
fn write_job(out: &mut String, name: &str, kind: &str, keys: &[(&str, Option<String>)]) {
    *out += &format!("\n[[job]]\nname = \"{name}\"\nkind = \"{kind}\"\n");
    for (key, value) in keys {
        *out += &value.as_ref().map(|value| format!("{key} = {value}\n")).unwrap_or_default();
    }
}

/// Formats a text as a TOML string on one line.
fn quoted_toml(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push(' '),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
