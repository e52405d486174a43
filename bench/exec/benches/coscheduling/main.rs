//! The work that several parallel jobs do together on this machine, in units of one job alone: as
//! they are, with `rowlock exec`, and in the turns of `rowlock prun`.
//!
//! A job is a team of two threads that compute and meet, or `block`, which computes and sleeps. All
//! jobs of a run begin before a window and end after it, and count their meetings in it. Runs alone
//! and runs of all arms alternate, and each run is divided by the one alone of the same batch.
//!
//! `cargo bench -p rowlock-bench-exec --bench coscheduling -- [ARM...]` measures these arms, or
//! all. A cell of 11 batches takes two minutes, and all of them 40 minutes. The machine should
//! be idle otherwise.
#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use rowlock_bench_exec::{Window, build_rowlock, compile, number_of, quantile, start};

#[derive(Debug, Parser)]
struct Arguments {
    /// The arms to measure [default: all]
    #[arg(value_enum)]
    arms: Vec<Arm>,
    /// How a team meets: spin, bound (spin, on a CPU for each thread), barrier (of pthreads) or
    /// block
    #[arg(long, value_delimiter = ',', default_value = "spin,bound,barrier,block")]
    meet: Vec<String>,
    /// The numbers of jobs
    #[arg(long, value_delimiter = ',', default_value = "2,4,8")]
    jobs: Vec<usize>,
    /// The computation between two meetings, in microseconds
    #[arg(long, value_delimiter = ',', default_value = "20,200")]
    grains: Vec<f64>,
    /// How often each arm is run
    #[arg(long, default_value_t = 11)]
    repetitions: usize,
    /// The window, in seconds
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// The rowlock command to measure, instead of building it
    #[arg(long)]
    rowlock: Option<String>,
    /// Passed by cargo to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

/// A way to start jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Arm {
    /// As they are.
    Plain,
    /// With `rowlock exec`.
    Exec,
    /// With `rowlock prun`.
    Prun,
    /// With `rowlock prun`, without the preloaded library.
    PrunAsWritten,
    /// As before, and stopped by signals.
    PrunBySignals,
    /// With `rowlock prun` and turns of 50 ms.
    Prun50,
    /// With turns of 100 ms, lowered instead of stopped.
    Moderate100,
}

impl Arm {
    /// The words before the program.
    fn words(self) -> &'static [&'static str] {
        match self {
            Arm::Plain => &[],
            Arm::Exec => &["exec", "--"],
            Arm::Prun => &["prun", "--"],
            Arm::PrunAsWritten => &["prun", "--wait", "none", "--"],
            Arm::PrunBySignals => &["prun", "--wait", "none", "--mechanism", "signals", "--"],
            Arm::Prun50 => &["prun", "--slice", "50 ms", "--"],
            Arm::Moderate100 => &["prun", "--how", "moderate", "--slice", "100 ms", "--"],
        }
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let rowlock = arguments.rowlock.clone().map_or_else(build_rowlock, Ok)?;
    let folder = tempfile::tempdir()?;
    let team = compile("coscheduling/team.c", folder.path())?;
    let arms = if arguments.arms.is_empty() { Arm::value_variants() } else { &arguments.arms[..] };
    println!("{:8} {:>6} {:>5}  {:15} {:>6}  interval", "meet", "grain", "jobs", "arm", "median");
    for meet in &arguments.meet {
        for &grain in &arguments.grains {
            for &jobs in &arguments.jobs {
                let run = Run { rowlock: &rowlock, team: &team, meet, grain, seconds: arguments.seconds };
                let mut found = vec![Vec::new(); arms.len()];
                for _ in 0..arguments.repetitions {
                    let alone = run.meetings(Arm::Plain, 1)?;
                    for (&arm, found) in arms.iter().zip(&mut found) {
                        found.push(run.meetings(arm, jobs)? / alone);
                    }
                }
                for (arm, mut found) in arms.iter().zip(found) {
                    found.sort_by(f64::total_cmp);
                    let [median, low, high] = [0.5, 0.1, 0.9].map(|part| quantile(&found, part));
                    let arm = format!("{arm:?}").to_lowercase();
                    println!("{meet:8} {grain:>6} {jobs:>5}  {arm:15} {median:>6.2}  [{low:.2}, {high:.2}]");
                }
            }
        }
    }
    Ok(())
}

struct Run<'a> {
    rowlock: &'a str,
    team: &'a Path,
    meet: &'a str,
    grain: f64,
    seconds: f64,
}

impl Run<'_> {
    /// The meetings of all jobs together in a window.
    fn meetings(&self, arm: Arm, jobs: usize) -> anyhow::Result<f64> {
        let window = Window::of(self.seconds);
        let mut command = match arm.words() {
            [] => Command::new(self.team),
            words => {
                let mut command = Command::new(self.rowlock);
                command.args(words).arg(self.team);
                command
            }
        };
        command.arg(self.meet).arg((self.grain * 1e3).to_string());
        window.add_to(&mut command);
        let started = (0..jobs).map(|_| start(&mut command)).collect::<Result<Vec<_>, _>>()?;
        let sum = started.into_iter().map(number_of).sum::<anyhow::Result<f64>>()?;
        // The next run begins on an idle machine.
        std::thread::sleep(Duration::from_millis(50));
        Ok(sum)
    }
}
