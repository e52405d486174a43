//! Unmodified MPI programs under `rowlock prun`, and by the launcher of their library.
//!
//! * **Start**: the time to start ranks and to end them, in units of the launcher's.
//! * **Copies**: the time in which several jobs of two ranks end that compute and pass a message
//!   around, in units of as many jobs one after another by the same command. The unit is the mean of
//!   one job before and one after: a virtual machine may move lines between its CPUs at speeds that
//!   change within seconds. Jobs that take longer than four times that are ended, and count as four.
//!
//! Runs of all arms alternate. `cargo bench -p rowlock-bench-exec --bench mpi` takes an hour
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
    /// How long a rank computes between two messages, in microseconds
    #[arg(long, value_delimiter = ',', default_value = "0,20")]
    grains: Vec<f64>,
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
const LONGEST: f64 = 4.0;

/// The start of a command that runs ranks, whose number follows.
type Launcher = Vec<String>;

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let rowlock = arguments.rowlock.clone().map_or_else(build_rowlock, Ok)?;
    println!("{:8} {:>6} {:20} {:>6}  interval", "library", "of", "arm", "median");
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
        let nanos = nanos_per_addition(&program)?;
        for &grain in &arguments.grains {
            copies(&arguments, library, &program, grain, (grain * 1e3 / nanos) as u64, &arms)?;
        }
    }
    Ok(())
}

/// The time of an addition between two messages, in nanoseconds.
fn nanos_per_addition(program: &Path) -> anyhow::Result<f64> {
    const ADDITIONS: u32 = 200_000_000;
    let output = Command::new(program).args(["1", &ADDITIONS.to_string(), "barrier"]).output()?;
    ensure!(output.status.success(), "{}: {}", program.display(), output.status);
    Ok(String::from_utf8(output.stdout)?.trim().parse::<f64>()? * 1e9 / f64::from(ADDITIONS))
}

/// Jobs of the same command.
struct Jobs<'a> {
    launcher: &'a Launcher,
    ranks: u32,
    program: &'a Path,
    rounds: u64,
    /// Before each round.
    additions: u64,
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
        let times = arms.iter().map(|(_, launcher)| Jobs { launcher, ranks, program, rounds: 1, additions: 0 }.time());
        let times: Vec<f64> = times.collect::<anyhow::Result<_>>()?;
        found.iter_mut().zip(&times).for_each(|(found, time)| found.push(time / times[0]));
    }
    for ((name, _), found) in arms.iter().zip(found).skip(1) {
        print(library, &format!("{ranks}"), &format!("start, {name}"), found);
    }
    Ok(())
}

/// The time in which several jobs end.
fn copies(
    arguments: &Arguments,
    library: &str,
    program: &Path,
    grain: f64,
    additions: u64,
    arms: &[(&str, Launcher)],
) -> anyhow::Result<()> {
    let jobs = |launcher, rounds| Jobs { launcher, ranks: 2, program, rounds, additions };
    let rounds = rounds_for(arguments.seconds, |rounds| jobs(&arms[0].1, rounds))?;
    let mut found = vec![vec![Vec::new(); arguments.jobs.len()]; arms.len()];
    for _ in 0..arguments.repetitions {
        for ((_, launcher), found) in arms.iter().zip(&mut found) {
            let jobs = jobs(launcher, rounds);
            let mut before = jobs.time()?;
            for (&copies, found) in arguments.jobs.iter().zip(found) {
                let limit = LONGEST * copies as f64 * before;
                let taken = jobs.time_of_copies(copies, limit)?;
                let after = jobs.time()?;
                let one_after_another = copies as f64 * (before + after) / 2.0;
                found.push(taken.map_or(LONGEST, |taken| taken / one_after_another));
                before = after;
            }
        }
    }
    for ((name, _), found) in arms.iter().zip(found) {
        for (copies, found) in arguments.jobs.iter().zip(found) {
            print(library, &format!("{copies}"), &format!("{grain} us, {name}"), found);
        }
    }
    Ok(())
}

/// How many rounds of a job take so long.
fn rounds_for<'a>(seconds: f64, job: impl Fn(u64) -> Jobs<'a>) -> anyhow::Result<u64> {
    let mut rounds = 1000;
    loop {
        let (empty, taken) = (job(1).time()?, job(rounds).time()?);
        if taken - empty > seconds / 5.0 {
            return Ok((rounds as f64 * seconds / (taken - empty)) as u64);
        }
        rounds *= 4;
    }
}

impl Jobs<'_> {
    /// The time of one, in seconds.
    fn time(&self) -> anyhow::Result<f64> {
        self.time_of_copies(1, f64::INFINITY)?.context("no limit")
    }

    /// The time in which so many end that start together, unless they take longer than so many
    /// seconds. Then they are ended.
    fn time_of_copies(&self, copies: usize, limit: f64) -> anyhow::Result<Option<f64>> {
        let began = Instant::now();
        let start = |_| {
            let mut command = Command::new(&self.launcher[0]);
            command.args(&self.launcher[1..]).arg(self.ranks.to_string()).arg(self.program);
            command.args([&self.rounds.to_string(), &self.additions.to_string(), "ring"]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().with_context(|| self.launcher[0].clone())
        };
        let mut jobs: Vec<_> = (0..copies).map(start).collect::<anyhow::Result<_>>()?;
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
            ensure!(is_over || status.success(), "{}: {status}", self.launcher.join(" "));
        }
        let taken = began.elapsed().as_secs_f64();
        // The next run begins on an idle machine.
        std::thread::sleep(Duration::from_millis(50));
        Ok((!is_over).then_some(taken))
    }
}

fn print(library: &str, of: &str, arm: &str, mut found: Vec<f64>) {
    found.sort_by(f64::total_cmp);
    let [median, low, high] = [0.5, 0.1, 0.9].map(|part| quantile(&found, part));
    println!("{library:8} {of:>6} {arm:20} {median:>6.2}  [{low:.2}, {high:.2}]");
}
