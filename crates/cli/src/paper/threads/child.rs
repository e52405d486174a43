//! The measuring processes: this program runs itself again for each run.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use papers::threads::measurement::{self, MeasurementRequest, MeasurementResult};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use sys::containment::{Contained, Manner};
use sys::unnamed::UnnamedFile;

use crate::output::{print, print_message};
use crate::stop::Stop;

/// The argument that makes this program a measuring process.
const MEASURE: &str = "__threads";
/// The time between two checks for cancellation.
const CANCEL_CHECK: Duration = Duration::from_millis(50);

/// If this process was started to measure, makes the measurement and returns the exit code. Call it
/// at the beginning of `main`.
pub(crate) fn serve_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != MEASURE {
        return None;
    }
    let result = arguments
        .next()
        .ok_or_else(|| "there is no request".to_owned())
        .and_then(|request| serve(&request.to_string_lossy()));
    Some(match result {
        Ok(result) => print(&format!("{result}\n")).map_or_else(Stop::report, |()| ExitCode::SUCCESS),
        Err(why) => {
            print_message(why);
            ExitCode::FAILURE
        }
    })
}

/// Makes the requested measurement. The request and the result are JSON.
fn serve(request: &str) -> Result<String, String> {
    let request: MeasurementRequest =
        serde_json::from_str(request).map_err(|why| format!("the request cannot be read: {why}"))?;
    if request.cell.arm.is_on_one_cpu() {
        // The CPU that the kernel has chosen.
        let mut here = CpuSet::new();
        here.set(sched_getcpu());
        sched_setaffinity(None, &here).map_err(|why| format!("cannot stay on one CPU: {why}"))?;
    }
    let result = measurement::measure(&request)?;
    serde_json::to_string(&result).map_err(|why| format!("the result cannot be written: {why}"))
}

/// Starts this program again to make the measurement, and waits for its end, or ends it if this is
/// cancelled. The inner error is the failure of the process, in words.
pub(super) fn measure(
    program: &Path,
    request: &MeasurementRequest,
    cancel: &AtomicBool,
) -> anyhow::Result<Result<MeasurementResult, String>> {
    // Files need no reader during the measurement, unlike pipes.
    let outputs = || Ok::<_, std::io::Error>((UnnamedFile::new()?, UnnamedFile::new()?));
    let (stdout, stderr) = outputs().context("cannot create files for the output of a measurement")?;
    let start = || -> anyhow::Result<_> {
        let mut command = Command::new(program);
        command.arg(MEASURE).arg(serde_json::to_string(request)?).stdin(Stdio::null());
        command.stdout(stdout.file().try_clone()?).stderr(stderr.file().try_clone()?);
        Ok(Contained::start(&mut command, Manner::Background)?)
    };
    let mut measuring = start().context("cannot start this program again to measure")?;
    let status = loop {
        if let Some(status) = measuring.wait_for(CANCEL_CHECK).context("cannot wait for a measurement")? {
            break status;
        }
        if cancel.load(Ordering::Relaxed) {
            measuring.end();
        }
    };
    if status.success() {
        let result = fs::read(stdout.path()).context("cannot read the result of a measurement")?;
        return serde_json::from_slice(&result).map(Ok).context("a measuring process returned no result");
    }
    let said = fs::read(stderr.path()).context("cannot read the errors of a measurement")?;
    let said = String::from_utf8_lossy(&said);
    let said = said.trim().lines().next_back().unwrap_or_default();
    Ok(Err(if said.is_empty() { status.to_string() } else { said.to_owned() }))
}
