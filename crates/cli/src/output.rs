//! Standard output, for results only; and standard error, for everything else.

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

/// Tells people something. That they may not be there to hear it, their disk being full, is no reason to fail.
pub(crate) fn tell(text: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "{text}");
}
