//! Preemptible fibers: `cargo bench -p rowlock-bench-fiber --bench preemption [-- OPTIONS]`, `--
//! --help` for the options.
//!
//! Measures how late a sleeping thread wakes beside endless loops, how long loops wait for their
//! first turn, the cost of preemption for computations, and how computations share a mutex or CPUs.
//! The benchmark `fibers` measures operations and memory. Each run is a process. In a round, every
//! contender runs every program once, in random order, and ratios are calculated within a round.
//!
//! The output goes into docs/results/fibers.md.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its results")]

mod computation;
mod contenders;
mod endless;
#[path = "../fibers/figures.rs"]
mod figures;
#[path = "../../../wait/benches/waiting/machine.rs"]
mod machine;
#[path = "../fibers/process.rs"]
mod process;
#[path = "../../../pipeline/benches/pipelines/ratio.rs"]
mod ratio;
mod report;
mod runtime;
mod sharing;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use measure::disturbance::Monitor;
use measure::interleaving;

use crate::contenders::{ALL, Contender, HIDDEN, Job, System};
use crate::report::Report;

/// Compares preemptible fibers with other preemptive threads.
///
/// Runs are interleaved, because the machine changes from minute to minute. The machine should be
/// idle otherwise.
#[derive(Debug, Parser)]
#[command(name = "preemption")]
struct Options {
    /// Only these: delays of wakeups, first turns, computation, and sharing of a mutex and of CPUs
    #[arg(value_enum)]
    what: Vec<Selection>,
    /// Only these contenders, as in preemptible-1ms,go
    #[arg(long, value_delimiter = ',')]
    contenders: Vec<Contender>,
    /// The number of rounds
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Scales down all repetitions, for a quick look
    #[arg(long, default_value_t = 1.0, value_parser = share)]
    share: f64,
    /// The time limit of a run in seconds. A program that exceeds it is left out for that contender
    #[arg(long, default_value_t = 30)]
    patience: u64,
    /// The seed of the random order
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Appends the raw results to this file, as comma-separated values
    #[arg(long, value_name = "FILE.csv")]
    csv: Option<PathBuf>,
    /// Passed by cargo to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Selection {
    Late,
    Turns,
    Computation,
    Sharing,
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|why: std::num::ParseFloatError| why.to_string())?;
    if share > 0.0 && share <= 1.0 { Ok(share) } else { Err("a share must be above 0 and at most 1".to_owned()) }
}

/// A program of a contender, and the name under which its figures are stored.
struct Run {
    contender: Contender,
    name: String,
    job: Job,
}

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    if let [_, hidden, contender, job @ ..] = words.as_slice()
        && hidden == HIDDEN
    {
        let contender: Contender = contender.parse().map_err(anyhow::Error::msg)?;
        return contender.carry_out(Job::read(job)?);
    }
    let options = Options::parse();
    let priority = machine::Priority::raise();
    println!(
        "{}; {} UTC; {} rounds, seed {}; {}.\n",
        machine::describe(),
        figures::when(),
        options.rounds,
        options.seed,
        if priority.is_raised() {
            "this session has a higher weight than others"
        } else {
            "this session has the same weight as others"
        },
    );
    let runs: Vec<Run> = contenders(&options).into_iter().flat_map(|contender| programs(contender, &options)).collect();
    let mut report = Report::default();
    let monitor = Monitor::start();
    for (round, number) in interleaving::rounds(runs.len(), 0..options.rounds, options.seed) {
        let Run { contender, name, job } = &runs[number];
        let who = (contender.to_string(), name.as_str());
        if report.figures.has_failed(&who.0, name) {
            continue;
        }
        match contender.run(*job, Duration::from_secs(options.patience)) {
            Ok(results) => {
                if let Some(path) = &options.csv {
                    figures::write(path, (&who.0, name), round, &results)?;
                }
                report.add(&who.0, name, &results);
            }
            Err(why) => report.figures.fail(&who.0, name, format!("{why:#}")),
        }
    }
    let disturbance = monitor.finish(Duration::ZERO);
    print!("{report}");
    if let Some(disturbance) = disturbance {
        println!("* {disturbance}");
    }
    Ok(())
}

/// The selected contenders that are available here.
fn contenders(options: &Options) -> Vec<Contender> {
    let is_wanted = |contender: &Contender| options.contenders.is_empty() || options.contenders.contains(contender);
    let is_here = |contender: &Contender| {
        contender.build().map_err(|why| println!("Left out: {contender}: {why}. See .ci/setup-fiber.\n")).is_ok()
    };
    ALL.into_iter().filter(is_wanted).filter(is_here).collect()
}

/// The programs of a contender in each round.
fn programs(contender: Contender, options: &Options) -> Vec<Run> {
    let is_wanted = |what| options.what.is_empty() || options.what.contains(&what);
    let run = |name: &str, job| Run { contender, name: name.to_owned(), job };
    let share = |of: usize| ((of as f64 * options.share) as usize).max(10);
    let preempts = contender.system != System::Nothing;
    let mut runs = Vec::new();
    if is_wanted(Selection::Late) && preempts {
        runs.extend(report::LOOPS.map(|loops| run(&report::late(loops), Job::Late { loops, times: share(200) })));
    }
    if is_wanted(Selection::Late) && contender.system == System::Nothing {
        runs.push(run("alone", Job::Alone { milliseconds: share(1000) }));
    }
    if is_wanted(Selection::Turns) && preempts && !contender.on_all {
        runs.extend(report::TURNS.map(|loops| run(&report::turns(loops), Job::Turns { loops })));
    }
    if is_wanted(Selection::Computation) && contender.to_string() == report::USUAL {
        let job = Job::Computation { milliseconds: share(60), times: (6.0 * options.share).ceil() as usize };
        runs.push(run("computation", job));
    }
    if is_wanted(Selection::Sharing) && matches!(contender.system, System::Preemptible(_) | System::Pthreads) {
        runs.push(run("convoy", Job::Convoy { rounds: share(400) }));
        runs.push(run("spread", Job::Spread { milliseconds: share(20) }));
    }
    runs
}
