//! Files of the kernel.

use std::fs;
use std::path::Path;
use std::str::FromStr;

/// The text of a file. Empty if it cannot be read.
pub(crate) fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The number in a file. `None` if it contains something else, such as `max`, or cannot be read.
pub(crate) fn number<N: FromStr>(path: impl AsRef<Path>) -> Option<N> {
    read(path).trim().parse().ok()
}
