//! `rowlock exec`: runs an unmodified program whose threads wait by a rule.

mod comparison;
mod json;
mod report;

use exec::{Ended, Launch};
use policy::waiting::Costs;

use crate::arguments;
use crate::output::{ResultFile, json, print_message, print_report};
use crate::stop::{OrStop, Stop, end_as};

/// Starts the program, and returns only on failure; or compares it with and without rowlock.
pub(crate) fn exec(arguments: &arguments::Exec) -> Result<(), Stop> {
    let launch = prepare(arguments)?;
    if arguments.compare {
        return comparison::compare(&launch, arguments);
    }
    if !arguments.report && arguments.json.is_none() {
        return Err(launch.replace().into());
    }
    // Check this first: the program may run for long before its report is lost.
    let file = arguments.json.as_deref().map(ResultFile::create).transpose()?;
    let ended = launch.run()?;
    end_as(ended.status, write_reports(&launch, arguments, &ended, file))
}

/// Prepares the launch, and reports any obstacle.
fn prepare(arguments: &arguments::Exec) -> Result<Launch, Stop> {
    let launch =
        Launch::new(&arguments.program.command, &arguments.program.arguments, arguments.wait, costs()).or_failed()?;
    if let Some((program, obstacle)) = launch.obstacle() {
        print_message(format_args!("rowlock: {} {obstacle}", program.display()));
    }
    Ok(launch)
}

/// This machine's costs: the calibrated ones, or else those of a brief measurement.
pub(crate) fn costs() -> Costs {
    host::calibration::cached_costs().unwrap_or_else(wait::calibrate::briefly)
}

fn write_reports(
    launch: &Launch,
    arguments: &arguments::Exec,
    ended: &Ended,
    file: Option<ResultFile>,
) -> Result<(), Stop> {
    let obstacle = launch.obstacle().map(|(_, obstacle)| obstacle.name());
    if arguments.report {
        print_report(report::text(arguments.wait, obstacle.is_some(), ended).trim_end());
    }
    let Some(file) = file else { return Ok(()) };
    Ok(file.write(&json(&json::ExecReport::new(arguments, obstacle, ended), "the report")?)?)
}
