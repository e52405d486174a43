//! `rowlock paper`: runs a figure of a paper and compares it with the paper.

mod fg;
pub(crate) mod threads;
mod today;

use std::path::Path;
use std::time::SystemTime;

use anyhow::anyhow;
use measure::experiment::FinishedExperiment;
use measure::folder::{self, Folder};
use measure::manifest::{Manifest, ScenarioFile};
use measure::timestamp::Timestamp;
use measure::two_worlds::TwoWorlds;
use papers::figure::changes::Changes;
use papers::figure::evidence::Evidence;
use papers::figure::expected::Expected;
use papers::figure::judgement::Judgement;
use papers::figure::{FigureFiles, patterns, text};
use papers::{Paper, Study};
use scenario::Scenario;
use scenario::result::World;

use crate::arguments;
use crate::output::{print, print_as};
use crate::results::{finish, result_of, run_experiment};
use crate::signals::Signals;
use crate::stop::{OrStop, Stop};

/// Runs a paper and prints how close the result is, or lists all papers.
pub(crate) fn paper(arguments: &arguments::paper::Paper) -> Result<(), Stop> {
    let Some(name) = &arguments.name else {
        return print(&papers::list().map_err(|diagnostics| Stop::Failed(anyhow!("{diagnostics}")))?);
    };
    let paper = Paper::named(name).ok_or_else(|| Stop::Input(anyhow!("there is no paper `{name}`")))?;
    refuse_options_of_others(paper, arguments)?;
    match paper.study {
        Study::Figure(files) if arguments.scenario => show(files, arguments),
        Study::Figure(files) => run(paper, files, arguments),
        Study::Example => draw_example(paper, arguments),
        Study::Today => today::run(paper, arguments),
        Study::Fg(experiment) => fg::run(paper, experiment, arguments),
        Study::Threads(experiment) => threads::run(paper, experiment, arguments),
    }
}

/// Refuses options that are for other studies.
fn refuse_options_of_others(paper: &Paper, arguments: &arguments::paper::Paper) -> Result<(), Stop> {
    let name = paper.name;
    let change = arguments.changes().words().into_iter().next();
    let (sorting, threads) = (arguments.measured.given(), arguments.threads.given());
    let why = match paper.study {
        Study::Fg(_) => change
            .map(|option| format!("{option} is for simulated papers; {name} is measured on this machine"))
            .or(threads.map(|option| format!("{option} is for threads/... papers; {name} sorts"))),
        Study::Threads(_) => sorting
            .or(change.map(|_| "--scheduler or --waiting"))
            .map(|option| format!("{option} is not for {name}, which measures threads on this machine")),
        Study::Figure(_) | Study::Today | Study::Example => sorting
            .map(|option| format!("{option} is for fg/... papers; {name} is simulated"))
            .or(threads.map(|option| format!("{option} is for threads/... papers; {name} is simulated"))),
    };
    why.map_or(Ok(()), |why| Err(Stop::Input(anyhow!(why))))
}

/// Draws the example of a layout.
fn draw_example(paper: &Paper, arguments: &arguments::paper::Paper) -> Result<(), Stop> {
    if let [option, ..] = arguments.changes().words().as_slice() {
        return Err(Stop::Input(anyhow!("{option}: {} runs no jobs", paper.name)));
    }
    let example = papers::ap::Example::new().ok_or_else(|| Stop::Failed(anyhow!("the example does not fit")))?;
    print_as(
        arguments.format,
        || format!("{}\n\n{}", report::words::wrap(&paper.statement(), report::WIDTH), example.text()),
        &example,
        "the drawing",
    )
}

/// Reads a figure and applies the changes.
fn read_changed(files: FigureFiles, changes: Changes) -> Result<(Scenario, Expected), Stop> {
    let (mut scenario, expected) = read(files)?;
    changes.apply(&mut scenario, &expected);
    match scenario.arms.iter().find_map(|arm| arm.setting.conflicts().into_iter().next()) {
        None => Ok((scenario, expected)),
        Some(conflict) => Err(Stop::Input(anyhow!("{}: {conflict}", changes.words().join(" ")))),
    }
}

/// Prints the scenario: its file if it is unchanged.
fn show(files: FigureFiles, arguments: &arguments::paper::Paper) -> Result<(), Stop> {
    let changes = arguments.changes();
    if changes == Changes::default() {
        return print(files.scenario);
    }
    let (scenario, _) = read_changed(files, changes)?;
    print(&scenario.to_toml())
}

fn run(paper: &Paper, files: FigureFiles, arguments: &arguments::paper::Paper) -> Result<(), Stop> {
    let changes = arguments.changes();
    let (mut scenario, expected) = read_changed(files, changes)?;
    scenario.experiment.repeat = arguments.repeat.unwrap_or(scenario.experiment.repeat);
    scenario.experiment.seed = arguments.seed.unwrap_or(scenario.experiment.seed);
    let file = ScenarioFile::new(files.name, files.scenario.as_bytes(), &scenario);
    let Simulation { finished, mut folder, worlds, signals } = simulate(paper, arguments, &scenario, file)?;
    let FinishedExperiment { report, manifest, mut histories, error, .. } = finished;

    let mut evidence = Evidence::new(&scenario, &report.runs);
    if expected.figure.measure.is_of_patterns() {
        let searched = evidence.with_patterns(&expected.figure.job, arguments.workers, signals.cancel());
        evidence = searched.or_failed()?;
        // After an interruption, the patterns found so far are shown.
        let measure = expected.figure.measure;
        let _ = patterns::show(&mut histories, &evidence, measure, &worlds, signals.cancel());
    }
    let judgement = Judgement::new(paper, &expected, &evidence, &changes, &report);
    let page = papers::figure::page::render(&judgement, &manifest, &histories);
    let text = || text::render(&judgement, &expected, &evidence);
    folder.write_text(folder::PAGE, &page);
    print_as(arguments.format, text, &judgement, "the result")?;
    let written = finish(folder);
    result_of(error, &report, &signals)?;
    written?;
    match judgement.holds {
        // The search for patterns was interrupted.
        _ if !judgement.complete => Err(signals.interruption()),
        Some(false) => {
            Err(anyhow!("not as expected: {} of {} bands", judgement.surprises(), judgement.judged()).into())
        }
        _ => Ok(()),
    }
}

/// A finished simulation, with its surroundings.
struct Simulation {
    finished: FinishedExperiment,
    folder: Folder,
    worlds: TwoWorlds,
    signals: Signals,
}

/// Simulates a scenario and writes the runs into the folder of results.
fn simulate(
    paper: &Paper,
    arguments: &arguments::paper::Paper,
    scenario: &Scenario,
    file: ScenarioFile,
) -> Result<Simulation, Stop> {
    let started = Timestamp::of(SystemTime::now());
    let signals = Signals::catch()?;
    let worlds = TwoWorlds::new(None, arguments.workers);
    let mut folder = arguments.results.open(Path::new(&paper.stem()), started)?;
    let manifest = Manifest { scenario: Some(file), ..Manifest::begin(paper.name, &[World::Sim], started) };
    let finished = run_experiment(scenario.clone(), None, &worlds, &mut folder, manifest, &signals)?;
    Ok(Simulation { finished, folder, worlds, signals })
}

fn read(files: FigureFiles) -> Result<(Scenario, Expected), Stop> {
    Ok((files.scenario().or_failed()?, files.expected().or_failed()?))
}
