//! The result folder of a command, and the end of commands that write one.

use std::path::{Path, PathBuf};

use clap::Args;
use measure::experiment::{self, FinishedExperiment};
use measure::folder::{self, Folder};
use measure::manifest::{Ending, Manifest};
use measure::precision::StoppingRule;
use measure::results::ExperimentReport;
use measure::timestamp::Timestamp;
use measure::world::Worlds;
use scenario::Scenario;

use crate::output::print_message;
use crate::progress;
use crate::signals::Signals;
use crate::stop::Stop;

/// The options of every command that writes a result folder.
#[derive(Debug, Args)]
pub(crate) struct Results {
    /// The folder for results; those of an earlier run in it are replaced [default: a new one in
    /// rowlock-out]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Continue the experiment in the folder --out: keep its runs, and make only those that are
    /// missing
    #[arg(long, requires = "out")]
    pub(crate) append: bool,
}

impl Results {
    /// Opens the folder. If the command line names none, creates one named for `stem` and the time.
    pub(crate) fn open(&self, stem: &Path, started: Timestamp) -> Result<Folder, Stop> {
        let path = self.out.clone().unwrap_or_else(|| default_folder(stem, started));
        let mut folder = if self.append { Folder::append(&path) } else { Folder::create(&path) }?;
        folder.announce(|error| {
            print_message(format_args!("{error}; no more results are written, but the report will be printed"));
        });
        Ok(folder)
    }
}

/// A new folder, named for a file and the time.
fn default_folder(file: &Path, started: Timestamp) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let name = format!("{stem}-{}", started.compact());
    // Another run may have started in the same second.
    let names = std::iter::once(name.clone()).chain((2..1000).map(|number| format!("{name}-{number}")));
    let mut paths = names.map(|name| Path::new("rowlock-out").join(name));
    paths.find(|path| !path.exists()).unwrap_or_else(|| Path::new("rowlock-out").join(name))
}

/// Runs an experiment, with a progress bar.
pub(crate) fn run_experiment(
    scenario: Scenario,
    until: Option<StoppingRule>,
    worlds: &impl Worlds,
    folder: &mut Folder,
    manifest: Manifest,
    signals: &Signals,
) -> Result<FinishedExperiment, Stop> {
    let mut progress = progress::of_experiment(&scenario);
    Ok(experiment::run(scenario, until, worlds, folder, manifest, &mut progress, signals.cancel())?)
}

/// Reports where the results are, unless they could not be written.
pub(crate) fn finish(folder: Folder) -> Result<(), Stop> {
    let path = folder.path().to_owned();
    folder.finish()?;
    let page = path.join(folder::PAGE);
    let hint = if page.exists() { format!("; open {} in a browser", page.display()) } else { String::new() };
    print_message(format_args!("results are in {}{hint}", path.display()));
    Ok(())
}

/// The result of the command after an experiment.
pub(crate) fn result_of(
    error: Option<measure::runner::RunnerError>,
    report: &ExperimentReport,
    signals: &Signals,
) -> Result<(), Stop> {
    match (Ending::of(error.as_ref()), error) {
        (Ending::Interrupted, _) => {
            let ended = Err(signals.interruption());
            print_if_interrupted(&ended, report.runs.len() as u64, report.planned_runs);
            ended
        }
        (_, Some(error)) if error.is_input() => Err(Stop::Input(error.into())),
        (_, Some(error)) => Err(Stop::Failed(error.into())),
        (_, None) => Ok(()),
    }
}

/// Reports how many runs were made if a signal requested the end.
pub(crate) fn print_if_interrupted(ended: &Result<(), Stop>, made: u64, planned: u64) {
    if let Err(Stop::Interrupted(_)) = ended {
        print_message(format_args!("interrupted: {made} of {planned} runs were made"));
    }
}
