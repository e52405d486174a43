//! `rowlock doctor`: what this machine allows, what it lacks, what that costs, and how to get it.

use anyhow::Context;
use host::doctor::examine;

use crate::arguments::TextOrJson;
use crate::jobs::terminal_width;
use crate::output::print_as;
use crate::stop::Stop;

/// Probes the machine and prints the findings.
pub(crate) fn doctor(format: TextOrJson) -> Result<(), Stop> {
    let report = examine().context("cannot examine this machine")?;
    print_as(
        format,
        || terminal_width().map_or_else(|| report.to_string(), |width| format!("{report:width$}")),
        &report,
        "the findings",
    )
}
