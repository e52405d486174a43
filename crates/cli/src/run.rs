//! `rowlock run`: a scenario in one world or both.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, anyhow};
use host::{Host, HostCalibration};
use measure::experiment::{self, Finished};
use measure::folder::{self, Folder};
use measure::manifest::{Ending, Provenance};
use measure::precision::Extent;
use measure::results::{Report, csv, text};
use measure::timestamp::Timestamp;
use measure::two_worlds::{TwoWorlds, needs_host};
use measure::world::{Failure, default_worlds};
use scenario::Scenario;

use crate::arguments::{self, Format};
use crate::output::{print, tell};
use crate::progress::Line;
use crate::signals::Signals;
use crate::stop::Stop;
use crate::trace::Traces;
use crate::{calibrate, check, precision};

/// Runs the scenario and prints its report.
pub(crate) fn run(arguments: &arguments::Run) -> Result<(), Stop> {
    let started = Timestamp::of(SystemTime::now());
    let (mut scenario, content) = check::read(&arguments.file)?;
    replace_keys(&mut scenario, arguments).map_err(Stop::Input)?;
    let until = precision::until(&mut scenario, arguments).map_err(Stop::Input)?;
    let chosen = arguments.world.map_or_else(|| default_worlds(&scenario), arguments::Worlds::list);

    let signals = Signals::catch().context("cannot catch signals").map_err(Stop::Failed)?;
    let calibration = if needs_host(&scenario, chosen) { Some(calibrate::load(false)?) } else { None };
    for note in calibration.iter().flat_map(|calibration| &calibration.notes) {
        tell(format_args!("note: {note}"));
    }
    let worlds = TwoWorlds::new(calibration.clone().map(host).transpose().map_err(Stop::Failed)?, arguments.workers);
    worlds.check(&scenario, chosen).map_err(refused)?;
    let traces = Traces::create(arguments.trace.as_deref(), &scenario, chosen, &worlds)?;
    let path = arguments.out.clone().unwrap_or_else(|| default_folder(&arguments.file, started));
    let mut folder = Folder::create(&path, &scenario).map_err(unwritable)?;

    let provenance = Provenance {
        arguments: std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect(),
        file: arguments.file.display().to_string(),
        content,
        calibration,
        started,
    };
    let line = Line::new(&scenario);
    let progress = &mut |progress: measure::runner::Progress<'_>| line.show(progress);
    let extent = Extent { worlds: chosen, until };
    let finished = experiment::run(scenario, extent, &worlds, &mut folder, provenance, progress, signals.cancel());
    drop(line);
    let Finished { scenario, report, error, .. } = finished.map_err(unwritable)?;

    if !error.as_ref().is_some_and(measure::runner::Error::is_input) {
        print(&rendered(&report, arguments.format)?)?;
    }
    tell_where(&path);
    ended(error, &report, &signals)?;
    traces.make(&scenario, &worlds, &signals)
}

/// Says where the results are.
pub(crate) fn tell_where(path: &Path) {
    tell(format_args!("results are in {}; open {} in a browser", path.display(), path.join(folder::PAGE).display()));
}

/// How the command ends if the experiment ended so.
pub(crate) fn ended(error: Option<measure::runner::Error>, report: &Report, signals: &Signals) -> Result<(), Stop> {
    match (Ending::of(error.as_ref()), error) {
        (Ending::Interrupted, _) => {
            tell(format_args!("interrupted: {} of {} runs were made", report.runs.len(), report.planned_runs));
            Err(Stop::Interrupted(signals.number()))
        }
        (_, Some(error)) if error.is_input() => Err(Stop::Input(error.into())),
        (_, Some(error)) => Err(Stop::Failed(error.into())),
        (_, None) => Ok(()),
    }
}

/// Puts what the command line says in the place of what the scenario says.
fn replace_keys(scenario: &mut Scenario, arguments: &arguments::Run) -> anyhow::Result<()> {
    const MOST_RUNS: u64 = scenario::keys::MOST_RUNS;
    let experiment = &mut scenario.experiment;
    experiment.repeat = arguments.repeat.unwrap_or(experiment.repeat);
    experiment.seed = arguments.seed.unwrap_or(experiment.seed);
    if scenario.arms.len() as u64 * u64::from(experiment.repeat) > MOST_RUNS {
        let (arms, repeat) = (scenario.arms.len(), experiment.repeat);
        return Err(anyhow!(
            "--repeat: {repeat} repetitions of {arms} arms are more than {MOST_RUNS} runs; ask for fewer"
        ));
    }
    let Some(scheduler) = arguments.scheduler() else { return Ok(()) };
    for arm in &mut scenario.arms {
        if arm.factors.iter().any(|(path, _)| path == "machine.scheduler") {
            return Err(anyhow!("--scheduler: the scenario sweeps machine.scheduler itself; leave one of the two out"));
        }
        arm.setting.machine.scheduler = Some(scheduler);
    }
    Ok(())
}

/// This machine as one of the two worlds.
pub(crate) fn host(calibration: HostCalibration) -> anyhow::Result<Host> {
    let program =
        std::env::current_exe().context("cannot find this program's own file, which the jobs' processes need")?;
    Ok(Host { program, calibration })
}

/// A new folder, named for a file and the time.
pub(crate) fn default_folder(file: &Path, started: Timestamp) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let name = format!("{stem}-{}", started.compact());
    // Another run may have begun in the same second.
    let names = std::iter::once(name.clone()).chain((2..1000).map(|number| format!("{name}-{number}")));
    let mut paths = names.map(|name| Path::new("rowlock-out").join(name));
    paths.find(|path| !path.exists()).unwrap_or_else(|| Path::new("rowlock-out").join(name))
}

fn rendered(report: &Report, format: Format) -> Result<String, Stop> {
    let rendered = match format {
        Format::Text => Ok(text::render(report)),
        Format::Json => report::json::render(report),
        Format::Csv => csv::render(report),
    };
    rendered.context("cannot write the report").map_err(Stop::Failed)
}

pub(crate) fn refused(failure: Failure) -> Stop {
    match failure {
        Failure::Input(_) => Stop::Input(failure.into()),
        Failure::Failed(_) | Failure::Cancelled => Stop::Failed(failure.into()),
    }
}

/// What to do about results that cannot be written.
pub(crate) fn unwritable(error: folder::Error) -> Stop {
    if error.is_input() { Stop::Input(error.into()) } else { Stop::Failed(error.into()) }
}
