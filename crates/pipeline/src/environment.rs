//! What the environment says of a run, and where it wants to be told of it.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::error::{BuildError, Error};
use crate::report::RunReport;
use crate::structure::Structure;
use crate::trace::{self, Notes};

/// A structure that is laid over the program's own.
pub const STRUCTURE: &str = "ROWLOCK_PIPELINE";

/// A file to which each run appends what came of it: its [`RunReport`] as one line of JSON.
pub const REPORT: &str = "ROWLOCK_PIPELINE_REPORT";

/// A file for the trace of a run, which Perfetto opens: when each stage was called for which buffer. It holds the last run of a process.
pub const TRACE: &str = "ROWLOCK_PIPELINE_TRACE";

/// The structure that the environment asks for.
pub(crate) fn structure() -> Result<Structure, BuildError> {
    match env::var(STRUCTURE) {
        Ok(text) => text.parse().map_err(|why| BuildError::new(format!("{STRUCTURE}: {why}"), "or unset it")),
        Err(env::VarError::NotPresent) => Ok(Structure::default()),
        Err(env::VarError::NotUnicode(_)) => {
            Err(BuildError::new(format!("{STRUCTURE} is no text"), "it is a line such as `buffers=16 threads=each`"))
        }
    }
}

/// The file that a variable names; an empty one names none.
fn path(variable: &str) -> Option<OsString> {
    env::var_os(variable).filter(|path| !path.is_empty())
}

/// Whether somebody wants a trace.
pub(crate) fn wants_trace() -> bool {
    path(TRACE).is_some()
}

/// Writes a trace where it is wanted. As with [`tell`], that it cannot be written fails nothing.
pub(crate) fn trace(program: &str, rows: &[Notes]) {
    let Some(path) = path(TRACE) else { return };
    if let Err(why) = trace::write(Path::new(&path), program, rows) {
        let _ = writeln!(io::stderr(), "{TRACE}: cannot write {}: {why}", path.display());
    }
}

/// Tells of a run whoever asked for it. That the file cannot be written is said, and fails nothing: the program's work is done.
pub(crate) fn tell(outcome: &Result<RunReport, Error>) {
    let Some(path) = path(REPORT) else { return };
    let report = match outcome {
        Ok(report) => report,
        Err(Error::Failed(failure)) => &failure.report,
        Err(_) => return,
    };
    let append = || -> io::Result<()> {
        let mut line = serde_json::to_string(report)?;
        line.push('\n');
        // One write, so that the lines of several processes do not mix.
        File::options().append(true).create(true).open(&path)?.write_all(line.as_bytes())
    };
    if let Err(why) = append() {
        let _ = writeln!(io::stderr(), "{REPORT}: cannot write {}: {why}", path.display());
    }
}
