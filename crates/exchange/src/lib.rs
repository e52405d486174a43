#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod json;
mod name;
pub mod rt_app;
pub mod sched;

use scenario::{Diagnostics, Scenario};

/// A kind of file that scenarios are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// rt-app's JSON.
    RtApp,
    /// The kernel's scheduling events as text, by `perf script`, `trace-cmd report` or tracefs.
    Sched,
}

impl Format {
    /// Both.
    pub const ALL: [Format; 2] = [Format::RtApp, Format::Sched];

    /// As it is written on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Format::RtApp => "rt-app",
            Format::Sched => "sched",
        }
    }

    /// What the content looks like, where that is clear.
    pub fn guess(bytes: &[u8]) -> Option<Format> {
        let text = String::from_utf8_lossy(bytes);
        let mut rest = text.strip_prefix(json::BYTE_ORDER_MARK).unwrap_or(&text).trim_start();
        while let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").map_or("", |(_, rest)| rest).trim_start();
        }
        if rest.starts_with('{') {
            return Some(Format::RtApp);
        }
        sched::is_likely(&text).then_some(Format::Sched)
    }
}

/// A scenario that was made of something else.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The scenario as a file.
    pub toml: String,
    /// What it says.
    pub scenario: Scenario,
    /// What was left out or understood in some way, and why.
    pub notes: Vec<String>,
}

impl Imported {
    /// What a file like this says.
    fn checked(toml: String, notes: Vec<String>) -> Result<Imported, ImportError> {
        match scenario::read("the scenario that this became", toml.as_bytes()) {
            Ok(scenario) => Ok(Imported { toml, scenario, notes }),
            Err(diagnostics) => Err(ImportError::TooLarge(diagnostics)),
        }
    }
}

/// Why there is no scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// Something is wrong with the file, or cannot be said by a scenario.
    #[error("{0}")]
    Refused(Diagnostics),
    /// There is nothing in the file to make a scenario of.
    #[error("{0}")]
    Empty(String),
    /// It goes beyond what a scenario may hold.
    #[error("a scenario cannot hold this:\n{0}")]
    TooLarge(Diagnostics),
}

/// Reads a file of this format; `name` is what its diagnostics call it.
///
/// # Errors
///
/// [`ImportError`].
pub fn import(format: Format, name: &str, bytes: &[u8]) -> Result<Imported, ImportError> {
    match format {
        Format::RtApp => rt_app::read(name, bytes),
        Format::Sched => sched::read(name, bytes),
    }
}

/// A text in one line as TOML writes it, between quotes.
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
