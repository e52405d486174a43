//! The speedup of unmodified programs with `rowlock exec`: programs in C that only compute and
//! synchronize, with pthread barriers, OpenMP or MPI, alone and beside hogs. Each program prints
//! the duration of its rounds. Runs with and without rowlock alternate.
//!
//! `cargo bench -p rowlock-bench-exec --bench exec -- [NAME...]` runs the cells whose names contain
//! one of these, or all. Programs without an installed compiler or launcher are left out, with a
//! message. A cell takes some seconds, and all of them a quarter of an hour. The machine should be
//! idle otherwise.
#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail, ensure};
use clap::Parser;
use measure::interleaving::{Side, alternate};
use rowlock_bench_exec::build_rowlock;
use stats::paired::Speedup;

#[derive(Debug, Parser)]
struct Arguments {
    /// Only cells with one of these in their names
    names: Vec<String>,
    /// The number of pairs of runs for each figure
    #[arg(long, default_value_t = 15)]
    pairs: u32,
    /// The duration of a run alone and without rowlock, in seconds
    #[arg(long, default_value_t = 0.2)]
    seconds: f64,
    /// The numbers of hogs beside each program
    #[arg(long, value_delimiter = ',', default_value = "0,1,2")]
    hogs: Vec<u32>,
    /// The rowlock command to measure, instead of building it
    #[arg(long)]
    rowlock: Option<String>,
    /// Passed by cargo to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

/// A program to measure.
struct Cell {
    name: String,
    /// `ROUNDS` is replaced by their number.
    command: Vec<String>,
    environment: &'static [(&'static str, &'static str)],
}

const ROUNDS: &str = "ROUNDS";
/// Fewer rounds would not be representative.
const FEWEST_ROUNDS: f64 = 64.0;
const MOST_ROUNDS: f64 = 1e7;

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let rowlock = arguments.rowlock.map_or_else(build_rowlock, Ok)?;
    let folder = tempfile::tempdir()?;
    let cells = cells(folder.path())?;
    let hog = folder.path().join("barrier-cc");
    let wanted =
        |cell: &&Cell| arguments.names.is_empty() || arguments.names.iter().any(|name| cell.name.contains(name));
    println!(
        "{:34} {:>4} {:>10} {:>12} {:>12}  {:>8}  mean of ratios, 95 % interval",
        "program", "hogs", "rounds", "without", "with", "medians"
    );
    for cell in cells.iter().filter(wanted) {
        let rounds = rounds(cell, arguments.seconds)?;
        for &hogs in &arguments.hogs {
            let hogs = hogs_of(&hog, hogs)?;
            let line = measure(&rowlock, cell, rounds, &hogs, arguments.pairs).with_context(|| cell.name.clone())?;
            println!("{line}");
        }
    }
    Ok(())
}

/// All cells that this machine can run.
fn cells(folder: &Path) -> anyhow::Result<Vec<Cell>> {
    let mut cells = Vec::new();
    let Some(barrier) = compile(folder, "barrier", "cc", &["-pthread"])? else { bail!("there is no cc") };
    let nanos = nanos_per_addition(&barrier)?;
    let additions = |micros: f64| ((micros * 1e3 / nanos) as u64).to_string();
    let text = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    for (threads, micros) in [("2", 0.5), ("4", 0.5), ("2", 50.0), ("4", 50.0)] {
        cells.push(Cell {
            name: format!("pthread {threads} threads {micros} us"),
            command: text(&[&barrier.to_string_lossy(), threads, ROUNDS, &additions(micros)]),
            environment: &[],
        });
    }
    for compiler in ["gcc", "clang"] {
        let Some(openmp) = compile(folder, "openmp", compiler, &["-fopenmp"])? else { continue };
        for (threads, micros, what) in [
            ("2", 0.5, "barrier"),
            ("4", 0.5, "barrier"),
            ("4", 50.0, "barrier"),
            ("2", 0.5, "region"),
            ("4", 0.5, "region"),
        ] {
            cells.push(Cell {
                name: format!("{compiler} OpenMP {what} {threads} threads {micros} us"),
                command: text(&[&openmp.to_string_lossy(), threads, ROUNDS, &additions(micros), what]),
                environment: &[],
            });
        }
    }
    const AS_ROOT: &[(&str, &str)] = &[("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];
    const YIELDING: &[(&str, &str)] = &[AS_ROOT[0], AS_ROOT[1], ("OMPI_MCA_mpi_yield_when_idle", "1")];
    let libraries: [(&str, &str, &[&str], &[_]); 2] = [
        ("MPICH", "mpich", &[], &[("", AS_ROOT)]),
        ("Open MPI", "openmpi", &["--oversubscribe"], &[("", AS_ROOT), (" told to yield", YIELDING)]),
    ];
    for (name, suffix, options, settings) in libraries {
        let Some(mpi) = compile(folder, "mpi", &format!("mpicc.{suffix}"), &[])? else { continue };
        for (what, ranks) in [("barrier", "2"), ("barrier", "4"), ("ring", "2"), ("ring", "4")] {
            for &(setting, environment) in settings {
                let mut command = text(&[&format!("mpirun.{suffix}"), "-n", ranks]);
                command.extend(text(options));
                command.extend(text(&[&mpi.to_string_lossy(), ROUNDS, &additions(0.5), what]));
                cells.push(Cell { name: format!("{name}{setting} {what} {ranks} ranks"), command, environment });
            }
        }
    }
    Ok(cells)
}

/// Compiles one of the programs beside this file. Returns `None` if there is no such compiler.
fn compile(folder: &Path, program: &str, compiler: &str, options: &[&str]) -> anyhow::Result<Option<PathBuf>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/exec").join(program).with_extension("c");
    let binary = folder.join(format!("{program}-{compiler}"));
    let status = Command::new(compiler).args(["-O2", "-o"]).arg(&binary).arg(&source).args(options).status();
    match status {
        Ok(status) if status.success() => Ok(Some(binary)),
        Ok(status) => bail!("{compiler} {}: {status}", source.display()),
        Err(why) => {
            println!("left out: programs for {compiler}: {why}");
            Ok(None)
        }
    }
}

fn nanos_per_addition(barrier: &Path) -> anyhow::Result<f64> {
    const ADDITIONS: f64 = 2e8;
    let mut seconds = f64::INFINITY;
    for _ in 0..3 {
        seconds = seconds.min(reported_seconds(Command::new(barrier).args(["1", "1", &ADDITIONS.to_string()]))?);
    }
    Ok(seconds * 1e9 / ADDITIONS)
}

/// The number of rounds of a run of about this many seconds.
fn rounds(cell: &Cell, seconds: f64) -> anyhow::Result<u64> {
    let mut rounds = 8.0;
    loop {
        let took = reported_seconds(&mut run(&[], cell, rounds as u64)).with_context(|| cell.name.clone())?.max(1e-6);
        if took > seconds / 2.0 || rounds >= MOST_ROUNDS {
            return Ok((rounds * seconds / took).clamp(FEWEST_ROUNDS, MOST_ROUNDS) as u64);
        }
        rounds *= (seconds / took).clamp(2.0, 8.0);
    }
}

/// The program of a cell, started by a prefix.
fn run(prefix: &[&str], cell: &Cell, rounds: u64) -> Command {
    let word = |word: &String| if word == ROUNDS { rounds.to_string() } else { word.clone() };
    let words: Vec<String> = prefix.iter().map(|&word| word.to_owned()).chain(cell.command.iter().map(word)).collect();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).envs(cell.environment.iter().copied());
    command
}

/// The number of seconds that a program reports for its rounds.
fn reported_seconds(command: &mut Command) -> anyhow::Result<f64> {
    let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Programs that compute until they are dropped.
struct Hogs(Vec<Child>);

fn hogs_of(program: &Path, count: u32) -> anyhow::Result<Hogs> {
    let mut hogs = Hogs(Vec::new());
    for _ in 0..count {
        hogs.0.push(Command::new(program).args(["1", "1", &i64::MAX.to_string()]).stdout(Stdio::null()).spawn()?);
    }
    Ok(hogs)
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

/// Measures a cell and returns a row of the table.
fn measure(rowlock: &str, cell: &Cell, rounds: u64, hogs: &Hogs, pairs: u32) -> anyhow::Result<String> {
    let mut times = Vec::new();
    let time = |side| {
        let prefix: &[&str] = if side == Side::Contender { &[rowlock, "exec", "--"] } else { &[] };
        reported_seconds(&mut run(prefix, cell, rounds)).map(Some)
    };
    alternate(pairs, time, |without, with| times.push((without, with)))?;
    let speedup = Speedup::of(&times).context("there are no pairs")?;
    let rate = |seconds: f64| format!("{:.0}/s", rounds as f64 / seconds);
    let (low, high) = speedup.ratio.interval.unwrap_or((f64::NAN, f64::NAN));
    Ok(format!(
        "{:34} {:4} {rounds:10} {:>12} {:>12}  {:8.2}  {:.2} [{low:.2}, {high:.2}]",
        cell.name,
        hogs.0.len(),
        rate(speedup.first_median),
        rate(speedup.second_median),
        speedup.first_median / speedup.second_median,
        speedup.ratio.mean,
    ))
}
