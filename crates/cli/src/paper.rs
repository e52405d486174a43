//! `rowlock paper`: runs a figure of a paper and compares it with the paper.

mod fg;
pub(crate) mod threads;
mod today;

use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, anyhow};
use measure::experiment::{self, FinishedExperiment};
use measure::folder;
use measure::manifest::{Provenance, ScenarioFile};
use measure::plan::Plan;
use measure::timestamp::Timestamp;
use measure::two_worlds::TwoWorlds;
use papers::barrier::changes::Changes;
use papers::barrier::evidence::Evidence;
use papers::barrier::expected::Expected;
use papers::barrier::judgement::Judgement;
use papers::barrier::patterns;
use papers::barrier::{PAPERS, Paper, text};
use papers::fg::{self as measured, Experiment};
use scenario::Scenario;
use scenario::result::World;

use crate::arguments::{self, TextOrJson};
use crate::output::print;
use crate::progress::ProgressLine;
use crate::results::{result_of, tell_where, unwritable};
use crate::signals::Signals;
use crate::stop::Stop;

/// Simulated papers need only the simulator.
const SIM: &[World] = &[World::Sim];

/// Runs a paper and prints how close the result is, or lists all papers.
pub(crate) fn paper(arguments: &arguments::paper::Paper) -> Result<(), Stop> {
    let Some(name) = &arguments.name else { return list() };
    if let Some(experiment) = Experiment::named(name) {
        if let [option, ..] = arguments.changes().words().as_slice() {
            return Err(Stop::Input(anyhow!("{option} is for simulated papers; {name} is measured on this machine")));
        }
        if let Some(option) = arguments.threads.given() {
            return Err(Stop::Input(anyhow!("{option} is for threads/... papers; {name} sorts")));
        }
        return fg::run(experiment, arguments);
    }
    if let Some(experiment) = papers::threads::Experiment::named(name) {
        let changes = arguments.changes();
        if let Some(option) = arguments.measured.given().or(changes.words().first().map(|_| "--scheduler or --waiting"))
        {
            return Err(Stop::Input(anyhow!("{option} is not for {name}, which measures threads on this machine")));
        }
        return threads::run(experiment, arguments);
    }
    if let Some(option) = arguments.measured.given() {
        return Err(Stop::Input(anyhow!("{option} is for fg/... papers; {name} is simulated")));
    }
    if let Some(option) = arguments.threads.given() {
        return Err(Stop::Input(anyhow!("{option} is for threads/... papers; {name} is simulated")));
    }
    if name == papers::today::NAME {
        return today::run(arguments);
    }
    let paper = Paper::named(name).ok_or_else(|| Stop::Input(anyhow!("there is no paper `{name}`")))?;
    if arguments.scenario { show(paper, arguments) } else { run(paper, arguments) }
}

fn list() -> Result<(), Stop> {
    let entry = |paper: &'static Paper| -> Result<_, Stop> {
        let (scenario, expected) = read(paper)?;
        Ok((paper, expected, Plan::new(&scenario, SIM).len()))
    };
    let entries = PAPERS.iter().map(entry).collect::<Result<Vec<_>, Stop>>()?;
    print(&(text::list(&entries) + &today::list()? + &measured::text::list() + &papers::threads::text::list()))
}

/// Prints the scenario: its file if it is unchanged.
fn show(paper: &Paper, arguments: &arguments::paper::Paper) -> Result<(), Stop> {
    let changes = arguments.changes();
    if changes == Changes::default() {
        return print(paper.scenario);
    }
    let (mut scenario, expected) = read(paper)?;
    changes.apply(&mut scenario, &expected);
    print(&scenario.to_toml())
}

fn run(paper: &Paper, arguments: &arguments::paper::Paper) -> Result<(), Stop> {
    let started = Timestamp::of(SystemTime::now());
    let (mut scenario, expected) = read(paper)?;
    let changes = arguments.changes();
    changes.apply(&mut scenario, &expected);
    scenario.experiment.repeat = arguments.repeat.unwrap_or(scenario.experiment.repeat);
    scenario.experiment.seed = arguments.seed.unwrap_or(scenario.experiment.seed);

    let signals = Signals::catch().context("cannot catch signals").map_err(Stop::Failed)?;
    let worlds = TwoWorlds::new(None, arguments.workers);
    let mut folder = arguments.results.open(Path::new(&paper.stem()), started)?;
    let scenario_file = ScenarioFile::new(&format!("{}.toml", paper.name), paper.scenario.as_bytes(), &scenario);
    let provenance = Provenance { scenario: Some(scenario_file), ..Provenance::new(paper.name, started) };
    let line = ProgressLine::new(&scenario);
    let progress = &mut |progress: measure::runner::Progress<'_>| line.show(progress);
    let finished = experiment::run(scenario.clone(), SIM, &worlds, &mut folder, provenance, progress, signals.cancel());
    drop(line);
    let FinishedExperiment { report, manifest, mut histories, error, .. } = finished.map_err(unwritable)?;

    let mut evidence = Evidence::new(&scenario, &report.runs);
    if expected.figure.measure.is_of_patterns() {
        let searched = evidence.with_patterns(&expected.figure.job, arguments.workers, signals.cancel());
        evidence = searched.map_err(|error| Stop::Failed(error.into()))?;
        // After an interruption, the patterns found so far are shown.
        let measure = expected.figure.measure;
        let _ = patterns::show(&mut histories, &evidence, measure, &worlds, signals.cancel());
    }
    let judgement = Judgement::new(paper, &expected, &evidence, &changes, &report);
    let page = papers::barrier::page::render(&judgement, &manifest, &histories);
    folder.write_text(folder::PAGE, &page).map_err(unwritable)?;
    print(&match arguments.format {
        TextOrJson::Text => text::render(&judgement, &expected, &evidence),
        TextOrJson::Json => {
            report::json::render(&judgement).context("cannot write the judgement").map_err(Stop::Failed)?
        }
    })?;
    tell_where(folder.path());
    result_of(error, &report, &signals)?;
    match judgement.missed() {
        0 => Ok(()),
        missed => Err(Stop::Failed(anyhow!("missed: {missed} of {} bands", judgement.judged()))),
    }
}

fn read(paper: &Paper) -> Result<(Scenario, Expected), Stop> {
    let scenario = paper.scenario().map_err(|diagnostics| Stop::Failed(anyhow!("{diagnostics}")))?;
    let expected = paper.expected().map_err(|error| Stop::Failed(error.into()))?;
    Ok((scenario, expected))
}
