//! `rowlock paper barrier/today`: many schedulers, machines and loads, and the conclusions.

use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, anyhow};
use measure::experiment::{self, FinishedExperiment};
use measure::folder;
use measure::manifest::{Provenance, ScenarioFile};
use measure::plan::Plan;
use measure::timestamp::Timestamp;
use measure::two_worlds::TwoWorlds;
use papers::today::answer::Answer;
use papers::today::{NAME, SHOWS, SOURCE, TAKES, grid, plot, text};
use scenario::Scenario;

use super::SIM;
use crate::arguments::{self, TextOrJson};
use crate::output::print;
use crate::progress::ProgressLine;
use crate::results::{result_of, tell_where, unwritable};
use crate::signals::Signals;
use crate::stop::Stop;

/// The default number of runs of each arm.
const REPEAT: u32 = 3;

/// The entry in the list of papers.
pub(super) fn list() -> Result<String, Stop> {
    let runs = Plan::new(&scenario(REPEAT, 1)?, SIM).len();
    Ok(format!("{NAME}  {SOURCE}\n  {SHOWS}\n  {runs} runs; about {TAKES} on two CPUs\n"))
}

/// Runs all scenarios and prints the answer.
pub(super) fn run(arguments: &arguments::paper::Paper) -> Result<(), Stop> {
    if let [option, ..] = arguments.changes().words().as_slice() {
        return Err(Stop::Input(anyhow!("{option}: {NAME} runs the schedulers and rules that it is about")));
    }
    if arguments.scenario {
        let message =
            format!("--scenario: {NAME} is made of hundreds of scenarios; they are in crates/papers/src/today/grid.rs");
        return Err(Stop::Input(anyhow!(message)));
    }
    let started = Timestamp::of(SystemTime::now());
    let scenario = scenario(arguments.repeat.unwrap_or(REPEAT), arguments.seed.unwrap_or(1))?;
    let signals = Signals::catch().context("cannot catch signals").map_err(Stop::Failed)?;
    let worlds = TwoWorlds::new(None, arguments.workers);
    let mut folder = arguments.results.open(Path::new("barrier-today"), started)?;
    let scenario_file = ScenarioFile::new(NAME, &[], &scenario);
    let provenance = Provenance { scenario: Some(scenario_file), ..Provenance::new(NAME, started) };
    let line = ProgressLine::new(&scenario);
    let progress = &mut |progress: measure::runner::Progress<'_>| line.show(progress);
    let finished = experiment::run(scenario.clone(), SIM, &worlds, &mut folder, provenance, progress, signals.cancel());
    drop(line);
    let FinishedExperiment { report, manifest, histories, error, .. } = finished.map_err(unwritable)?;
    let answer = Answer::new(&report);
    folder.write_text(plot::FILE, &plot::render(&answer.speeds)).map_err(unwritable)?;
    let page = papers::today::page::render(&answer, &manifest, &histories);
    folder.write_text(folder::PAGE, &page).map_err(unwritable)?;
    print(&match arguments.format {
        TextOrJson::Text => text::render(&answer),
        TextOrJson::Json => report::json::render(&answer).context("cannot write the answer").map_err(Stop::Failed)?,
    })?;
    tell_where(folder.path());
    result_of(error, &report, &signals)
}

fn scenario(repeat: u32, seed: u64) -> Result<Scenario, Stop> {
    grid::scenario(repeat, seed).map_err(|diagnostics| Stop::Failed(anyhow!("{diagnostics}")))
}
