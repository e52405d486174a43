//! `rowlock paper barrier/today`: many schedulers, machines and loads, and the conclusions.

use std::path::Path;
use std::time::SystemTime;

use anyhow::anyhow;
use measure::folder::{Folder, MANIFEST, PAGE, REPORT};
use measure::manifest::{Ending, Manifest};
use measure::timestamp::Timestamp;
use measure::two_worlds::TwoWorlds;
use measure::workers;
use papers::Paper;
use papers::today::cell::Cell;
use papers::today::conclusions::{Conclusions, GridReport};
use papers::today::grid::{Extent, Grid};
use papers::today::runs::{Plan, REPEAT, REPEAT_UNDECIDED, Run, Runs, Step};
use papers::today::{plot, text};
use policy::waiting::WaitingRule;
use scenario::result::World;

use crate::arguments::paper::Paper as Arguments;
use crate::output::{print, print_as};
use crate::progress;
use crate::results::{finish, print_if_interrupted};
use crate::signals::Signals;
use crate::stop::Stop;

/// Runs a grid and prints the conclusions.
pub(super) fn run(paper: &Paper, arguments: &Arguments) -> Result<(), Stop> {
    let name = paper.name;
    if let [option, ..] = arguments.changes().words().as_slice() {
        return Err(Stop::Input(anyhow!("{option}: {name} runs the schedulers and rules that it is about")));
    }
    let extent = arguments.today.grid.unwrap_or(Extent::Sample);
    let plan = plan(arguments, extent)?;
    if arguments.scenario {
        return show(&plan, name);
    }
    let started = Timestamp::of(SystemTime::now());
    let signals = Signals::catch()?;
    let mut folder = arguments.results.open(Path::new(&paper.stem()), started)?;
    let earlier: Vec<Run> = folder.earlier()?;
    folder.keep_rows(&earlier);
    let mut runs: Runs = earlier.into_iter().collect();
    let mut manifest = Manifest::begin(name, &[World::Sim], started);
    (manifest.repeat, manifest.seed) = (plan.repeat, plan.seed);
    folder.check(&manifest)?;
    folder.write(MANIFEST, &manifest);
    let simulated = simulate(&plan, arguments, &signals, &mut folder, &mut runs);
    (manifest.ending, manifest.error) = simulated.as_ref().map_or_else(Stop::ending, |()| (Ending::Complete, None));
    manifest.runs = runs.len() as u64;
    manifest.planned_runs = manifest.runs + plan.missing(&runs).len() as u64;
    let report = GridReport {
        paper,
        complete: simulated.is_ok(),
        runs: runs.len(),
        planned_runs: manifest.planned_runs,
        grids: conclusions(&plan, extent, &runs),
    };
    folder.write(REPORT, &report);
    report.grids.last().iter().for_each(|grid| folder.write_text(plot::FILE, &plot::render(grid)));
    folder.write_text(PAGE, &plot::html(&report));
    folder.write(MANIFEST, &manifest);
    print_as(arguments.format, || text::render(&report), &report, "the result")?;
    let written = finish(folder);
    print_if_interrupted(&simulated, manifest.runs, manifest.planned_runs);
    simulated.and(written)
}

/// Prints a cell as a scenario.
fn show(plan: &Plan, name: &str) -> Result<(), Stop> {
    match plan.first_of_one_cell() {
        Some(step) => print(&step.scenario().to_toml()),
        None => Err(Stop::Input(anyhow!("--scenario: {name} has a scenario for each cell; choose one by --cell N"))),
    }
}

/// The cells, rules and repetitions that the command line asks for.
fn plan(arguments: &Arguments, extent: Extent) -> Result<Plan, Stop> {
    let mut cells = if arguments.today.cell.is_empty() { extent.cells() } else { extent.grid().cells() };
    if let Some(none) = arguments.today.cell.iter().find(|number| **number as usize > cells.len()) {
        return Err(Stop::Input(anyhow!("--cell {none}: the grid has {} cells", cells.len())));
    }
    cells.retain(|cell| arguments.today.cell.is_empty() || arguments.today.cell.contains(&cell.number));
    let rules = match arguments.today.rule.as_slice() {
        [] => vec![WaitingRule::Adaptive],
        rules => rules.to_vec(),
    };
    let repeat = arguments.repeat.unwrap_or(REPEAT);
    let repeat_undecided = arguments.repeat.unwrap_or(REPEAT_UNDECIDED);
    Ok(Plan { cells, rules, repeat, repeat_undecided, seed: arguments.seed.unwrap_or(1) })
}

/// Makes all missing runs. Some cells at a time are completed before the next ones, so that an
/// interrupted command has results.
fn simulate(
    plan: &Plan,
    arguments: &Arguments,
    signals: &Signals,
    folder: &mut Folder,
    runs: &mut Runs,
) -> Result<(), Stop> {
    /// So many for each worker that the others seldom wait for the last one.
    const CELLS: usize = 8;
    let worlds = TwoWorlds::new(None, arguments.workers);
    let bar = progress::bar(Some(plan.cells.len() as u64));
    for cells in plan.cells.chunks(CELLS.saturating_mul(arguments.workers.get())) {
        let plan = Plan { cells: cells.to_vec(), ..plan.clone() };
        loop {
            let missing = plan.missing(runs);
            if missing.is_empty() {
                break;
            }
            bar.set_message(format!("{} runs of {} cells", missing.len(), cells.len()));
            let work = |step: Step<'_>| step.make(&worlds, signals.cancel());
            workers::in_order(missing.into_iter(), arguments.workers, work, |results| {
                for run in results {
                    let run = run.map_err(|why| signals.stop_for(why))?;
                    folder.keep(&run, [&run]);
                    runs.insert(run);
                }
                Ok::<(), Stop>(())
            })?;
        }
        bar.inc(cells.len() as u64);
    }
    Ok(())
}

/// The conclusions from the planned cells, and from those of the other grid that the folder has.
fn conclusions(plan: &Plan, extent: Extent, runs: &Runs) -> Vec<Conclusions> {
    let of_grid = |grid: Grid| {
        let is_there = |cell: &Cell| runs.iter().any(|run| run.grid == grid && run.cell == cell.number);
        let cells = match grid == extent.grid() {
            true => plan.cells.clone(),
            false => grid.cells().into_iter().filter(is_there).collect(),
        };
        Conclusions::new(grid, &Plan { cells, ..plan.clone() }, runs)
    };
    let has_cells = |conclusions: &Conclusions| conclusions.cells.len() + conclusions.incomplete > 0;
    Grid::ALL.map(of_grid).into_iter().filter(has_cells).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::tests::assert_documented;
    use papers::today::runs::{FIXED, OF_COPY};

    #[test]
    fn all_fields_of_the_conclusions_are_documented() {
        let cells = Extent::Sample.cells().into_iter().take(1).collect();
        let plan = Plan { cells, rules: vec![WaitingRule::Adaptive], repeat: 10, repeat_undecided: 10, seed: 1 };
        // Half of the runs are in each of two states.
        let mut runs = Runs::default();
        for rule in FIXED.iter().chain(&plan.rules) {
            for repeat in (0..10).chain(OF_COPY..OF_COPY + 10) {
                let seconds = f64::from(1 + repeat % 2);
                let (rule, worst_seconds) = (rule.to_string(), seconds);
                let (grid, cell, is_cut_off) = (Grid::First, 1, false);
                runs.insert(Run { grid, cell, rule, repeat, seconds, worst_seconds, is_cut_off, events: 1 });
            }
        }
        let paper = Paper::named("barrier/today").unwrap();
        let grids = conclusions(&plan, Extent::Sample, &runs);
        let report = GridReport { paper, complete: true, runs: runs.len(), planned_runs: 1, grids };
        let json = report::json::render(&report).unwrap();
        assert_documented(&serde_json::from_str(&json).unwrap(), "\n## `rowlock paper barrier/today --format json`\n");
    }
}
