//! Files of the kernel.

use std::fs;
use std::path::Path;
use std::str::FromStr;

/// The text of a file. Empty if it cannot be read. Names in it may be other than UTF-8.
pub(crate) fn read(path: impl AsRef<Path>) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// The number in a file. `None` if it contains something else, such as `max`, or cannot be read.
pub(crate) fn number<N: FromStr>(path: impl AsRef<Path>) -> Option<N> {
    read(path).trim().parse().ok()
}
