//! `rowlock paper barrier/today`: many schedulers, machines and loads, and the conclusions.

use anyhow::anyhow;
use measure::experiment::FinishedExperiment;
use measure::folder::PAGE;
use measure::manifest::ScenarioFile;
use papers::Paper;
use papers::today::conclusions::Conclusions;
use papers::today::{grid, plot, text};

use super::{Execution, execute};
use crate::arguments;
use crate::output::print_as;
use crate::results::{finish, result_of};
use crate::stop::{OrStop, Stop};

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
    let scenario = grid::scenario(arguments.repeat.unwrap_or(grid::REPEAT), arguments.seed.unwrap_or(1));
    let scenario = scenario.or_failed()?;
    let file = ScenarioFile::new(name, &[], &scenario);
    let Execution { finished, mut folder, signals, .. } = execute(paper, arguments, &scenario, file, false)?;
    let FinishedExperiment { report, manifest, histories, error, .. } = finished;
    let conclusions = Conclusions::new(name, &report);
    folder.write_text(plot::FILE, &plot::render(&conclusions.speeds));
    folder.write_text(PAGE, &plot::page(&conclusions, &manifest, &histories));
    print_as(arguments.format, || text::render(paper, &conclusions), &conclusions, "the result")?;
    let written = finish(folder);
    result_of(error, &report, &signals)?;
    written
}
