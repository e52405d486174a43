//! `rowlock paper barrier/today`: many schedulers, machines and loads, and the conclusions.

use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, anyhow};
use measure::experiment::{self, FinishedExperiment};
use measure::folder;
use measure::manifest::{Provenance, ScenarioFile};
use measure::timestamp::Timestamp;
use measure::two_worlds::TwoWorlds;
use papers::Paper;
use papers::today::conclusions::Conclusions;
use papers::today::{grid, plot, text};

use super::SIM;
use crate::arguments::{self, TextOrJson};
use crate::output::print;
use crate::progress::ProgressLine;
use crate::results::{result_of, tell_where, unwritable};
use crate::signals::Signals;
use crate::stop::Stop;

/// Runs all scenarios and prints the conclusions.
pub(super) fn run(paper: &Paper, arguments: &arguments::paper::Paper) -> Result<(), Stop> {
    let name = paper.name;
    if let [option, ..] = arguments.changes().words().as_slice() {
        return Err(Stop::Input(anyhow!("{option}: {name} runs the schedulers and rules that it is about")));
    }
    if arguments.scenario {
        let message =
            format!("--scenario: {name} is made of hundreds of scenarios; they are in crates/papers/src/today/grid.rs");
        return Err(Stop::Input(anyhow!(message)));
    }
    let started = Timestamp::of(SystemTime::now());
    let scenario = grid::scenario(arguments.repeat.unwrap_or(grid::REPEAT), arguments.seed.unwrap_or(1));
    let scenario = scenario.map_err(|diagnostics| Stop::Failed(anyhow!("{diagnostics}")))?;
    let signals = Signals::catch().context("cannot catch signals").map_err(Stop::Failed)?;
    let worlds = TwoWorlds::new(None, arguments.workers);
    let mut folder = arguments.results.open(Path::new(&paper.stem()), started)?;
    let scenario_file = ScenarioFile::new(name, &[], &scenario);
    let provenance = Provenance { scenario: Some(scenario_file), ..Provenance::new(name, started) };
    let line = ProgressLine::new(&scenario);
    let progress = &mut |progress: measure::runner::Progress<'_>| line.show(progress);
    let finished = experiment::run(scenario.clone(), SIM, &worlds, &mut folder, provenance, progress, signals.cancel());
    drop(line);
    let FinishedExperiment { report, manifest, histories, error, .. } = finished.map_err(unwritable)?;
    let conclusions = Conclusions::new(name, &report);
    folder.write_text(plot::FILE, &plot::render(&conclusions.speeds)).map_err(unwritable)?;
    let page = plot::page(&conclusions, &manifest, &histories);
    folder.write_text(folder::PAGE, &page).map_err(unwritable)?;
    print(&match arguments.format {
        TextOrJson::Text => text::render(paper, &conclusions),
        TextOrJson::Json => {
            report::json::render(&conclusions).context("cannot write the conclusions").map_err(Stop::Failed)?
        }
    })?;
    tell_where(folder.path());
    result_of(error, &report, &signals)
}
