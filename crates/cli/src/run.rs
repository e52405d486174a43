//! `rowlock run`: runs a scenario in the simulator, on the host, or both.

use std::time::SystemTime;

use anyhow::{Context, anyhow};
use host::{Host, HostCalibration};
use measure::experiment::FinishedExperiment;
use measure::manifest::{Manifest, ScenarioFile};
use measure::results::{ExperimentReport, csv, text};
use measure::timestamp::Timestamp;
use measure::two_worlds::{TwoWorlds, needs_host};
use measure::world::{default_worlds, why_not_here};
use scenario::Scenario;

use crate::arguments::{self, Format};
use crate::output::{json, print, print_notes};
use crate::results::{finish, result_of, run_experiment};
use crate::signals::Signals;
use crate::stop::{OrStop, Stop};
use crate::trace::Traces;
use crate::{calibrate, check, precision};

/// Runs the scenario and prints its report.
pub(crate) fn run(arguments: &arguments::Run) -> Result<(), Stop> {
    let started = Timestamp::of(SystemTime::now());
    let (mut scenario, content) = check::read(&arguments.file)?;
    apply_arguments(&mut scenario, arguments).or_input()?;
    let until = precision::until(&mut scenario, arguments).or_input()?;
    let chosen = arguments.world.map_or_else(|| default_worlds(&scenario), arguments::Worlds::list);
    if arguments.world.is_none() {
        print_notes(why_not_here(&scenario).as_slice());
    }

    let signals = Signals::catch()?;
    let calibration = if needs_host(&scenario, chosen) { Some(calibrate::load(false)?) } else { None };
    print_notes(calibration.as_ref().map_or(&[], |calibration| &calibration.notes));
    let worlds = TwoWorlds::new(calibration.clone().map(host).transpose()?, arguments.workers);
    worlds.check(&scenario, chosen)?;
    let traces = Traces::create(arguments.trace.as_deref(), &scenario, chosen, &worlds)?;
    let mut folder = arguments.results.open(&arguments.file, started)?;

    let scenario_file = ScenarioFile::new(&arguments.file.display().to_string(), &content, &scenario);
    let manifest = Manifest { scenario: Some(scenario_file), calibration, ..Manifest::begin("run", chosen, started) };
    let finished = run_experiment(scenario, until, &worlds, &mut folder, manifest, &signals)?;
    let FinishedExperiment { scenario, report, error, .. } = finished;

    if !error.as_ref().is_some_and(measure::runner::RunnerError::is_input) {
        print(&rendered(&report, arguments.format)?)?;
    }
    let written = finish(folder);
    result_of(error, &report, &signals)?;
    traces.record(&scenario, &worlds, &signals)?;
    written
}

/// Applies the command line to the scenario.
fn apply_arguments(scenario: &mut Scenario, arguments: &arguments::Run) -> anyhow::Result<()> {
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
    let Some(scheduler) = arguments.scheduler else { return Ok(()) };
    for arm in &mut scenario.arms {
        if arm.factors.iter().any(|(path, _)| path == "machine.scheduler") {
            return Err(anyhow!("--scheduler: the scenario sweeps machine.scheduler itself; leave one of the two out"));
        }
        arm.setting.machine.scheduler = Some(scheduler);
        if let Some(conflict) = arm.setting.conflicts().first() {
            return Err(anyhow!("--scheduler: {conflict}"));
        }
    }
    Ok(())
}

/// This machine as the host.
pub(crate) fn host(calibration: HostCalibration) -> anyhow::Result<Host> {
    let program =
        std::env::current_exe().context("cannot find this program's own file, which the jobs' processes need")?;
    Ok(Host { program, calibration })
}

fn rendered(report: &ExperimentReport, format: Format) -> anyhow::Result<String> {
    match format {
        Format::Text => Ok(text::render(report)),
        Format::Json => json(report, "the report"),
        Format::Csv => csv::render(report).context("cannot write the report"),
    }
}
