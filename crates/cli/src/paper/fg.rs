//! `rowlock paper fg/...`: measures Roysden's tables on this machine.

mod program;

use std::path::Path;
use std::time::SystemTime;

use anyhow::anyhow;
use measure::folder::{Folder, MANIFEST, REPORT};
use measure::interleaving;
use measure::manifest::{Ending, Manifest};
use measure::timestamp::Timestamp;
use measure::two_worlds::TwoWorlds;
use papers::Paper;
use papers::fg::arms::{Arm, IO_BOUND_USE, PAPERS_CPUS, Variant};
use papers::fg::prediction::{PredictionError, predict};
use papers::fg::report::{FgReport, Settings};
use papers::fg::runs::Observation;
use papers::fg::{Experiment, balance, rows, shares, simulated, text};
use scenario::result::World;

use self::program::{Program, clock_for, traffic};
use crate::arguments::paper::{Measured, Paper as Arguments, Rate};
use crate::calibrate;
use crate::output::print_as;
use crate::progress;
use crate::results::{finish, print_if_interrupted};
use crate::run::host as world_of;
use crate::signals::Signals;
use crate::stop::Stop;

/// The default number of runs of each arm.
const REPEAT: u32 = 10;
/// How much data the compute-bound program sorts by default.
const SIZE: u64 = 256 << 20;
/// The minimum memory of a sort by default.
const MIN_MEMORY: u64 = 16 << 20;
/// The size of a record and of its key in bytes.
const RECORD: u64 = 100;
const KEY: u64 = 10;
/// How close the processor use of a throttled program must be to that in the thesis, as a share,
/// and the maximum number of tries.
const TOLERANCE: f64 = 0.03;
const MAX_TRIES: u32 = 4;

/// Runs an experiment and prints the result.
pub(super) fn run(paper: &Paper, experiment: Experiment, arguments: &Arguments) -> Result<(), Stop> {
    if arguments.scenario {
        return Err(Stop::Input(anyhow!(
            "--scenario: {} is measured; its simulated scenarios are written into the folder of results",
            paper.name
        )));
    }
    let started = Timestamp::of(SystemTime::now());
    let signals = Signals::catch()?;
    let calibration = calibrate::load(false)?;
    let machine = calibration.machine.clone();
    let worlds = TwoWorlds::new(Some(world_of(calibration)?), arguments.workers);
    let mut folder = arguments.results.open(Path::new(&paper.stem()), started)?;
    let runs: Vec<Observation> = folder.earlier()?;
    folder.keep_rows(runs.iter().map(Observation::row));
    let earlier: Option<Settings> = folder.earlier_settings()?;

    let (repeat, seed) = (arguments.repeat.unwrap_or(REPEAT), arguments.seed.unwrap_or(1));
    let planned = experiment.arms().len() as u64 * u64::from(repeat);
    let mut manifest = Manifest::begin(paper.name, &[World::Host], started);
    (manifest.planned_runs, manifest.repeat, manifest.seed) = (planned, repeat, seed);
    let report = FgReport::new(paper);
    let mut session =
        Session { experiment, arguments, signals: &signals, folder, manifest, runs, report, removed: Ok(()) };
    let measured = match experiment.arms().as_slice() {
        [] => Ok(()),
        arms => session.measure(arms, settings(arguments, machine, earlier.as_ref())?),
    };
    let simulated = measured.and_then(|()| session.simulate(&worlds));
    let Session { mut folder, mut manifest, runs, mut report, removed, .. } = session;
    report.complete = simulated.is_ok();
    manifest.settings =
        report.settings.as_ref().or(earlier.as_ref()).and_then(|known| serde_json::to_value(known).ok());
    (manifest.ending, manifest.error) = simulated.as_ref().map_or_else(Stop::ending, |()| (Ending::Complete, None));
    manifest.runs = runs.len() as u64;
    folder.write(REPORT, &report);
    folder.write(MANIFEST, &manifest);
    print_as(arguments.format, || text::render(&report), &report, "the report")?;
    let written = finish(folder);
    print_if_interrupted(&simulated, manifest.runs, manifest.planned_runs);
    match (simulated.and(written), removed) {
        // The exit code is that of the first.
        (Err(stop), Err(other)) => {
            other.report();
            Err(stop)
        }
        (ended, removed) => ended.and(removed),
    }
}

/// The settings of the runs. The rate of an earlier command stays in effect.
fn settings(arguments: &Arguments, machine: host::Machine, earlier: Option<&Settings>) -> Result<Settings, Stop> {
    let Measured { size, memory, rate, evict, .. } = &arguments.measured;
    let size = size.unwrap_or(SIZE);
    let settings = Settings {
        rowlock_version: env!("CARGO_PKG_VERSION").to_owned(),
        machine,
        size: size / RECORD * RECORD,
        record: RECORD,
        key: KEY,
        memory: memory.unwrap_or((size / 2).max(MIN_MEMORY)),
        seed: arguments.seed.unwrap_or(1),
        evicted: evict.unwrap_or_default().words().to_owned(),
        rate: match (rate, earlier) {
            (Some(Rate::Of(rate)), _) => Some(*rate),
            (Some(Rate::Unlimited), _) => None,
            (None, earlier) => earlier.and_then(|earlier| earlier.rate),
        },
    };
    if settings.size == 0 {
        return Err(Stop::Input(anyhow!("--size: there must be at least one record of {RECORD} bytes")));
    }
    match earlier {
        Some(earlier) if *earlier != settings => Err(Stop::Input(anyhow!(
            "--append: the runs in the folder are of another machine, or were made with other options (its {MANIFEST} has them); runs are pooled only \
             if these are the same"
        ))),
        _ => Ok(settings),
    }
}

/// The work of one command.
struct Session<'a> {
    experiment: Experiment,
    arguments: &'a Arguments,
    signals: &'a Signals,
    folder: Folder,
    manifest: Manifest,
    /// All runs so far, including those of earlier commands.
    runs: Vec<Observation>,
    report: FgReport,
    /// Whether the program's files are removed.
    removed: Result<(), Stop>,
}

impl Session<'_> {
    /// Makes the missing runs, and fills the report's tables even if that ends early.
    fn measure(&mut self, arms: &[&'static Arm], mut settings: Settings) -> Result<(), Stop> {
        let rounds = self.arguments.repeat.unwrap_or(REPEAT);
        let is_made = |round, arm: usize| self.runs.iter().any(|run| run.round == round && run.is_of(arms[arm]));
        let plan = interleaving::missing(arms.len(), rounds, settings.seed, is_made);
        let made = if plan.is_empty() { Ok(()) } else { self.run(arms, &plan, &mut settings) };
        self.report.rows = rows::rows(arms, &self.runs, self.experiment.baseline());
        if made.is_err() {
            rows::undecide(&mut self.report.rows);
        }
        if self.experiment == Experiment::Regression {
            self.report.balances = balance::clock_regressions(&self.runs);
        }
        self.report.settings = Some(settings);
        made
    }

    fn run(&mut self, arms: &[&'static Arm], plan: &[(u32, usize)], settings: &mut Settings) -> Result<(), Stop> {
        let mut program = Program::new(settings, &self.arguments.measured, self.signals)?;
        let made = self.run_program(&mut program, arms, plan, settings);
        self.removed = program.end();
        made
    }

    fn run_program(
        &mut self,
        program: &mut Program<'_>,
        arms: &[&'static Arm],
        plan: &[(u32, usize)],
        settings: &mut Settings,
    ) -> Result<(), Stop> {
        let bar = progress::bar(Some(plan.len() as u64));
        bar.set_message("generating the data");
        let variants: Vec<Variant> = Variant::ALL
            .into_iter()
            .filter(|variant| plan.iter().any(|&(_, arm)| arms[arm].variant == *variant))
            .collect();
        variants.iter().try_for_each(|variant| program.generate(*variant))?;
        for variant in variants {
            // A run that does not count warms up, and tells how much to throttle the disk.
            bar.set_message(format!("{}, not counted", variant.name()));
            let first = arms.iter().find(|arm| arm.variant == variant);
            let Some(first) = first else { continue };
            match variant {
                Variant::ComputeBound => drop(program.run(first, 0)?),
                Variant::IoBound => self.throttle(program, first, settings)?,
            }
        }
        self.manifest.settings = serde_json::to_value(&*settings).ok();
        self.folder.write(MANIFEST, &self.manifest);
        for &(round, arm) in plan {
            let arm = arms[arm];
            bar.set_message(format!("{}, {}", arm.variant.name(), arm.name));
            let mut run = program.run(arm, round)?;
            let stages = run.reports.iter().flat_map(|report| &report.stages);
            stages
                .flat_map(|stage| &stage.effective_attributes)
                .filter(|attribute| attribute.is_refused())
                .for_each(|attribute| self.report.note(format!("{}: {attribute}", arm.name)));
            if arm.name != self.experiment.baseline() || !self.has_predictions() {
                run.reports.clear();
            }
            self.folder.keep(&run, [run.row()]);
            self.runs.push(run);
            bar.inc(1);
        }
        Ok(())
    }

    /// Throttles the disk so that the program uses the processors as in the thesis, unless it
    /// already uses no more than that.
    fn throttle(&mut self, program: &mut Program<'_>, first: &Arm, settings: &mut Settings) -> Result<(), Stop> {
        let mut note = |why: String| self.report.note(format!("{why}; the disk is not throttled"));
        if let Some(rate) = settings.rate {
            program.throttle(rate)?;
            drop(program.run(first, 0)?);
            return Ok(());
        }
        let mut run = program.run(first, 0)?;
        // If the earlier runs were not throttled, these are not either.
        if self.arguments.measured.rate == Some(Rate::Unlimited) || !self.runs.is_empty() {
            return Ok(());
        }
        let goal = IO_BOUND_USE / PAPERS_CPUS * f64::from(settings.machine.cpus);
        let used = run.used_percent;
        if used <= goal * (1.0 + TOLERANCE) {
            let why = "the disk limits the program by itself";
            note(format!("{why}: it uses {used:.0} % of the processors, not {goal:.0} %"));
            return Ok(());
        }
        // The rate of one direction if the other does not wait for it. Some passes are different,
        // so the result is checked.
        let mut rate = traffic(&run.reports) as f64 / clock_for(&run, goal);
        for _ in 0..MAX_TRIES {
            match program.throttle(rate as u64) {
                Ok(()) => settings.rate = Some(rate as u64),
                Err(Stop::Failed(why)) => {
                    note(why.to_string());
                    return Ok(());
                }
                Err(why) => return Err(why),
            }
            run = program.run(first, 0)?;
            if (run.used_percent / goal - 1.0).abs() <= TOLERANCE {
                break;
            }
            rate *= run.clock_s / clock_for(&run, goal);
        }
        Ok(())
    }

    /// Whether the report has the simulator's predictions of the measured runs.
    fn has_predictions(&self) -> bool {
        matches!(self.experiment, Experiment::FixedRules | Experiment::AdjustingRules | Experiment::Regression)
    }

    /// Simulates what the experiment needs: predictions, or scenarios of its own.
    fn simulate(&mut self, worlds: &TwoWorlds) -> Result<(), Stop> {
        let (signals, report) = (self.signals, &mut self.report);
        let (cancel, stop) = (signals.cancel(), |why| signals.stop_for(why));
        let seed = self.arguments.seed.unwrap_or(1);
        let scenarios;
        match self.experiment {
            Experiment::FixedRules | Experiment::AdjustingRules | Experiment::Regression => {
                let mut all = Vec::new();
                for variant in Variant::ALL {
                    match predict(variant, &self.runs, self.experiment.baseline(), worlds, cancel) {
                        Ok((predictions, files)) => {
                            report.predictions.extend(predictions);
                            all.extend(files);
                        }
                        Err(why @ PredictionError::Unsupported { .. }) => report.note(why.to_string()),
                        Err(PredictionError::Failure(why)) => return Err(stop(why)),
                    }
                }
                scenarios = all;
            }
            Experiment::Kernels => {
                (report.simulated, scenarios) = simulated::kernels(seed, worlds, cancel).map_err(stop)?;
            }
            Experiment::Magnitude => {
                (report.simulated, scenarios) = simulated::magnitudes(seed, worlds, cancel).map_err(stop)?;
            }
            Experiment::Starvation => {
                let cpus = crate::arguments::all_cpus().get();
                let shares = shares::shares(self.arguments.repeat, seed, cpus, worlds, cancel);
                (report.shares, scenarios) = shares.map_err(stop)?;
            }
        }
        scenarios.iter().for_each(|scenario| self.folder.write_text(&scenario.file, &scenario.text));
        Ok(())
    }
}
