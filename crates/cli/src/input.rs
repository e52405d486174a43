//! Input that is read into memory as a whole.

use std::fmt::Display;
use std::io::{self, Read};

use anyhow::Context;

use crate::stop::{OrStop, Stop};

/// The content of a file of this name, up to `most` bytes and one more, which shows that it is too
/// long: some files have no end.
pub(crate) fn read(name: impl Display, file: io::Result<impl Read>, most: u64) -> Result<Vec<u8>, Stop> {
    let mut content = Vec::new();
    let read = file.and_then(|file| file.take(most + 1).read_to_end(&mut content));
    read.with_context(|| format!("cannot read {name}")).or_input()?;
    Ok(content)
}
