//! Output: results on standard output, everything else on standard error.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use report::words::{message, printable};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::tcgetwinsize;
use serde::Serialize;
use sys::files::Target;

use crate::arguments::TextOrJson;
use crate::stop::Stop;

/// Prints a result without control characters. It is not an error if the reader is gone, like
/// `head`. A full disk is an error.
pub(crate) fn print(text: &str) -> Result<(), Stop> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(printable(text).as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output").map_err(Stop::Failed)
        }
        _ => Ok(()),
    }
}

/// The width of the terminal that is standard output. `None` if that is another file.
pub(crate) fn terminal_width() -> Option<usize> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    Some(size.ws_col.into()).filter(|&width| width > 0)
}

/// Whether standard output has no reader any more: it is a pipe whose reader has ended, or a
/// terminal that is gone.
pub(crate) fn is_reader_gone() -> bool {
    let stdout = io::stdout();
    let mut stdout = [PollFd::new(&stdout, PollFlags::empty())];
    let found = poll(&mut stdout, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    found.is_ok() && stdout[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
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

/// Writes a result into a file, a pipe or a device.
pub(crate) fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    ResultFile::create(path)?.write(text)
}

/// A file for a result. It appears when it is written.
pub(crate) struct ResultFile {
    path: PathBuf,
    target: Target,
}

impl ResultFile {
    /// Checks that the file can be written.
    pub(crate) fn create(path: &Path) -> anyhow::Result<ResultFile> {
        let target = Target::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(ResultFile { path: path.to_owned(), target })
    }

    pub(crate) fn write(self, text: &str) -> anyhow::Result<()> {
        let written = self.target.file().write_all(text.as_bytes()).and_then(|()| self.target.finish());
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Prints a message for the user, without control characters. Only its indented lines begin a line.
/// Ignores errors, such as a full disk.
pub(crate) fn print_message(text: impl Display) {
    print_coloured(message(&text.to_string()));
}

/// Prints a report for the user on standard error, likewise, in lines as they are.
pub(crate) fn print_report(text: impl Display) {
    print_coloured(printable(&text.to_string()));
}

/// Prints a message that may have colours.
pub(crate) fn print_coloured(text: impl Display) {
    // By one write, because processes may share the standard error.
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Prints notes for the user.
pub(crate) fn print_notes(notes: &[String]) {
    for note in notes {
        print_message(format_args!("note: {note}"));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    /// Checks that a section of docs/output.md lists exactly the fields of a result.
    pub(crate) fn assert_documented(result: &Value, heading: &str) {
        let document = include_str!("../../../docs/output.md");
        let section = document.split(heading).nth(1).unwrap();
        let rows = section.lines().take_while(|line| !line.starts_with('#'));
        let documented = rows.filter_map(|line| line.strip_prefix("| `")?.split('`').next()).map(str::to_owned);
        let mut fields = BTreeSet::new();
        collect_paths(result, "", &mut fields);
        assert_eq!(fields, documented.collect());
    }

    /// Collects the paths of all values.
    fn collect_paths(value: &Value, path: &str, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(object) => {
                for (key, value) in object {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    collect_paths(value, &path, found);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| collect_paths(item, &format!("{path}[]"), found)),
            _ => drop(found.insert(path.to_owned())),
        }
    }
}
