//! `rowlock regress`: explains one column of a file by others.

use std::fs::File;

use anyhow::Context;
use measure::observations::LONGEST_FILE;
use measure::regress::{self, Question};

use crate::arguments;
use crate::input;
use crate::output::print_as;
use crate::stop::{OrStop, Stop};

/// Runs the regression and prints the result.
pub(crate) fn regress(arguments: &arguments::Regress) -> Result<(), Stop> {
    let question = Question {
        on: arguments.on.trim().to_owned(),
        from: arguments.from.iter().map(|name| name.trim().to_owned()).collect(),
        with_intercept: !arguments.no_intercept,
    };
    let name = arguments.file.display().to_string();
    let content = input::read(&name, File::open(&arguments.file), LONGEST_FILE)?;
    let found = regress::regress(&content, &question).context(name).or_input()?;
    print_as(arguments.format, || regress::text(&found), &found, "the answer")
}
