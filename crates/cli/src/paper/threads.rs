//! `rowlock paper threads/...`: repeats a study of user-level threads on this machine.

pub(crate) mod child;

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, anyhow};
use measure::folder::{Folder, MANIFEST, PAGE, REPORT};
use measure::interleaving;
use measure::manifest::{Ending, Manifest};
use measure::timestamp::Timestamp;
use measure::two_worlds::TwoWorlds;
use papers::Paper;
use papers::threads::arms::Arm;
use papers::threads::measurement::MeasurementRequest;
use papers::threads::programs::{self, Program};
use papers::threads::report::{Settings, ThreadsReport};
use papers::threads::runs::{self, Cell, Observation};
use papers::threads::{Experiment, page, simulated, text};
use scenario::result::World;

use crate::arguments::paper::Paper as Arguments;
use crate::output::print_as;
use crate::progress;
use crate::results::{finish, print_if_interrupted};
use crate::signals::Signals;
use crate::stop::{OrStop, Stop};

/// Runs an experiment and prints the result.
pub(super) fn run(paper: &Paper, experiment: Experiment, arguments: &Arguments) -> Result<(), Stop> {
    if arguments.scenario {
        return Err(Stop::Input(anyhow!("--scenario: {} is measured and has no scenario", paper.name)));
    }
    if !arguments.threads.fibers.is_empty() && experiment.threads().is_empty() {
        return Err(Stop::Input(anyhow!(
            "--fibers is for the study's program; those of {} have their own number",
            paper.name
        )));
    }
    let started = Timestamp::of(SystemTime::now());
    let signals = Signals::catch()?;
    let mut folder = arguments.results.open(Path::new(&paper.stem()), started)?;
    let mut observations: Vec<Observation> = folder.earlier()?;
    folder.keep_rows(observations.iter().map(runs::row));
    let earlier: Option<Settings> = folder.earlier_settings()?;
    let settings = settings(experiment, arguments, earlier.as_ref())?;
    let (cells, mut notes) = cells(experiment, &settings.threads, settings.preemptible, kernel_threads());
    let planned = cells.len() as u64 * u64::from(settings.repeat);
    let mut manifest = Manifest::begin(paper.name, &[World::Host], started);
    (manifest.planned_runs, manifest.repeat, manifest.seed) = (planned, settings.repeat, settings.seed);
    folder.check(&manifest)?;
    manifest.settings = serde_json::to_value(&settings).ok();
    folder.write(MANIFEST, &manifest);
    let measured = measure(&settings, &cells, &signals, &mut folder, &mut observations, &mut notes);
    let mut report = ThreadsReport::new(paper, experiment, settings, &observations, measured.is_ok(), notes);
    let simulated = measured.and_then(|()| simulate(experiment, &mut report, arguments, &mut folder, &signals));
    report.complete = simulated.is_ok();
    (manifest.ending, manifest.error) = simulated.as_ref().map_or_else(Stop::ending, |()| (Ending::Complete, None));
    manifest.runs = observations.len() as u64;
    folder.write(REPORT, &report);
    folder.write_text(PAGE, &page::render(&report));
    folder.write(MANIFEST, &manifest);
    print_as(arguments.format, || text::render(&report), &report, "the report")?;
    let written = finish(folder);
    print_if_interrupted(&simulated, manifest.runs, manifest.planned_runs);
    simulated.and(written)
}

/// Simulates the same.
fn simulate(
    experiment: Experiment,
    report: &mut ThreadsReport,
    arguments: &Arguments,
    folder: &mut Folder,
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
    let (rows, scenarios) = simulated.map_err(|why| signals.stop_for(why))?;
    report.simulated = rows;
    scenarios.iter().for_each(|scenario| folder.write_text(&scenario.file, &scenario.text));
    Ok(())
}

/// The settings of the runs. The loop that stands for work keeps the length that an earlier command
/// measured.
fn settings(experiment: Experiment, arguments: &Arguments, earlier: Option<&Settings>) -> Result<Settings, Stop> {
    let mut threads = arguments.threads.fibers.clone();
    threads.sort_unstable();
    threads.dedup();
    let has_work = experiment.programs().iter().any(|program| *program != Program::Study);
    let preemptible = arguments.threads.preemptive;
    if earlier.is_some_and(|earlier| earlier.preemptible != preemptible) {
        return Err(Stop::Input(anyhow!(
            "--append: the fibers of one of the two experiments are preemptible; use --preemptive in both or in neither"
        )));
    }
    let rounds_per_us = earlier.and_then(|earlier| earlier.rounds_per_us);
    Ok(Settings {
        rowlock_version: env!("CARGO_PKG_VERSION").to_owned(),
        machine: host::Machine::current().or_failed()?,
        threads: if threads.is_empty() { experiment.threads() } else { threads },
        preemptible,
        repeat: arguments.repeat.unwrap_or(experiment.repeat()),
        seed: arguments.seed.unwrap_or(1),
        rounds_per_us: has_work.then(|| rounds_per_us.unwrap_or_else(programs::rounds_per_us)),
    })
}

/// The cells of each round, and notes about those that are left out because the kernel allows at
/// most `limit` threads.
fn cells(experiment: Experiment, threads: &[u32], preemptible: bool, limit: u32) -> (Vec<Cell>, Vec<String>) {
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

/// How many threads one process can have, with a reserve for others: a machine without free threads
/// cannot even be told to stop.
fn kernel_threads() -> u32 {
    let read =
        |path: &str| fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u32>().ok()).unwrap_or(u32::MAX);
    let maps = read("/proc/sys/vm/max_map_count") / 2;
    let limit = maps.min(read("/proc/sys/kernel/threads-max")).min(read("/proc/sys/kernel/pid_max"));
    limit / 10 * 9
}

/// Makes all possible runs.
fn measure(
    settings: &Settings,
    cells: &[Cell],
    signals: &Signals,
    folder: &mut Folder,
    observations: &mut Vec<Observation>,
    notes: &mut Vec<String>,
) -> Result<(), Stop> {
    let executable = std::env::current_exe().context("cannot find this program's own file")?;
    let is_made = |round, cell: usize| observations.iter().any(|run| run.round == round && run.cell == cells[cell]);
    let plan = interleaving::missing(cells.len(), settings.repeat, settings.seed, is_made);
    let bar = progress::bar(Some(plan.len() as u64));
    for (round, number) in plan {
        let cell = cells[number];
        let Cell { program, threads, arm } = cell;
        let threads_in_words = if threads > 0 { format!(", {threads} threads") } else { String::new() };
        let name = format!("{}, {}{threads_in_words}", program.name(), arm.name());
        bar.set_message(name.clone());
        let (warm, rounds_per_us) = (program.warm_runs(threads), settings.rounds_per_us.unwrap_or(1.0));
        let request = MeasurementRequest { cell, warm, rounds_per_us };
        let result = child::measure(&executable, &request, signals.cancel());
        if signals.cancel().load(std::sync::atomic::Ordering::Acquire) {
            return Err(signals.interruption());
        }
        match result? {
            Ok(result) => {
                let run = Observation { cell, round, result };
                folder.keep(&run, [runs::row(&run)]);
                observations.push(run);
            }
            Err(why) => {
                let note = format!("{name}: {why}");
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
        bar.inc(1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_threads_beyond_the_limit_are_left_out_with_a_note() {
        let found = |limit| {
            let (cells, notes) = cells(Experiment::Systems, &[7, 50], false, limit);
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
