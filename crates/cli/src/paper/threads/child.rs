//! The measuring processes: this program runs itself again for each run.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;
use papers::threads::measurement::{self, MeasurementRequest, MeasurementResult};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

use crate::output::{print, print_message};
use crate::stop::Stop;

/// The argument that makes this program a measuring process.
const MEASURE: &str = "__threads";

/// If this process was started to measure, makes the measurement and returns the exit code. Call it
/// at the beginning of `main`.
pub(crate) fn serve_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next()? != MEASURE {
        return None;
    }
    let result = arguments.next().ok_or_else(|| "there is no request".to_owned()).and_then(|request| serve(&request));
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
    // This process must not outlive its parent. If this call fails, it ends by itself some seconds
    // later.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
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

/// Starts this program again to make the measurement, and waits for its end. The inner error is the
/// failure of the process, in words.
pub(super) fn measure(
    program: &Path,
    request: &MeasurementRequest,
) -> anyhow::Result<Result<MeasurementResult, String>> {
    let started = || -> anyhow::Result<_> {
        let request = serde_json::to_string(request)?;
        Ok(Command::new(program).arg(MEASURE).arg(request).stdin(Stdio::null()).output()?)
    };
    let output = started().context("cannot start this program again to measure")?;
    if output.status.success() {
        return serde_json::from_slice(&output.stdout).map(Ok).context("a measuring process returned no result");
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().lines().next_back().unwrap_or_default();
    Ok(Err(if said.is_empty() { output.status.to_string() } else { said.to_owned() }))
}
