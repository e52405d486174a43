//! Output: results on standard output, everything else on standard error.

use std::fmt::Display;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use crate::arguments::TextOrJson;
use crate::stop::Stop;

/// Prints a result. It is not an error if the reader is gone, like `head`. A full disk is an error.
pub(crate) fn print(text: &str) -> Result<(), Stop> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output").map_err(Stop::Failed)
        }
        _ => Ok(()),
    }
}

/// Prints a result as text or as JSON. `what` names it in error messages.
pub(crate) fn print_as(
    format: TextOrJson,
    text: impl FnOnce() -> String,
    value: &impl Serialize,
    what: &str,
) -> Result<(), Stop> {
    match format {
        TextOrJson::Text => print(&text()),
        TextOrJson::Json => print(&json(value, what)?),
    }
}

/// A result as JSON. `what` names it in error messages.
pub(crate) fn json(value: &impl Serialize, what: &str) -> anyhow::Result<String> {
    report::json::render(value).with_context(|| format!("cannot write {what}"))
}

/// Writes a result into a file.
pub(crate) fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Prints a message for the user. Ignores errors, such as a full disk.
pub(crate) fn print_message(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Prints notes for the user.
pub(crate) fn print_notes(notes: &[String]) {
    for note in notes {
        print_message(format_args!("note: {note}"));
    }
}
