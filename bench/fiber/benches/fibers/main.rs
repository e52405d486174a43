//! Fibers compared with other threads: `cargo bench -p rowlock-bench-fiber --bench fibers [--
//! OPTIONS]`, `-- --help` for the options.
//!
//! A *contender* is a system of threads, on one CPU or on all. The *programs* that are measured are
//! the same for all of them. Each run is a process. In a round, every contender runs every program
//! once, in random order, and ratios are calculated within a round.
//!
//! The output goes into docs/results/fibers.md.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its results")]

mod contenders;
mod coroutines;
mod echo;
mod figures;
#[path = "../../../wait/benches/waiting/machine.rs"]
mod machine;
mod process;
mod programs;
mod pthreads;
#[path = "../../../pipeline/benches/pipelines/ratio.rs"]
mod ratio;
mod report;
mod rowlock;
mod tokio;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use measure::disturbance::Monitor;
use measure::interleaving;

use crate::contenders::{ALL, Contender, HIDDEN, System};
use crate::programs::{OPERATIONS, Program};
use crate::report::Figures;

/// Compares fibers with other threads.
///
/// Runs are interleaved, because the machine changes from minute to minute. The machine should be
/// idle otherwise.
#[derive(Debug, Parser)]
#[command(name = "fibers")]
struct Options {
    /// Only these: the program of the study, single operations, the sieve, the server, and many
    /// threads that wait
    #[arg(value_enum)]
    what: Vec<Selection>,
    /// Only these contenders, as in safe,go
    #[arg(long, value_delimiter = ',')]
    contenders: Vec<Contender>,
    /// Only contenders on one CPU, or only those on all
    #[arg(long, value_enum)]
    cpus: Option<Cpus>,
    /// The numbers of threads in the program of the study
    #[arg(long, value_delimiter = ',', default_value = "50,100,500,1000,2000,10000,100000")]
    threads: Vec<usize>,
    /// The number of rounds
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Scales down the repetitions of operations and the numbers of primes, connections and threads
    /// that wait, for a quick look
    #[arg(long, default_value_t = 1.0, value_parser = share)]
    share: f64,
    /// The time limit of a run in seconds. A program that exceeds it is left out for that contender
    #[arg(long, default_value_t = 20)]
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
    Study,
    Operations,
    Sieve,
    Echo,
    Many,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Cpus {
    One,
    All,
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|why: std::num::ParseFloatError| why.to_string())?;
    if share > 0.0 && share <= 1.0 { Ok(share) } else { Err("a share must be above 0 and at most 1".to_owned()) }
}

/// A program of a contender, and the name under which its figures are stored.
struct Run {
    contender: Contender,
    name: String,
    program: Program,
}

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    if let [_, hidden, contender, program @ ..] = words.as_slice()
        && hidden == HIDDEN
    {
        let contender: Contender = contender.parse().map_err(anyhow::Error::msg)?;
        return contender.carry_out(Program::read(program)?);
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
    let contenders = contenders(&options);
    let runs: Vec<Run> = contenders.iter().flat_map(|&contender| programs(contender, &options)).collect();
    let mut figures = Figures::default();
    let monitor = Monitor::start();
    for (round, number) in interleaving::rounds(runs.len(), 0..options.rounds, options.seed) {
        let run = &runs[number];
        let (contender, program) = (run.contender.to_string(), &run.name);
        if figures.0.has_failed(&contender, program) {
            continue;
        }
        match run.contender.run(run.program, Duration::from_secs(options.patience)) {
            Ok(results) => {
                if let Some(path) = &options.csv {
                    figures::write(path, (&contender, program), round, &results)?;
                }
                figures.0.add(&contender, program, &results);
            }
            Err(why) => figures.0.fail(&contender, program, format!("{why:#}")),
        }
    }
    let disturbance = monitor.finish(Duration::ZERO);
    print(&figures, &contenders, &options);
    for failure in figures.0.failures() {
        println!("* left out: {failure}");
    }
    if let Some(disturbance) = disturbance {
        println!("* {disturbance}");
    }
    Ok(())
}

/// The selected contenders that are available here.
fn contenders(options: &Options) -> Vec<Contender> {
    let is_wanted = |contender: &Contender| {
        (options.contenders.is_empty() || options.contenders.contains(contender))
            && options.cpus.is_none_or(|cpus| contender.on_all == (cpus == Cpus::All))
    };
    let is_here = |contender: &Contender| {
        contender.build().map_err(|why| println!("Left out: {contender}: {why}. See .ci/setup-fiber.\n")).is_ok()
    };
    ALL.into_iter().filter(is_wanted).filter(is_here).collect()
}

/// The programs of a contender in each round.
fn programs(contender: Contender, options: &Options) -> Vec<Run> {
    let is_wanted = |what| options.what.is_empty() || options.what.contains(&what);
    let run = |name: &str, program| Run { contender, name: name.to_owned(), program };
    let share = |of: usize| ((of as f64 * options.share) as usize).max(10);
    let mut runs = Vec::new();
    if is_wanted(Selection::Study) {
        runs.extend(options.threads.iter().map(|&threads| {
            let again = if threads > 2000 { 3 } else { 9 };
            run(&format!("study {threads}"), Program::Study { threads, again })
        }));
    }
    if is_wanted(Selection::Operations) {
        runs.push(run("operations", Program::Operations { times: share(100_000 / contender.slowness) }));
    }
    if is_wanted(Selection::Sieve) && contender.has_channels_and_sockets() {
        runs.push(run("sieve", Program::Sieve { primes: share(400), again: 2 }));
    }
    if is_wanted(Selection::Echo) && contender.has_channels_and_sockets() {
        runs.push(run("echo", Program::Echo { connections: share(10_000) }));
    }
    if is_wanted(Selection::Many) {
        // The kernel allows only about 30 000 threads, and more coroutines of `may` never finish.
        let is_many = !matches!(contender.system, System::Pthreads | System::May);
        let threads = share(if is_many { 100_000 } else { 10_000 });
        runs.push(run("blocked", Program::Blocked { threads }));
        // The threads of other contenders may start at any time.
        if !contender.on_all
            && matches!(contender.system, System::Safe | System::Unsafe | System::Boost | System::BoostPooled)
        {
            runs.push(run("unstarted", Program::Unstarted { threads }));
        }
    }
    runs
}

fn print(figures: &Figures, contenders: &[Contender], options: &Options) {
    let is_wanted = |what| options.what.is_empty() || options.what.contains(&what);
    if is_wanted(Selection::Study) {
        println!("### The program of the study\n\n{}", figures.study(contenders, &options.threads));
    }
    let table = |what, title: &str, columns: &[(&str, &str, &str)]| {
        if is_wanted(what) {
            println!("### {title}\n\n{}", figures.table(contenders, columns));
        }
    };
    table(Selection::Operations, "Operations, ns", &OPERATIONS.map(|(head, name)| (head, "operations", name)));
    table(Selection::Sieve, "A sieve of 400 primes, ms", &[("the last one is found after", "sieve", "found")]);
    let echo = [
        ("all are accepted after, ms", "echo", "accepted"),
        ("answers a second", "echo", "rate"),
        ("MiB resident", "echo", "resident"),
    ];
    table(Selection::Echo, "An echo server with 10,000 connections", &echo);
    let many = [
        ("all have started after, ms", "blocked", "started"),
        ("blocked: bytes resident", "blocked", "resident"),
        ("address space", "blocked", "virtual"),
        ("of the machine", "blocked", "machine"),
        ("not started: bytes resident", "unstarted", "resident"),
        ("address space", "unstarted", "virtual"),
    ];
    table(Selection::Many, "100,000 threads that wait (pthreads, may: 10,000)", &many);
    println!("### Goals\n\n{}", figures.goals(contenders));
}
