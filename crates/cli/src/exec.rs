//! `rowlock exec`: runs an unmodified program whose threads wait by a rule.

mod comparison;
mod json;
mod report;

use std::fs::OpenOptions;
use std::path::Path;

use anyhow::Context;
use exec::{Ended, Launch, LibraryError, RunError, StartError};
use policy::waiting::Costs;

use crate::arguments;
use crate::output::tell;
use crate::stop::Stop;

/// Starts the program, and returns only on failure; or compares it with and without rowlock.
pub(crate) fn exec(arguments: &arguments::Exec) -> Result<(), Stop> {
    let launch = prepare(arguments)?;
    if arguments.compare {
        return comparison::compare(&launch, arguments);
    }
    if !arguments.report && arguments.json.is_none() {
        return Err(not_started(launch.replace()));
    }
    // Check this first: the program may run for long before its report is lost.
    let is_new = arguments.json.as_deref().map(check_writable).transpose()?.unwrap_or(false);
    let ended = launch.run().map_err(|why| {
        if let Some(file) = arguments.json.as_deref().filter(|_| is_new) {
            // The report is not written. If removal fails, an empty file remains.
            let _ = std::fs::remove_file(file);
        }
        match why {
            RunError::Start(why) => not_started(why),
            why => Stop::Failed(why.into()),
        }
    })?;
    match write_reports(&launch, arguments, &ended) {
        // A missing report is a failure even if the program succeeded.
        Err(failed) if ended.status.success() => Err(failed),
        Err(failed) => {
            failed.report();
            exec::end_as(ended.status)
        }
        Ok(()) => exec::end_as(ended.status),
    }
}

/// Checks that a file can be written, and returns whether it is new. Its content stays.
fn check_writable(file: &Path) -> Result<bool, Stop> {
    let is_new = !file.exists();
    let opened = OpenOptions::new().create(true).append(true).open(file);
    opened.with_context(|| format!("cannot write {}", file.display())).map_err(Stop::Failed)?;
    Ok(is_new)
}

/// Prepares the launch, and reports any obstacle.
fn prepare(arguments: &arguments::Exec) -> Result<Launch, Stop> {
    let launch = Launch::new(&arguments.command, &arguments.arguments, arguments.wait, costs());
    let launch = launch.map_err(|why: LibraryError| Stop::Failed(why.into()))?;
    if let Some((program, obstacle)) = launch.obstacle() {
        tell(format_args!("rowlock: {} {obstacle}", program.display()));
    }
    Ok(launch)
}

/// This machine's costs: the calibrated ones, or else those of a brief measurement.
fn costs() -> Costs {
    host::calibration::cached_costs().unwrap_or_else(wait::calibrate::briefly)
}

fn write_reports(launch: &Launch, arguments: &arguments::Exec, ended: &Ended) -> Result<(), Stop> {
    let obstacle = launch.obstacle().map(|(_, obstacle)| obstacle.name());
    if arguments.report {
        tell(report::text(arguments.wait, obstacle.is_some(), ended).trim_end());
    }
    let Some(file) = &arguments.json else { return Ok(()) };
    let json = ::report::json::render(&json::ExecReport::new(arguments, obstacle, ended));
    let json = json.context("cannot write the report").map_err(Stop::Failed)?;
    std::fs::write(file, json).with_context(|| format!("cannot write {}", file.display())).map_err(Stop::Failed)
}

fn not_started(why: StartError) -> Stop {
    let code = why.exit_code();
    Stop::NotStarted(why.into(), code)
}
