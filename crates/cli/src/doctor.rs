//! `rowlock doctor`: what this machine allows, what is missing, what that costs, and how to get it.

use anyhow::Context;
use host::doctor::{Probes, Report, examine};
use serde::Serialize;

use crate::arguments::{self, TextOrJson};
use crate::output::print;
use crate::stop::Stop;

/// Looks at the machine, and prints what was found.
pub(crate) fn doctor(arguments: &arguments::Doctor) -> Result<(), Stop> {
    let probes = Probes::take().context("cannot examine this machine").map_err(Stop::Failed)?;
    let report = examine(&probes);
    match arguments.format {
        TextOrJson::Text => print(&report.to_string()),
        TextOrJson::Json => print(&json(&report)?),
    }
}

fn json(report: &Report) -> Result<String, Stop> {
    #[derive(Serialize)]
    struct Written<'a> {
        schema_version: u32,
        #[serde(flatten)]
        report: &'a Report,
    }
    report::json::render(&Written { schema_version: 1, report })
        .context("cannot write the findings")
        .map_err(Stop::Failed)
}
