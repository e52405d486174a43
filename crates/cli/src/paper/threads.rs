//! `rowlock paper threads/...`: a study of user-level threads, measured again on this machine.

pub(crate) mod child;

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, anyhow};
use measure::timestamp::Timestamp;
use measure::two_worlds::TwoWorlds;
use measure::world::Failure;
use papers::threads::arms::Arm;
use papers::threads::order::{Order, Program};
use papers::threads::page;
use papers::threads::report::{Report, Settings};
use papers::threads::runs::{self, Cell, Observation};
use papers::threads::{Experiment, simulated, text, work};
use report::json;

use self::child::Children;
use crate::arguments::TextOrJson;
use crate::arguments::paper::Paper;
use crate::output::{print, tell};
use crate::progress;
use crate::run::default_folder;
use crate::signals::Signals;
use crate::stop::Stop;

/// The files of the folder of results.
const RUNS: &str = "runs.csv";
const REPORT: &str = "report.json";
const PAGE: &str = "report.html";

/// Runs an experiment and prints what came out.
pub(super) fn run(experiment: &Experiment, arguments: &Paper) -> Result<(), Stop> {
    if arguments.scenario {
        return Err(Stop::Input(anyhow!("--scenario: {} is measured, and no scenario", experiment.name)));
    }
    if !arguments.threads.fibers.is_empty() && experiment.threads().is_empty() {
        return Err(Stop::Input(anyhow!(
            "--fibers is for the study's program; those of {} have their own number",
            experiment.name
        )));
    }
    let started = Timestamp::of(SystemTime::now());
    let signals = Signals::catch().context("cannot catch signals").map_err(Stop::Failed)?;
    let path = arguments.out.clone().unwrap_or_else(|| default_folder(Path::new(&experiment.stem()), started));
    fs::create_dir_all(&path)
        .with_context(|| format!("cannot make the folder {}", path.display()))
        .map_err(Stop::Failed)?;
    let settings = settings(experiment, arguments)?;
    let (cells, mut notes) = cells(experiment, &settings.threads, settings.preemptible, kernel_threads());
    let mut observations = Vec::new();
    let measured = measure(&settings, &cells, &signals, &mut observations, &mut notes);
    let mut report = Report::new(experiment, settings, &observations, measured.is_ok(), notes);
    let simulated = measured.and_then(|()| simulate(experiment, &mut report, arguments, &path, &signals));
    report.complete = simulated.is_ok();
    write(&path, &report, &observations)
        .with_context(|| format!("cannot write into {}", path.display()))
        .map_err(Stop::Failed)?;
    print(&match arguments.format {
        TextOrJson::Text => text::render(&report),
        TextOrJson::Json => json::render(&report).context("cannot write the report").map_err(Stop::Failed)?,
    })?;
    tell(format_args!("results are in {}", path.display()));
    simulated
}

/// Lets the simulator do the same.
fn simulate(
    experiment: &Experiment,
    report: &mut Report,
    arguments: &Paper,
    folder: &Path,
    signals: &Signals,
) -> Result<(), Stop> {
    let worlds = TwoWorlds::new(None, arguments.workers);
    let simulated = simulated::simulate(
        experiment,
        &report.settings.threads,
        report.settings.preemptible,
        &worlds,
        signals.cancel(),
    );
    let (rows, scenarios) = simulated.map_err(|why| match why {
        Failure::Cancelled => Stop::Interrupted(signals.number()),
        why => crate::run::refused(why),
    })?;
    report.simulated = rows;
    let keep = |scenario: &simulated::ScenarioFile| fs::write(folder.join(&scenario.file), &scenario.text);
    let kept = scenarios.iter().try_for_each(keep);
    kept.with_context(|| format!("cannot write into {}", folder.display())).map_err(Stop::Failed)
}

fn settings(experiment: &Experiment, arguments: &Paper) -> Result<Settings, Stop> {
    let mut threads = arguments.threads.fibers.clone();
    threads.sort_unstable();
    threads.dedup();
    let has_work = experiment.programs().iter().any(|program| *program != Program::Study);
    Ok(Settings {
        rowlock_version: env!("CARGO_PKG_VERSION").to_owned(),
        machine: host::Machine::current().map_err(|why| Stop::Failed(why.into()))?,
        threads: if threads.is_empty() { experiment.threads() } else { threads },
        preemptible: arguments.threads.preemptive,
        repeat: arguments.repeat.unwrap_or(experiment.repeat),
        seed: arguments.seed.unwrap_or(1),
        rounds_per_us: has_work.then(work::rounds_per_us),
    })
}

/// The cells of each round, and notes on those that are left out because the kernel has room for
/// no more than `limit` threads.
fn cells(experiment: &Experiment, threads: &[u32], preemptible: bool, limit: u32) -> (Vec<Cell>, Vec<String>) {
    let (mut cells, mut notes) = (Vec::new(), Vec::new());
    for &program in experiment.programs() {
        let numbers = if program == Program::Study { threads } else { &[0] };
        for &threads in numbers {
            let fits = |arm: &Arm| !arm.is_of_the_kernel() || threads <= limit;
            let arms = experiment.arms(preemptible);
            cells.extend(arms.iter().copied().filter(fits).map(|arm| Cell { program, threads, arm }));
            if arms.iter().any(|arm| !fits(arm)) {
                notes.push(format!(
                    "pthreads with {threads} threads are left out: this machine has room for {limit} beside what else is running (the kernel's limits of processes, \
                     process numbers and memory maps, two of which each thread's stack takes)"
                ));
            }
        }
    }
    (cells, notes)
}

/// How many threads one process can have, with some left for all others: a machine that has run out of them cannot even be told to stop.
fn kernel_threads() -> u32 {
    let read =
        |path: &str| fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u32>().ok()).unwrap_or(u32::MAX);
    let maps = read("/proc/sys/vm/max_map_count") / 2;
    let limit = maps.min(read("/proc/sys/kernel/threads-max")).min(read("/proc/sys/kernel/pid_max"));
    limit / 10 * 9
}

/// Makes all runs, as far as they can be made.
fn measure(
    settings: &Settings,
    cells: &[Cell],
    signals: &Signals,
    observations: &mut Vec<Observation>,
    notes: &mut Vec<String>,
) -> Result<(), Stop> {
    let children = Children::new()?;
    let plan = runs::plan(cells.len(), settings.repeat, settings.seed);
    let bar = progress::bar(Some(plan.len() as u64));
    for (round, number) in plan {
        let cell = cells[number];
        let Cell { program, threads, arm } = cell;
        let threads_in_words = if threads > 0 { format!(", {threads} threads") } else { String::new() };
        let name = format!("{}, {}{threads_in_words}", program.name(), arm.name());
        bar.set_message(name.clone());
        let warm = runs::warm(program, threads);
        let order = Order { program, arm, threads, warm, rounds_per_us: settings.rounds_per_us.unwrap_or(1.0) };
        let answer = children.measure(&order);
        if signals.cancel().load(std::sync::atomic::Ordering::Acquire) {
            bar.finish_and_clear();
            return Err(Stop::Interrupted(signals.number()));
        }
        match answer? {
            Ok(answer) => observations.push(Observation { cell, round, answer }),
            Err(why) => {
                let note = format!("{name}: {why}");
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

fn write(folder: &Path, report: &Report, observations: &[Observation]) -> io::Result<()> {
    runs::write(observations, File::create(folder.join(RUNS))?)?;
    fs::write(folder.join(REPORT), json::render(report)?)?;
    fs::write(folder.join(PAGE), page::render(report))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_kernel_threads_than_there_can_be_are_left_out_and_said_to_be() {
        let experiment = Experiment::named("threads/table2").unwrap();
        let found = |limit| {
            let (cells, notes) = cells(experiment, &[7, 50], false, limit);
            (cells.iter().map(|cell| (cell.threads, cell.arm.name())).collect::<Vec<_>>(), notes)
        };
        let [kernel, one, fibers] = ["pthreads", "pthreads, one CPU", "fibers 10/100"].map(str::to_owned);
        let few = [(7, kernel.clone()), (7, one.clone()), (7, fibers.clone())];
        let (all, notes) = found(50);
        assert_eq!(all, [&few[..], &[(50, kernel), (50, one), (50, fibers.clone())]].concat());
        assert_eq!(notes, [""; 0]);
        let (some, notes) = found(49);
        assert_eq!(some, [&few[..], &[(50, fibers)]].concat());
        let said = "pthreads with 50 threads are left out: this machine has room for 49 beside";
        assert!(notes.len() == 1 && notes[0].starts_with(said), "{notes:?}");
    }
}
