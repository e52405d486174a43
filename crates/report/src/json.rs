//! The report as JSON. Its fields are a contract: docs/output.md lists them.

use std::io;

use serde::Serialize;

/// Anything as JSON for people and programs: indented, ended by a line feed.
///
/// # Errors
///
/// What cannot be JSON; none of the laboratory's own types is that.
pub fn render(content: &impl Serialize) -> io::Result<String> {
    Ok(serde_json::to_string_pretty(content)? + "\n")
}
