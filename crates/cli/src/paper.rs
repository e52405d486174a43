//! `rowlock paper`: runs a figure of a paper and compares it with the paper.

mod fg;
mod on_host;
mod starts;
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
use crate::output::{print, print_as, print_notes};
use crate::paper::starts::Starts;
use crate::results::{finish, result_of, run_experiment};
use crate::signals::Signals;
use crate::stop::{OrStop, Stop};
use crate::{calibrate, run};

/// Runs a paper and prints how close the result is, or lists all papers.
pub(crate) fn paper(arguments: &arguments::paper::Paper) -> Result<(), Stop> {
    let Some(name) = &arguments.name else {
        return print(&papers::list().map_err(|diagnostics| Stop::Failed(anyhow!("{diagnostics}")))?);
    };
    let paper = Paper::named(name).ok_or_else(|| Stop::Input(anyhow!("there is no paper `{name}`")))?;
    refuse_options_of_others(paper, arguments)?;
    match paper.study {
        Study::Figure(_) if arguments.world() == World::Host => on_host::run(paper, arguments),
        Study::Figure(files) if arguments.scenario => show(files, arguments),
        Study::Figure(files) => simulated(paper, files, arguments),
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
    let today = arguments.today.given().filter(|_| paper.study != Study::Today);
    if let Some(option) = today {
        return Err(Stop::Input(anyhow!("{option} is for barrier/today, not for {name}")));
    }
    let why = match paper.study {
        Study::Fg(_) => change
            .map(|option| format!("{option} is for simulated papers; {name} is measured on this machine"))
            .or(threads.map(|option| format!("{option} is for threads/... papers; {name} sorts"))),
        Study::Threads(_) => sorting
            .or(change.map(|_| "--scheduler, --waiting or --world"))
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

fn simulated(paper: &Paper, files: FigureFiles, arguments: &arguments::paper::Paper) -> Result<(), Stop> {
    let (scenario, expected) = read_changed(files, arguments.changes())?;
    judge(paper, arguments, Figure { scenario, expected, name: files.name, text: files.scenario, is_of_starts: false })
}

/// A figure to run.
struct Figure<'a> {
    scenario: Scenario,
    expected: Expected,
    /// The name of the scenario's file, and its text without the changes of the command line.
    name: &'a str,
    text: &'a str,
    /// Whether its jobs are started by `rowlock prun`.
    is_of_starts: bool,
}

/// Runs a figure and judges it.
fn judge(paper: &Paper, arguments: &arguments::paper::Paper, figure: Figure<'_>) -> Result<(), Stop> {
    let Figure { mut scenario, expected, name, text, is_of_starts } = figure;
    let changes = arguments.changes();
    scenario.experiment.repeat = arguments.repeat.unwrap_or(scenario.experiment.repeat);
    scenario.experiment.seed = arguments.seed.unwrap_or(scenario.experiment.seed);
    let file = ScenarioFile::new(name, text.as_bytes(), &scenario);
    let Execution { finished, mut folder, worlds, signals } = execute(paper, arguments, &scenario, file, is_of_starts)?;
    let FinishedExperiment { report, manifest, mut histories, error, .. } = finished;

    let mut evidence = Evidence::new(&scenario, &report.runs);
    if expected.figure.measure.is_of_patterns() {
        let searched = evidence.with_patterns(&expected.figure.job, arguments.workers, signals.cancel());
        evidence = searched.or_failed()?;
        // After an interruption, the patterns found so far are shown.
        let measure = expected.figure.measure;
        let _ = worlds.map(|worlds| patterns::show(&mut histories, &evidence, measure, &worlds, signals.cancel()));
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

/// A finished simulation, or measurement, with its surroundings.
struct Execution {
    finished: FinishedExperiment,
    folder: Folder,
    /// `None` if jobs were only started.
    worlds: Option<TwoWorlds>,
    signals: Signals,
}

/// Simulates a scenario, measures it on this machine, or starts its jobs there by `rowlock prun`.
/// Writes the runs into the folder of results.
fn execute(
    paper: &Paper,
    arguments: &arguments::paper::Paper,
    scenario: &Scenario,
    file: ScenarioFile,
    is_of_starts: bool,
) -> Result<Execution, Stop> {
    let started = Timestamp::of(SystemTime::now());
    let signals = Signals::catch()?;
    let chosen = &[arguments.world()];
    let is_calibrated = arguments.world() == World::Host && !is_of_starts;
    let calibration = is_calibrated.then(|| calibrate::load(false)).transpose()?;
    print_notes(calibration.as_ref().map_or(&[], |calibration| &calibration.notes));
    let host = calibration.clone().map(run::host).transpose()?;
    let worlds = (!is_of_starts).then(|| TwoWorlds::new(host, arguments.workers));
    worlds.iter().try_for_each(|worlds| worlds.check(scenario, chosen))?;
    let mut folder = arguments.results.open(Path::new(&paper.stem()), started)?;
    let manifest = Manifest { scenario: Some(file), calibration, ..Manifest::begin(paper.name, chosen, started) };
    let finished = match &worlds {
        Some(worlds) => run_experiment(scenario.clone(), None, worlds, &mut folder, manifest, &signals)?,
        None => run_experiment(scenario.clone(), None, &Starts::by_this_program()?, &mut folder, manifest, &signals)?,
    };
    Ok(Execution { finished, folder, worlds, signals })
}

fn read(files: FigureFiles) -> Result<(Scenario, Expected), Stop> {
    Ok((files.scenario().or_failed()?, files.expected().or_failed()?))
}
