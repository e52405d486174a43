//! A whole experiment: measure the commands, plan, run, analyse, and write the results.

use std::sync::atomic::AtomicBool;

use scenario::Scenario;
use scenario::result::World;

use crate::folder::{self, Folder, FolderError};
use crate::manifest::{Ending, Manifest};
use crate::plan::Plan;
use crate::precision::StoppingRule;
use crate::recorder::Recorder;
use crate::results::{ExperimentReport, html};
use crate::runner::{Progress, RunnerError, measure, measure_commands};
use crate::sample::{self, History};
use crate::series::AllSeries;
use crate::world::Worlds;

/// An experiment that has ended.
#[derive(Debug)]
pub struct FinishedExperiment {
    /// The scenario, with the CPU times of commands that were measured for the simulator.
    pub scenario: Scenario,
    /// The report on all runs that were made.
    pub report: ExperimentReport,
    /// The manifest, as in the folder.
    pub manifest: Manifest,
    /// The states of the threads in some runs of this command.
    pub histories: Vec<History>,
    /// Why it ended early, if it did.
    pub error: Option<RunnerError>,
}

/// Runs an experiment in the worlds of the manifest: the repetitions of the scenario, and then more
/// if the stopping rule `until` asks for them. Blocks until it is complete, until its first
/// failure, or until soon after `cancel` has become true. The folder has each sample as soon as it
/// exists, and finally the report, its page and the manifest. `progress` is told what comes next.
///
/// # Errors
///
/// [`FolderError`]: the folder has another experiment. Failures of runs are in
/// [`FinishedExperiment::error`]; the folder keeps its own until [`Folder::finish`].
pub fn run(
    mut scenario: Scenario,
    until: Option<StoppingRule>,
    worlds: &impl Worlds,
    folder: &mut Folder,
    mut manifest: Manifest,
    progress: &mut dyn FnMut(Progress<'_>),
    cancel: &AtomicBool,
) -> Result<FinishedExperiment, FolderError> {
    let chosen = manifest.worlds.clone();
    let mut plan = Plan::new(&scenario, &chosen);
    let first_stage = scenario.experiment.repeat;
    manifest.seed = scenario.experiment.seed;
    (manifest.planned_runs, manifest.repeat) = (plan.runs(), first_stage);
    folder.check(&manifest)?;
    let mut recorder = Recorder::new(folder, &scenario)?;
    recorder.folder.write(folder::MANIFEST, &manifest);

    // The host runs the commands themselves; only the simulator needs to know how long they take.
    let simulated = chosen.contains(&World::Sim);
    let stand_ins = if simulated { measure_commands(&mut scenario, worlds, progress, cancel) } else { Ok(Vec::new()) };
    let (stand_ins, mut error) = match stand_ins {
        Ok(stand_ins) => (stand_ins, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let mut samples = Vec::new();
    while error.is_none() {
        let more = measure(&scenario, &plan, worlds, &mut recorder, progress, cancel);
        samples.extend(more.0);
        error = more.1;
        let wanted = until.filter(|_| error.is_none()).and_then(|until| {
            let all = AllSeries::collect(&scenario, &samples, first_stage);
            until.wanted(&all, scenario.experiment.repeat)
        });
        let Some(wanted) = wanted else { break };
        plan = plan.extend(wanted);
        scenario.experiment.repeat = wanted;
        (manifest.planned_runs, manifest.repeat) = (plan.runs(), wanted);
        recorder.folder.write(folder::MANIFEST, &manifest);
    }
    let histories = sample::histories(&mut samples);
    let stages = until.map(|until| (until, first_stage));
    let report = ExperimentReport::new(&scenario, &chosen, plan.runs(), samples, &stand_ins, stages);

    (manifest.ending, manifest.runs) = (Ending::of(error.as_ref()), report.runs.len() as u64);
    manifest.error = error.as_ref().map(RunnerError::to_string);
    let folder = recorder.folder;
    folder.write(folder::REPORT, &report);
    folder.write_text(folder::PAGE, &html::render(None, &report, &manifest, &histories));
    folder.write(folder::MANIFEST, &manifest);
    Ok(FinishedExperiment { scenario, report, manifest, histories, error })
}
