//! `rowlock doctor`: what this machine allows, what it lacks, what that costs, and how to get it.

use anyhow::Context;
use host::doctor::examine;

use crate::arguments::TextOrJson;
use crate::output::{print_as, terminal_width};
use crate::stop::Stop;

/// Probes the machine and prints the findings.
pub(crate) fn doctor(format: TextOrJson) -> Result<(), Stop> {
    let report = examine().context("cannot examine this machine")?;
    let text = || terminal_width().map_or_else(|| report.to_string(), |width| format!("{report:width$}"));
    print_as(format, text, &report, "the findings")
}
