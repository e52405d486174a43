//! Compares implementations of waiting: `cargo bench -p rowlock-bench-wait --bench waiting [--
//! OPTIONS]`, `-- --help` for the options.
//!
//! A *cell* is a number of threads, a number of hogs beside them (processes that always compute)
//! and an amount of work between two waits. An *arm* is an implementation of waiting. A *run* of an
//! arm in a cell is a process that works and waits for a quarter of a second and prints its number
//! of rounds. All arms of a cell run once in random order, and this is repeated. Hogs are restarted
//! each time, because their placement by the scheduler matters.
//!
//! The output goes into docs/results/waiting.md.
#![allow(clippy::print_stdout)]

mod arms;
mod cells;
mod goals;
mod hogs;
mod locks;
mod machine;
mod meetings;
mod options;
mod order;
mod peers;
mod pthread;
mod random;
mod report;
mod runs;
mod score;
mod sheet;
mod start;
mod work;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use measure::disturbance::Monitor;
use measure::interleaving;

use crate::arms::{Arm, Label};
use crate::cells::Cell;
use crate::hogs::Hogs;
use crate::options::Options;
use crate::runs::{File, Run};
use crate::sheet::{Sheet, median};
use crate::start::Conditions;
use crate::work::Speed;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, hidden, order] = arguments.as_slice()
        && hidden == order::HIDDEN
    {
        return order::carry_out(order);
    }
    match bench(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn bench(options: &Options) -> Result<(), Box<dyn Error>> {
    let runs = if options.score.is_empty() {
        measure(options)?
    } else {
        let files: Vec<Vec<Run>> = options.score.iter().map(|path| runs::read(path)).collect::<Result<_, _>>()?;
        files.concat()
    };
    if runs.is_empty() {
        return Err("the file has no runs".into());
    }
    // A file may hold both kinds of work, which cannot be compared.
    let (locks, meetings): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(|run| run.work.contains('/'));
    for (title, runs) in [("Barriers", meetings), ("Locks", locks)] {
        if !runs.is_empty() {
            let mut text = String::new();
            report::write(&mut text, &Sheet::of(&runs), options.seed)?;
            println!("## {title}\n\n{}\n\n{text}", foreign(&runs));
        }
    }
    Ok(())
}

/// A sentence about the CPU time of other programs.
fn foreign(runs: &[Run]) -> String {
    let shares: Vec<f64> = runs.iter().filter_map(|run| run.foreign).collect();
    let busy = shares.iter().filter(|&&share| share > 0.1).count();
    let median = median(shares).map_or("unknown".to_owned(), |share| format!("{:.1} % in the median", 100.0 * share));
    format!(
        "{} runs. The share of the machine that other programs took: {median}, above 10 % in {busy} runs.",
        runs.len()
    )
}

/// The selected arms that can be built here.
fn choose_arms(options: &Options) -> Result<Vec<(Arm, Label)>, Box<dyn Error>> {
    let mut arms = arms::parse(options.arms.as_deref().unwrap_or(arms::usual(options.locks)))?;
    let mut tried = Vec::new();
    arms.retain(|&arm| {
        let Arm::Peer(peer, _) = arm else { return true };
        if !tried.iter().any(|&(known, _)| known == peer) {
            let built = peer.build();
            if let Err(why) = &built {
                println!("Left out: `{arm}` and similar arms: {why}.\n");
            }
            tried.push((peer, built.is_ok()));
        }
        tried.iter().any(|&(known, built)| known == peer && built)
    });
    let labels = arms::labels(&arms);
    Ok(arms.into_iter().zip(labels).collect())
}

/// Runs all cells. Returns the runs so far if it is interrupted.
fn measure(options: &Options) -> Result<Vec<Run>, Box<dyn Error>> {
    let known = if options.locks { Cell::locks() } else { Cell::meetings() };
    let cells = cells::parse(&options.cells, &known)?;
    let arms = choose_arms(options)?;
    for cell in &cells {
        if let Some((arm, _)) = arms.iter().find(|(arm, _)| !arm.can(cell.work)) {
            return Err(format!("`{arm}` does not support {}: --locks is for locks", cell.work).into());
        }
    }
    let mut file = options.out.as_deref().map(File::append).transpose()?;

    let end = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&end))?;
    }
    let priority = machine::Priority::raise();
    let costs = rowlock_wait::calibrate()?.costs();
    let conditions =
        Conditions { seconds: options.seconds, speed: Speed::measure(), costs: options.same_costs.then_some(costs) };
    let count = cells.len() * arms.len() * options.reps as usize;
    println!(
        "{}; {} cells, {} arms, {} repetitions of {} s, seed {}; CS {}; {}.\n",
        machine::describe(),
        cells.len(),
        arms.len(),
        options.reps,
        options.seconds,
        options.seed,
        costs.cs,
        if priority.is_raised() {
            "this session has a higher weight than others"
        } else {
            "this session has the same weight as others"
        },
    );
    eprintln!("{count} runs take about {:.0} s", count as f64 * (options.seconds + 0.02));

    let batch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut runs = Vec::with_capacity(count);
    for (number, &cell) in cells.iter().enumerate() {
        eprintln!(
            "cell {} of {}: {} threads, {} hogs, {}",
            number + 1,
            cells.len(),
            cell.threads,
            cell.hogs,
            cell.work
        );
        for repetition in 0..options.reps {
            let hogs = Hogs::start(cell.hogs)?;
            for (_, arm) in interleaving::rounds(arms.len(), repetition..repetition + 1, options.seed) {
                let (arm, label) = &arms[arm];
                let run = one(*arm, label, cell, &conditions, &hogs);
                if end.load(Relaxed) {
                    eprintln!("interrupted after {} runs", runs.len());
                    return Ok(runs);
                }
                let run = Run { batch, repetition, ..run? };
                if let Some(file) = &mut file {
                    file.add(&run)?;
                }
                runs.push(run);
            }
        }
    }
    Ok(runs)
}

/// A run of an arm.
fn one(arm: Arm, label: &Label, cell: Cell, conditions: &Conditions, hogs: &Hogs) -> Result<Run, Box<dyn Error>> {
    let usage = sys::process::descendants_usage();
    let (monitor, hogs_before, start) = (Monitor::start(), hogs.cpu_time(), Instant::now());
    let outcome = start::run(arm, cell, conditions).map_err(|why| format!("{label}: {why}"))?;
    let took = start.elapsed();
    let usage = sys::process::descendants_usage().since(usage);
    let disturbance = monitor.finish(hogs.cpu_time().saturating_sub(hogs_before));
    let foreign = disturbance.map(|disturbance| disturbance.others_percent / 100.0);
    let run = Run {
        batch: 0,
        arm: label.arm.clone(),
        copy: label.copy,
        threads: cell.threads,
        hogs: cell.hogs,
        work: cell.work.to_string(),
        repetition: 0,
        rate: 0.0,
        seconds: 0.0,
        cpu_seconds: usage.cpu.as_secs_f64(),
        voluntary_switches: usage.voluntary_switches,
        involuntary_switches: usage.involuntary_switches,
        foreign,
        ssr_percent: None,
        spins: None,
        yields: None,
        blocks: None,
        strikes: None,
        least_share: None,
    };
    Ok(run.with(outcome, took.as_secs_f64()))
}
