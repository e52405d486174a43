//! The crate `message`: links between two ranks, and jobs of ranks on the same CPUs.
//!
//! * **Links**, two threads on two CPUs: a short message there and back in units of a bare ring of
//!   cache lines, a long one, and one from registered memory, in units of `memcpy`, and a barrier
//!   in units of [`wait::shared::Barrier`].
//! * **Jobs** of two ranks that compute 20 us and talk, by several commands: all of them do their
//!   work in one window, in units of one job alone.
//! * **Overlap**: jobs that send 2000 bytes around, block, compute 1 ms and sleep 2 ms a hop.
//! * **Page**: a spin with the page that says whose turn it is, in units of one without.
//! * **MPICH**: four ranks pass a message around, in units of MPICH with `rowlock exec`.
//!
//! Batches of all arms alternate. `cargo bench -p rowlock-bench-exec --bench messages -- [PART...]`
//! measures these parts, or all, which takes 40 minutes. The machine should be idle otherwise.
#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

mod jobs;
mod links;
mod mpich;
mod page;
mod rank;

use clap::{Parser, ValueEnum};
use rowlock_bench_exec::{build_rowlock, quantile};

#[derive(Debug, Parser)]
struct Arguments {
    /// The parts to measure [default: all]
    #[arg(value_enum)]
    parts: Vec<Part>,
    /// The numbers of jobs
    #[arg(long, value_delimiter = ',', default_value = "2,4,8")]
    jobs: Vec<usize>,
    /// How often each arm is run
    #[arg(long, default_value_t = 11)]
    repetitions: usize,
    /// The window of a run, in seconds
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// The rowlock command to measure, instead of building it
    #[arg(long)]
    rowlock: Option<String>,
    /// Passed by cargo to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Links between two ranks.
    Links,
    /// Jobs that wait by the adaptive rule.
    Jobs,
    /// Jobs that poll for 50 us and then block.
    Poll,
    /// Jobs that block.
    Overlap,
    /// A spin with a page of turns.
    Page,
    /// Beside MPICH.
    Mpich,
}

/// The first argument of a rank, which this program is then.
const RANK: &str = "rank";
/// The first argument of a program that spins.
const SPIN: &str = "spin";

fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some(RANK) => return rank::run(),
        Some(SPIN) => return page::spin(),
        _ => {}
    }
    let arguments = Arguments::parse();
    let parts = if arguments.parts.is_empty() { Part::value_variants() } else { &arguments.parts };
    let rowlock = arguments.rowlock.clone().map_or_else(build_rowlock, Ok)?;
    println!("{:24} {:>4}  {:10} {:>6}  interval", "what", "jobs", "arm", "median");
    let speed = rank::speed().to_string();
    let jobs = jobs::Jobs { rowlock: &rowlock, arguments: &arguments, speed: &speed };
    for part in parts {
        match part {
            Part::Links => links::measure(arguments.repetitions, arguments.seconds)?,
            Part::Jobs => {
                for kind in ["ring", "one-to-all", "exchange"] {
                    jobs.measure(kind, &jobs::TURNS)?;
                }
            }
            Part::Poll => jobs.measure("poll", &jobs::TURNS)?,
            Part::Overlap => jobs.measure("overlap", &jobs::LOWERED)?,
            Part::Page => page::measure(&arguments)?,
            Part::Mpich => mpich::measure(&rowlock, &arguments)?,
        }
    }
    Ok(())
}

/// Prints the median of some figures, and the interval that has four fifths of them.
fn print(what: &str, jobs: usize, arm: &str, mut found: Vec<f64>) {
    found.sort_by(f64::total_cmp);
    let [median, low, high] = [0.5, 0.1, 0.9].map(|part| quantile(&found, part));
    println!("{what:24} {jobs:>4}  {arm:10} {median:>6.2}  [{low:.2}, {high:.2}]");
}
