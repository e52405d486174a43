//! Compares pipelines: `cargo bench -p rowlock-bench-pipeline --bench pipelines [-- OPTIONS]`, `--
//! --help` for the options.
//!
//! A *cell* is a load, alone or beside hogs (processes that always compute). An *arm* is an
//! implementation. A *run* is a process that takes all items through the pipeline, checks their
//! order, and prints its duration. All arms of a cell run once in random order, and this is
//! repeated. Ratios are calculated within a repetition.
//!
//! The output goes into docs/results/pipelines.md.
#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

mod arms;
mod channels;
mod hogs;
mod load;
#[path = "../../../wait/benches/waiting/machine.rs"]
mod machine;
mod ours;
mod programs;
mod ratio;
mod report;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser;
use measure::disturbance::Monitor;
use measure::interleaving;

use crate::arms::{Arm, Outcome};
use crate::hogs::Hogs;
use crate::load::Load;
use crate::report::Row;

/// Compares pipelines of five stages, of this crate and of others.
///
/// Runs are interleaved, because the machine changes from minute to minute. The machine should be
/// idle otherwise.
#[derive(Debug, Parser)]
#[command(name = "pipelines")]
struct Options {
    /// Only cells with one of these in their names: empty, mix, compress, words, checksums
    names: Vec<String>,
    /// Only these arms, as in onetbb,kanal
    #[arg(long, value_delimiter = ',')]
    arms: Vec<Arm>,
    /// The number of repetitions
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// The numbers of hogs beside the blocking mix
    #[arg(long, value_delimiter = ',', default_value = "0,1,2")]
    hogs: Vec<u32>,
    /// The levels at which the example `compress` is compared with pigz
    #[arg(long, value_delimiter = ',', default_value = "1,6,9")]
    levels: Vec<u32>,
    /// Scales down the items and the input of programs, for a quick look
    #[arg(long, default_value_t = 1.0, value_parser = share)]
    share: f64,
    /// Measures the examples in this folder, instead of building them
    #[arg(long, value_name = "FOLDER")]
    examples: Option<PathBuf>,
    /// The seed of the random order
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Appends the raw results to this file, as comma-separated values
    #[arg(long, value_name = "FILE.csv")]
    out: Option<PathBuf>,
    /// Passed by cargo to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|why: std::num::ParseFloatError| why.to_string())?;
    if share > 0.0 && share <= 1.0 { Ok(share) } else { Err("a share must be above 0 and at most 1".to_owned()) }
}

/// A load, and the number of hogs beside it.
struct Cell {
    name: String,
    load: Load,
    hogs: u32,
    arms: &'static [Arm],
    /// The reference arm for the ratios of the table.
    base: &'static str,
    goals: &'static [Goal],
}

/// A limit for the time of an arm relative to the best of others.
struct Goal {
    arm: &'static str,
    others: &'static [&'static str],
    at_most: f64,
}

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    if let [_, hidden, arm, load @ ..] = words.as_slice()
        && hidden == arms::HIDDEN
    {
        let arm: Arm = arm.parse().map_err(anyhow::Error::msg)?;
        println!("{:.9}", arm.carry_out(&Load::read(load)?)?.as_secs_f64());
        return Ok(());
    }
    if let [_, hidden] = words.as_slice()
        && hidden == hogs::HIDDEN
    {
        hogs::compute()
    }
    let options = Options::parse();
    let priority = machine::Priority::raise();
    println!(
        "{}; {} UTC; {} runs, seed {}; {}.\n",
        machine::describe(),
        now(),
        options.runs,
        options.seed,
        if priority.is_raised() {
            "this session has a higher weight than others"
        } else {
            "this session has the same weight as others"
        },
    );
    let tbb = arms::build_tbb();
    if let Err(why) = &tbb {
        println!("Left out: oneTBB: {why}. On Debian, .ci/setup-pipeline installs it.\n");
    }
    let is_named = |cell: &str| options.names.is_empty() || options.names.iter().any(|name| cell.contains(name));
    for cell in cells(&options).iter().filter(|cell| is_named(&cell.name)) {
        let is_wanted = |arm: &Arm| options.arms.is_empty() || options.arms.contains(arm);
        let is_here = |arm: &Arm| tbb.is_ok() || !matches!(arm, Arm::Tbb | Arm::Tbb8);
        let arms: Vec<Arm> = cell.arms.iter().copied().filter(|arm| is_wanted(arm) && is_here(arm)).collect();
        let monitor = Monitor::start();
        let rows = measure(cell, &arms, &options)?;
        println!("## {}\n\n{}", cell.name, report::table(&rows, cell.base));
        if let Some(disturbance) = monitor.finish(Duration::ZERO) {
            println!("* {disturbance}");
        }
        for Goal { arm, others, at_most } in cell.goals {
            if let Some(judgement) = report::goal(&rows, arm, others, *at_most) {
                println!("* {judgement}");
            }
        }
        println!();
    }
    programs::measure(&options, is_named)?;
    Ok(())
}

/// All loads of five stages.
fn cells(options: &Options) -> Vec<Cell> {
    let items = |items: f64| (items * options.share).max(1.0) as u64;
    let mut cells = vec![Cell {
        name: "empty stages".to_owned(),
        load: Load { items: items(1e6), buffers: 8, sleep: Duration::ZERO, iterations: 0 },
        hogs: 0,
        arms: &[Arm::Rowlock, Arm::RowlockThreads, Arm::Std, Arm::Crossbeam, Arm::Kanal, Arm::Tbb],
        base: "onetbb",
        goals: &[
            Goal { arm: "rowlock", others: &["onetbb"], at_most: 0.6 },
            Goal { arm: "rowlock-threads", others: &["std", "crossbeam", "kanal"], at_most: 0.8 },
        ],
    }];
    let iterations = load::iterations(Duration::from_micros(500));
    for &hogs in &options.hogs {
        cells.push(Cell {
            name: format!("blocking mix, {hogs} hogs"),
            load: Load { items: items(1e3), buffers: 8, sleep: Duration::from_millis(1), iterations },
            hogs,
            arms: &[
                Arm::Floor,
                Arm::Rowlock,
                Arm::RowlockThreads,
                Arm::Std,
                Arm::Crossbeam,
                Arm::Kanal,
                Arm::Tbb,
                Arm::Tbb8,
            ],
            base: "floor",
            goals: if hogs == 0 {
                &[Goal { arm: "rowlock", others: &["floor"], at_most: 1.1 }]
            } else {
                const PEERS: &[&str] = &["std", "crossbeam", "kanal", "onetbb", "onetbb-8"];
                &[Goal { arm: "rowlock", others: PEERS, at_most: 1.3 }]
            },
        });
    }
    cells
}

/// Runs all arms of a cell, interleaved.
fn measure(cell: &Cell, arms: &[Arm], options: &Options) -> anyhow::Result<Vec<Row>> {
    let row = |arm: &Arm| Row { arm: arm.to_string(), times: Vec::new(), cpu: Vec::new(), switches: Vec::new() };
    let mut rows: Vec<Row> = arms.iter().map(row).collect();
    for (repetition, arm) in interleaving::rounds(arms.len(), 0..options.runs, options.seed) {
        // Restarted each time, because their placement by the scheduler matters.
        let _hogs = Hogs::start(cell.hogs)?;
        let outcome = arms[arm].run(&cell.load)?;
        if let Some(path) = &options.out {
            write(path, cell, arms[arm], repetition, &outcome)?;
        }
        let per_item = |value: f64| value / cell.load.items as f64;
        let switches = outcome.usage.voluntary_switches + outcome.usage.involuntary_switches;
        rows[arm].times.push(per_item(outcome.seconds));
        rows[arm].cpu.push(per_item(outcome.usage.cpu.as_secs_f64()));
        rows[arm].switches.push(per_item(switches as f64));
    }
    Ok(rows)
}

/// A run, as a line of a file.
#[derive(serde::Serialize)]
struct Line {
    cell: String,
    arm: String,
    repetition: u32,
    items: u64,
    seconds: f64,
    cpu_seconds: f64,
    voluntary_switches: u64,
    involuntary_switches: u64,
    /// Seconds since 1970.
    time: u64,
}

fn write(path: &Path, cell: &Cell, arm: Arm, repetition: u32, outcome: &Outcome) -> anyhow::Result<()> {
    let file = sys::files::append(path)?;
    let is_new = file.metadata()?.len() == 0;
    let mut writer = csv::WriterBuilder::new().has_headers(is_new).from_writer(file);
    writer.serialize(Line {
        cell: cell.name.clone(),
        arm: arm.to_string(),
        repetition,
        items: cell.load.items,
        seconds: outcome.seconds,
        cpu_seconds: outcome.usage.cpu.as_secs_f64(),
        voluntary_switches: outcome.usage.voluntary_switches,
        involuntary_switches: outcome.usage.involuntary_switches,
        time: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
    })?;
    Ok(writer.flush()?)
}

/// The date and the time of day.
fn now() -> String {
    let date = std::process::Command::new("date").args(["--utc", "+%Y-%m-%d %H:%M"]).output();
    date.map_or_else(|_| "some day".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
