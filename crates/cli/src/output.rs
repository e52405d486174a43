//! Output: results on standard output, everything else on standard error.

use std::io::{self, ErrorKind, Write};

use anyhow::Context;

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

/// Prints a message for the user. Ignores errors, such as a full disk.
pub(crate) fn tell(text: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "{text}");
}
