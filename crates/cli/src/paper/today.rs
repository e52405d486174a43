//! `rowlock paper barrier/today`: many schedulers, machines and loads, and the conclusions.

mod on_host;

use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, anyhow};
use measure::folder::{Folder, MANIFEST, PAGE, REPORT};
use measure::manifest::{Ending, Manifest};
use measure::timestamp::Timestamp;
use measure::two_worlds::TwoWorlds;
use measure::workers;
use papers::Paper;
use papers::today::cell::Cell;
use papers::today::conclusions::{Conclusions, GridReport};
use papers::today::grid::{Extent, Grid};
use papers::today::on_host::Measured;
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
    let changed = arguments.scheduler.map(|_| "--scheduler").or(arguments.waiting.map(|_| "--waiting"));
    if let Some(option) = changed {
        return Err(Stop::Input(anyhow!("{option}: {name} runs the schedulers and rules that it is about")));
    }
    match arguments.world() {
        World::Sim => simulated(paper, arguments),
        World::Host => on_host::run(paper, arguments),
    }
}

fn simulated(paper: &Paper, arguments: &Arguments) -> Result<(), Stop> {
    let extent = arguments.today.grid.unwrap_or(Extent::Sample);
    let cells = if arguments.today.cell.is_empty() { extent.cells() } else { extent.grid().cells() };
    let plan = Plan {
        cells: chosen(cells, arguments)?,
        rules: rules(arguments),
        repeat: arguments.repeat.unwrap_or(REPEAT),
        repeat_undecided: arguments.repeat.unwrap_or(REPEAT_UNDECIDED),
        seed: seed(arguments),
    };
    if arguments.scenario {
        return show(&plan, paper.name);
    }
    let signals = Signals::catch()?;
    let mut study = Study::open(paper, arguments)?;
    study.begin(&plan);
    let made = simulate(&plan, arguments, &signals, &mut study);
    let grids = conclusions(&plan, extent, &study.runs);
    let report = study.report(paper, &plan, &made, None, grids);
    study.conclude(arguments, &report, made)
}

/// Prints a cell as a scenario.
fn show(plan: &Plan, name: &str) -> Result<(), Stop> {
    match plan.first_of_one_cell() {
        Some(step) => print(&step.scenario().to_toml()),
        None => Err(Stop::Input(anyhow!("--scenario: {name} has a scenario for each cell; choose one by --cell N"))),
    }
}

/// The cells that the command line asks for.
fn chosen(mut cells: Vec<Cell>, arguments: &Arguments) -> Result<Vec<Cell>, Stop> {
    check_numbers(arguments, cells.len())?;
    let numbers = &arguments.today.cell;
    cells.retain(|cell| numbers.is_empty() || numbers.contains(&cell.number));
    Ok(cells)
}

/// Refuses the number of a cell that there is not.
fn check_numbers(arguments: &Arguments, cells: usize) -> Result<(), Stop> {
    let none = arguments.today.cell.iter().find(|number| **number as usize > cells);
    none.map_or(Ok(()), |none| Err(Stop::Input(anyhow!("--cell {none}: the grid has {cells} cells"))))
}

/// The rules that the command line asks for, beside the fixed ones.
fn rules(arguments: &Arguments) -> Vec<WaitingRule> {
    match arguments.today.rule.as_slice() {
        [] => vec![WaitingRule::Adaptive],
        rules => rules.to_vec(),
    }
}

fn seed(arguments: &Arguments) -> u64 {
    arguments.seed.unwrap_or(1)
}

/// The results of a grid, in either world.
struct Study {
    folder: Folder,
    runs: Runs,
    manifest: Manifest,
}

impl Study {
    /// Opens the folder, with the runs that an earlier command made, unless they are not counted
    /// with those to come.
    fn open(paper: &Paper, arguments: &Arguments) -> Result<Study, Stop> {
        let started = Timestamp::of(SystemTime::now());
        let mut folder = arguments.results.open(Path::new(&paper.stem()), started)?;
        let earlier: Vec<Run> = folder.earlier()?;
        folder.keep_rows(&earlier);
        let mut manifest = Manifest::begin(paper.name, &[arguments.world()], started);
        manifest.identify_program().context("cannot read this program's own file")?;
        manifest.seed = seed(arguments);
        folder.check(&manifest)?;
        Ok(Study { folder, runs: earlier.into_iter().collect(), manifest })
    }

    /// Begins to make the runs of a plan.
    fn begin(&mut self, plan: &Plan) {
        self.manifest.repeat = plan.repeat;
        self.folder.write(MANIFEST, &self.manifest);
    }

    /// Adds a run.
    fn keep(&mut self, run: Run) {
        self.folder.keep(&run, [&run]);
        self.runs.insert(run);
    }

    /// The report, after all runs were `made`, or some.
    fn report<'a>(
        &mut self,
        paper: &'a Paper,
        plan: &Plan,
        made: &Result<(), Stop>,
        host: Option<Measured>,
        grids: Vec<Conclusions>,
    ) -> GridReport<'a> {
        let manifest = &mut self.manifest;
        (manifest.ending, manifest.error) = made.as_ref().map_or_else(Stop::ending, |()| (Ending::Complete, None));
        manifest.runs = self.runs.len() as u64;
        manifest.planned_runs = manifest.runs + plan.missing(&self.runs).len() as u64;
        let (runs, planned_runs) = (self.runs.len(), manifest.planned_runs);
        GridReport { paper, complete: made.is_ok(), runs, planned_runs, host, grids }
    }

    /// Writes and prints the report, and returns the result of the command.
    fn conclude(self, arguments: &Arguments, report: &GridReport<'_>, made: Result<(), Stop>) -> Result<(), Stop> {
        let Study { mut folder, manifest, .. } = self;
        folder.write(REPORT, report);
        report.grids.last().iter().for_each(|grid| folder.write_text(plot::FILE, &plot::render(grid)));
        folder.write_text(PAGE, &plot::html(report));
        folder.write(MANIFEST, &manifest);
        print_as(arguments.format, || text::render(report), report, "the result")?;
        let written = finish(folder);
        print_if_interrupted(&made, manifest.runs, manifest.planned_runs);
        made.and(written)
    }
}

/// Makes all missing runs. Some cells at a time are completed before the next ones, so that an
/// interrupted command has results.
fn simulate(plan: &Plan, arguments: &Arguments, signals: &Signals, study: &mut Study) -> Result<(), Stop> {
    /// So many for each worker that the others seldom wait for the last one.
    const CELLS: usize = 8;
    let worlds = TwoWorlds::new(None, arguments.workers);
    let bar = progress::bar(Some(plan.cells.len() as u64));
    for cells in plan.cells.chunks(CELLS.saturating_mul(arguments.workers.get())) {
        let plan = Plan { cells: cells.to_vec(), ..plan.clone() };
        loop {
            let missing = plan.missing(&study.runs);
            if missing.is_empty() {
                break;
            }
            bar.set_message(format!("{} runs of {} cells", missing.len(), cells.len()));
            let work = |step: Step<'_>| step.make(&worlds, signals.cancel());
            workers::in_order(missing.into_iter(), arguments.workers, work, |results| {
                for run in results {
                    study.keep(run.map_err(|why| signals.stop_for(why))?);
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
    Grid::SIMULATED.map(of_grid).into_iter().filter(has_cells).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::tests::assert_documented;
    use host::{HostCalibration, Machine};
    use papers::today::runs::OF_COPY;

    /// A plan of one cell, and runs of which half are in each of two states.
    pub(super) fn with_runs(cell: Cell) -> (Plan, Runs) {
        let (grid, number) = (cell.grid, cell.number);
        let plan =
            Plan { cells: vec![cell], rules: vec![WaitingRule::Adaptive], repeat: 10, repeat_undecided: 10, seed: 1 };
        let mut runs = Runs::default();
        for rule in plan.all_rules() {
            for repeat in (0..10).chain(OF_COPY..OF_COPY + 10) {
                let seconds = f64::from(1 + repeat % 2);
                let (rule, worst_seconds, others_percent) = (rule.to_string(), seconds, Some(0.5));
                let (cell, is_cut_off) = (number, false);
                runs.insert(Run {
                    grid,
                    cell,
                    rule,
                    repeat,
                    seconds,
                    worst_seconds,
                    is_cut_off,
                    events: 1,
                    others_percent,
                });
            }
        }
        (plan, runs)
    }

    /// Invented costs of this machine.
    pub(super) fn calibration() -> HostCalibration {
        HostCalibration::invented(Machine::current().unwrap())
    }

    #[test]
    fn all_fields_of_the_conclusions_are_documented() {
        let (plan, runs) = with_runs(Extent::Sample.cells().remove(0));
        let paper = Paper::named("barrier/today").unwrap();
        let grids = conclusions(&plan, Extent::Sample, &runs);
        let host = Some(Measured::new(&calibration(), &runs));
        let report = GridReport { paper, complete: true, runs: runs.len(), planned_runs: 1, host, grids };
        let json = report::json::render(&report).unwrap();
        assert_documented(&serde_json::from_str(&json).unwrap(), "\n## `rowlock paper barrier/today --format json`\n");
    }
}
