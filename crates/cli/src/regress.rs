//! `rowlock regress`: explains one column of a file by others.

use std::fs::File;

use anyhow::{Context, Error};
use measure::regress::{self, Question};
use report::json;

use crate::arguments::{self, TextOrJson};
use crate::output::print;
use crate::stop::Stop;

/// Runs the regression and prints the result.
pub(crate) fn regress(arguments: &arguments::Regress) -> Result<(), Stop> {
    let question = Question {
        on: arguments.on.trim().to_owned(),
        from: arguments.from.iter().map(|name| name.trim().to_owned()).collect(),
        with_intercept: !arguments.no_intercept,
    };
    let name = arguments.file.display().to_string();
    let file = File::open(&arguments.file).with_context(|| format!("cannot read {name}")).map_err(Stop::Input)?;
    let found = regress::regress(file, &question).map_err(|error| Stop::Input(Error::new(error).context(name)))?;
    match arguments.format {
        TextOrJson::Text => print(&regress::text(&found)),
        TextOrJson::Json => print(&json::render(&found).context("cannot write the answer").map_err(Stop::Failed)?),
    }
}
