//! Unmodified MPI programs under `rowlock prun`, and by the launcher of their library.
//!
//! * **Start**: the time to start ranks and to end them, in units of the launcher's.
//! * **Copies**: the time in which several jobs of two ranks end that pass a message around, in
//!   units of as many jobs one after another by the same command. Jobs that take longer than ten
//!   times that are ended, and count as ten.
//!
//! Runs of all arms alternate. `cargo bench -p rowlock-bench-exec --bench mpi` takes five minutes
//! for each library. It leaves out libraries that are not installed; `.ci/setup-mpi` installs them
//! on Debian. The machine should be idle otherwise.
#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Parser;
use rowlock_bench_exec::{build_rowlock, compile_mpi, quantile};
use rustix::process::{Pid, Signal, kill_process};

#[derive(Debug, Parser)]
struct Arguments {
    /// The libraries to measure: mpich, openmpi
    #[arg(long, value_delimiter = ',', default_value = "mpich,openmpi")]
    libraries: Vec<String>,
    /// How many ranks are started and ended at once
    #[arg(long, value_delimiter = ',', default_value = "4")]
    ranks: Vec<u32>,
    /// How many jobs of two ranks run at once
    #[arg(long, value_delimiter = ',', default_value = "2,4")]
    jobs: Vec<usize>,
    /// How often each arm is run
    #[arg(long, default_value_t = 11)]
    repetitions: usize,
    /// How long a job takes alone, in seconds
    #[arg(long, default_value_t = 1.5)]
    seconds: f64,
    /// The rowlock command to measure, instead of building it
    #[arg(long)]
    rowlock: Option<String>,
    /// Passed by cargo to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

/// The longest time of jobs at once, in units of one after another.
const LONGEST: f64 = 10.0;

/// The start of a command that runs ranks, whose number follows.
type Launcher = Vec<String>;

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let rowlock = arguments.rowlock.clone().map_or_else(build_rowlock, Ok)?;
    println!("{:8} {:>6} {:16} {:>6}  interval", "library", "of", "arm", "median");
    for library in &arguments.libraries {
        let folder = tempfile::tempdir()?;
        let Some(program) = compile_mpi(library, folder.path())? else { continue };
        let prun = |options: &[&str]| {
            [&[&*rowlock, "prun"], options, &["-n"]].concat().iter().map(|word| (*word).to_owned()).collect()
        };
        let own: Launcher = match library.as_str() {
            "openmpi" => {
                vec!["mpirun.openmpi".into(), "--allow-run-as-root".into(), "--oversubscribe".into(), "-n".into()]
            }
            _ => vec![format!("mpirun.{library}"), "-n".into()],
        };
        let arms: [(&str, Launcher); 4] = [
            ("mpirun", own),
            ("prun", prun(&[])),
            ("prun strict", prun(&["--how", "strict"])),
            ("prun hint", prun(&["--how", "strict", "--mechanism", "hint"])),
        ];
        for &ranks in &arguments.ranks {
            start(&arguments, library, &program, ranks, &arms[..2])?;
        }
        copies(&arguments, library, &program, &arms)?;
    }
    Ok(())
}

/// The time of a start and an end.
fn start(
    arguments: &Arguments,
    library: &str,
    program: &Path,
    ranks: u32,
    arms: &[(&str, Launcher)],
) -> anyhow::Result<()> {
    let mut found = vec![Vec::new(); arms.len()];
    for _ in 0..arguments.repetitions {
        let times = arms.iter().map(|(_, launcher)| time(launcher, ranks, program, 1, 1));
        let times: Vec<f64> = times.collect::<anyhow::Result<_>>()?;
        found.iter_mut().zip(&times).for_each(|(found, time)| found.push(time / times[0]));
    }
    for ((name, _), found) in arms.iter().zip(found).skip(1) {
        print(library, &format!("{ranks}"), &format!("start, {name}"), found);
    }
    Ok(())
}

/// The time in which several jobs end.
fn copies(arguments: &Arguments, library: &str, program: &Path, arms: &[(&str, Launcher)]) -> anyhow::Result<()> {
    let rounds = rounds_for(arguments.seconds, &arms[0].1, program)?;
    let mut found = vec![vec![Vec::new(); arguments.jobs.len()]; arms.len()];
    for _ in 0..arguments.repetitions {
        for ((_, launcher), found) in arms.iter().zip(&mut found) {
            let alone = time(launcher, 2, program, rounds, 1)?;
            for (&jobs, found) in arguments.jobs.iter().zip(found) {
                let one_after_another = jobs as f64 * alone;
                let limit = LONGEST * one_after_another;
                let taken = time_within(limit, launcher, 2, program, rounds, jobs)?.unwrap_or(limit);
                found.push(taken / one_after_another);
            }
        }
    }
    for ((name, _), found) in arms.iter().zip(found) {
        for (jobs, found) in arguments.jobs.iter().zip(found) {
            print(library, &format!("{jobs}"), &format!("copies, {name}"), found);
        }
    }
    Ok(())
}

/// How many rounds take so long.
fn rounds_for(seconds: f64, launcher: &Launcher, program: &Path) -> anyhow::Result<u64> {
    let mut rounds = 1000;
    loop {
        let (empty, taken) = (time(launcher, 2, program, 1, 1)?, time(launcher, 2, program, rounds, 1)?);
        if taken - empty > seconds / 5.0 {
            return Ok((rounds as f64 * seconds / (taken - empty)) as u64);
        }
        rounds *= 4;
    }
}

/// The time in which so many jobs of this command end, in seconds.
fn time(launcher: &Launcher, ranks: u32, program: &Path, rounds: u64, jobs: usize) -> anyhow::Result<f64> {
    time_within(f64::INFINITY, launcher, ranks, program, rounds, jobs)?.context("no limit")
}

/// The same, unless they take longer than so many seconds. Then they are ended.
fn time_within(
    limit: f64,
    launcher: &Launcher,
    ranks: u32,
    program: &Path,
    rounds: u64,
    jobs: usize,
) -> anyhow::Result<Option<f64>> {
    let began = Instant::now();
    let start = |_| {
        let mut command = Command::new(&launcher[0]);
        command.args(&launcher[1..]).arg(ranks.to_string()).arg(program).args([&rounds.to_string(), "0", "ring"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().with_context(|| launcher[0].clone())
    };
    let mut jobs: Vec<_> = (0..jobs).map(start).collect::<anyhow::Result<_>>()?;
    let mut is_over = false;
    for job in &mut jobs {
        let status = loop {
            match job.try_wait()? {
                Some(status) => break status,
                None if began.elapsed().as_secs_f64() >= limit && !is_over => is_over = true,
                None => std::thread::sleep(Duration::from_micros(500)),
            }
            if is_over {
                kill_process(Pid::from_child(job), Signal::TERM)?;
                break job.wait()?;
            }
        };
        ensure!(is_over || status.success(), "{}: {status}", launcher.join(" "));
    }
    let taken = began.elapsed().as_secs_f64();
    // The next run begins on an idle machine.
    std::thread::sleep(Duration::from_millis(50));
    Ok((!is_over).then_some(taken))
}

fn print(library: &str, of: &str, arm: &str, mut found: Vec<f64>) {
    found.sort_by(f64::total_cmp);
    let [median, low, high] = [0.5, 0.1, 0.9].map(|part| quantile(&found, part));
    println!("{library:8} {of:>6} {arm:20} {median:>6.2}  [{low:.2}, {high:.2}]");
}
