//! `rowlock doctor`: what this machine allows, what it lacks, what that costs, and how to get it.

use anyhow::Context;
use host::doctor::examine;

use crate::arguments::{self, TextOrJson};
use crate::output::print;
use crate::stop::Stop;

/// Probes the machine and prints the findings.
pub(crate) fn doctor(arguments: &arguments::Doctor) -> Result<(), Stop> {
    let report = examine().context("cannot examine this machine").map_err(Stop::Failed)?;
    match arguments.format {
        TextOrJson::Text => print(&report.to_string()),
        TextOrJson::Json => {
            print(&report::json::render(&report).context("cannot write the findings").map_err(Stop::Failed)?)
        }
    }
}
