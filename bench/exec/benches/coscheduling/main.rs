//! The work that several parallel jobs do together on this machine, in units of one job alone: as
//! they are, with `rowlock exec`, and in the turns of `rowlock prun`.
//!
//! A job is a team of two threads that compute and meet, or `block`, which computes and sleeps. All
//! jobs of a run begin before a window and end after it, and count their meetings in it. Runs alone
//! and runs of all arms alternate, and each job is divided by one of its kind alone in the same
//! batch.
//!
//! Jobs that spin in one phase and sleep in the next one have a window of several phases, and each
//! kind of phase counts for half: `--meet alternate:1` for jobs that spin at the same time, and
//! `--mixes alternate:1+opposite:1` for jobs that spin one after the other, with phases of 1 s.
//!
//! `cargo bench -p rowlock-bench-exec --bench coscheduling -- [ARM...]` measures these arms, or
//! all. A cell of 11 batches takes three minutes, and all of them almost two hours. The machine
//! should be idle otherwise.
#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use rowlock_bench_exec::{Window, build_rowlock, compile, numbers_of, quantile, start};

#[derive(Debug, Parser)]
struct Arguments {
    /// The arms to measure [default: all]
    #[arg(value_enum)]
    arms: Vec<Arm>,
    /// How a team meets: spin, bound (spin, on a CPU for each thread), poll (spin, then block),
    /// barrier (of pthreads), openmp (its barrier), active (the same, with OMP_WAIT_POLICY=active),
    /// block, alternate:PERIOD (bound and then block, for so many seconds each) or opposite:PERIOD
    /// (block and then bound); nothing for mixes alone
    #[arg(long, value_delimiter = ',', default_value = "spin,bound,poll,barrier,openmp,active,block")]
    meet: Vec<String>,
    /// Jobs of several kinds, or nothing
    #[arg(long, value_delimiter = ',', default_value = "spin+block,spin+spin+block,spin+poll,spin+spin+poll")]
    mixes: Vec<String>,
    /// The numbers of jobs
    #[arg(long, value_delimiter = ',', default_value = "2,4,8")]
    jobs: Vec<usize>,
    /// The computation between two meetings, in microseconds
    #[arg(long, value_delimiter = ',', default_value = "20,200")]
    grains: Vec<f64>,
    /// How often each arm is run
    #[arg(long, default_value_t = 11)]
    repetitions: usize,
    /// The window, in seconds; at least two periods of jobs that alternate
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
    /// As before, as another user than root, if root runs this.
    PrunUnprivileged,
    /// With `rowlock prun`, never in turns.
    PrunNone,
    /// With `rowlock prun`, always in turns.
    PrunStrict,
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
            Arm::PrunBySignals | Arm::PrunUnprivileged => &["prun", "--wait", "none", "--mechanism", "signals", "--"],
            Arm::PrunNone => &["prun", "--how", "none", "--"],
            Arm::PrunStrict => &["prun", "--how", "strict", "--"],
            Arm::Prun50 => &["prun", "--slice", "50 ms", "--"],
            Arm::Moderate100 => &["prun", "--how", "moderate", "--slice", "100 ms", "--"],
        }
    }
}

/// The number of a user and a group without rights.
const UNPRIVILEGED: u32 = 65_534;

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let rowlock = arguments.rowlock.clone().map_or_else(build_rowlock, Ok)?;
    let folder = tempfile::tempdir()?;
    // Other users run the program as well.
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
    let team = compile("coscheduling/team.c", folder.path())?;
    let copy = folder.path().join("rowlock");
    #[expect(clippy::disallowed_methods, reason = "it is in a new folder")]
    std::fs::copy(&rowlock, &copy)?;
    let arms = if arguments.arms.is_empty() { Arm::value_variants() } else { &arguments.arms[..] };
    let named = |names: &[String]| names.iter().filter(|name| !name.is_empty()).cloned().collect::<Vec<_>>();
    let (meet, mixes) = (named(&arguments.meet), named(&arguments.mixes));
    let alike = meet.iter().flat_map(|meet| arguments.jobs.iter().map(|&jobs| vec![meet.as_str(); jobs]));
    let mixed = mixes.iter().map(|mix| mix.split('+').collect());
    println!("{:16} {:>6} {:>5}  {:15} {:>6}  interval", "meet", "grain", "jobs", "arm", "median");
    for jobs in alike.chain(mixed) {
        let kinds: BTreeSet<&str> = jobs.iter().copied().collect();
        for &grain in &arguments.grains {
            let longest =
                kinds.iter().copied().map(period).collect::<anyhow::Result<Vec<_>>>()?.into_iter().fold(0.0, f64::max);
            let (rowlock, seconds) = (Path::new(&rowlock), arguments.seconds.max(4.0 * longest));
            let run = Run { rowlock, copy: &copy, team: &team, grain, seconds };
            let mut found = vec![Vec::new(); arms.len()];
            for _ in 0..arguments.repetitions {
                let alone = |&kind| Ok((kind, run.meetings(Arm::Plain, &[kind])?.remove(0)));
                let alone: BTreeMap<&str, Vec<f64>> = kinds.iter().map(alone).collect::<anyhow::Result<_>>()?;
                for (&arm, found) in arms.iter().zip(&mut found) {
                    let meetings = run.meetings(arm, &jobs)?;
                    found.push(
                        meetings.iter().zip(&jobs).map(|(meetings, kind)| work(meetings, &alone[kind])).sum::<f64>(),
                    );
                }
            }
            let name = if kinds.len() > 1 { jobs.join("+") } else { jobs[0].to_owned() };
            for (arm, mut found) in arms.iter().zip(found) {
                found.sort_by(f64::total_cmp);
                let [median, low, high] = [0.5, 0.1, 0.9].map(|part| quantile(&found, part));
                let arm = format!("{arm:?}").to_lowercase();
                println!("{name:16} {grain:>6} {:>5}  {arm:15} {median:>6.2}  [{low:.2}, {high:.2}]", jobs.len());
            }
        }
    }
    Ok(())
}

/// The length of a phase of such jobs in seconds, or 0 if they have none.
fn period(kind: &str) -> anyhow::Result<f64> {
    kind.split_once(':').map_or(Ok(0.0), |(_, period)| Ok(period.parse()?))
}

/// The work of a job in units of one alone, given the meetings of both in each kind of phase.
fn work(meetings: &[f64], alone: &[f64]) -> f64 {
    meetings.iter().zip(alone).map(|(meetings, alone)| meetings / alone).sum::<f64>() / alone.len() as f64
}

struct Run<'a> {
    rowlock: &'a Path,
    /// The same where every user may execute it.
    copy: &'a Path,
    team: &'a Path,
    grain: f64,
    seconds: f64,
}

impl Run<'_> {
    /// The meetings of each of these jobs, in each kind of phase that it has, in a window in which
    /// all of them run.
    fn meetings(&self, arm: Arm, jobs: &[&str]) -> anyhow::Result<Vec<Vec<f64>>> {
        let window = Window::of(self.seconds);
        let command = |meet: &str| {
            let mut command = match arm.words() {
                [] => Command::new(self.team),
                words => {
                    let is_unprivileged = arm == Arm::PrunUnprivileged && rustix::process::geteuid().is_root();
                    let mut command = Command::new(if is_unprivileged { self.copy } else { self.rowlock });
                    command.args(words).arg(self.team);
                    if is_unprivileged {
                        // It may have no right to this folder.
                        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED).current_dir("/");
                    }
                    command
                }
            };
            let is_active = meet == "active";
            if is_active {
                command.env("OMP_WAIT_POLICY", "active");
            }
            command.arg(if is_active { "openmp" } else { meet }).arg((self.grain * 1e3).to_string());
            window.add_to(&mut command);
            command
        };
        let started = jobs.iter().map(|&meet| start(&mut command(meet))).collect::<Result<Vec<_>, _>>()?;
        let meetings = started.into_iter().map(numbers_of).collect();
        // The next run begins on an idle machine.
        std::thread::sleep(Duration::from_millis(50));
        meetings
    }
}
