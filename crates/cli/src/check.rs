//! `rowlock check`: validates a scenario.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::Path;

use report::words::{counted, word};
use scenario::{Diagnostics, Scenario};

use crate::input;
use crate::output::print;
use crate::stop::Stop;

/// Reads a scenario and summarizes it.
pub(crate) fn check(file: &Path) -> Result<(), Stop> {
    let (scenario, _) = read(file)?;
    let arms = counted(scenario.arms.len() as u64, "arm");
    let jobs = counted(scenario.arms.first().map_or(0, |arm| arm.setting.jobs.len() as u64), "job");
    let repeat = counted(scenario.experiment.repeat.into(), "repetition");
    let worlds: Vec<&str> = measure::world::default_worlds(&scenario).iter().map(|world| world.name()).collect();
    let (file, worlds) = (file.to_string_lossy(), worlds.join(" and "));
    print(&format!("{}: valid; {arms} of {jobs}, {repeat}, runs in {worlds}\n", word(&file)))
}

/// Reads a scenario. Also returns the file's content.
pub(crate) fn read(file: &Path) -> Result<(Scenario, Vec<u8>), Stop> {
    let name = word(&file.to_string_lossy()).into_owned();
    let content = input::read(&name, File::open(file), scenario::keys::LONGEST_FILE as u64)?;
    match scenario::read(&name, &content) {
        Ok(scenario) => Ok((scenario, content)),
        Err(diagnostics) => Err(Stop::Diagnosed(render(&diagnostics))),
    }
}

/// The diagnostics for standard error, in colour if it is a terminal and the user has not disabled
/// that.
pub(crate) fn render(diagnostics: &Diagnostics) -> String {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty())
        || std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    diagnostics.render(io::stderr().is_terminal() && !plain)
}
