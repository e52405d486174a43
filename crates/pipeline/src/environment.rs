//! The environment variables that configure a run.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;

use crate::error::{BuildError, Error};
use crate::report::RunReport;
use crate::structure::Structure;
use crate::trace::{self, CallLog};

/// The variable with a structure that overrides the program's.
pub const STRUCTURE: &str = "ROWLOCK_PIPELINE";

/// The variable with the file to which each run appends its [`RunReport`] as one line of JSON.
pub const REPORT: &str = "ROWLOCK_PIPELINE_REPORT";

/// The variable with the file for a trace of all calls of stages, which Perfetto opens. The file
/// holds the last run of a process.
pub const TRACE: &str = "ROWLOCK_PIPELINE_TRACE";

pub(crate) fn structure() -> Result<Structure, BuildError> {
    match env::var(STRUCTURE) {
        Ok(text) => text.parse().map_err(|why| BuildError::new(format!("{STRUCTURE}: {why}"), "or unset it")),
        Err(env::VarError::NotPresent) => Ok(Structure::default()),
        Err(env::VarError::NotUnicode(_)) => Err(BuildError::new(
            format!("{STRUCTURE} is not UTF-8 text"),
            "it is a line such as `buffers=16 threads=each`",
        )),
    }
}

/// The file that a variable names. `None` if the variable is empty.
fn path(variable: &str) -> Option<OsString> {
    env::var_os(variable).filter(|path| !path.is_empty())
}

pub(crate) fn is_trace_wanted() -> bool {
    path(TRACE).is_some()
}

/// Writes a trace if the environment asks for one. As in [`append_report`], an error is only a
/// warning.
pub(crate) fn trace(program: &str, rows: &[CallLog]) {
    let Some(path) = path(TRACE) else { return };
    warn_if_failed(TRACE, &path, trace::write(Path::new(&path), program, rows));
}

fn warn_if_failed(variable: &str, path: &OsStr, written: io::Result<()>) {
    if let Err(why) = written {
        let _ = writeln!(io::stderr(), "{variable}: cannot write {}: {why}", path.display());
    }
}

/// Appends the report of a run if the environment asks for it. An error is only a warning, because
/// the program's work is done.
pub(crate) fn append_report(outcome: &Result<RunReport, Error>) {
    let Some(path) = path(REPORT) else { return };
    let report = match outcome {
        Ok(report) => report,
        Err(Error::Failed(failure)) => &failure.report,
        Err(_) => return,
    };
    let append = || -> io::Result<()> {
        let mut line = serde_json::to_string(report)?;
        line.push('\n');
        // A single write, so that the lines of several processes do not mix.
        sys::files::append(Path::new(&path))?.write_all(line.as_bytes())
    };
    warn_if_failed(REPORT, &path, append());
}
