//! Standard output, for results only.

use std::io::{self, ErrorKind, Write};

use anyhow::Context;

use crate::stop::Stop;

/// Prints a result. A reader that has had enough, as `head` has, is no error; a full disk is.
pub(crate) fn print(text: &str) -> Result<(), Stop> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output").map_err(Stop::Failed)
        }
        _ => Ok(()),
    }
}
