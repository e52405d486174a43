//! The arms: ways to run the same pipeline.

use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use sys::process::{RequestsToEnd, Usage, descendants_usage, end_with_this_thread};

use crate::channels;
use crate::load::{Load, STAGES};
use crate::ours;

/// The argument by which this program is told to carry out one run.
pub(crate) const HIDDEN: &str = "--carry-out";

/// A way to run a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    /// No pipeline: the stages by themselves, one after the other, for what no pipeline can go below.
    Floor,
    /// A thread for each stage, over the standard library's channels.
    Std,
    /// The same over those of `crossbeam-channel`.
    Crossbeam,
    /// The same over those of `kanal`.
    Kanal,
    /// oneTBB's `parallel_pipeline`, with as many workers as there are CPUs, as it does by default.
    Tbb,
    /// The same with eight workers: what its user would have to know.
    Tbb8,
    /// Ours as it is: stages that block have threads, those that compute are carried by workers.
    Rowlock,
    /// Ours with a thread for each stage.
    RowlockThreads,
}

/// All arms, by their names.
const NAMED: [(&str, Arm); 8] = [
    ("floor", Arm::Floor),
    ("std", Arm::Std),
    ("crossbeam", Arm::Crossbeam),
    ("kanal", Arm::Kanal),
    ("onetbb", Arm::Tbb),
    ("onetbb-8", Arm::Tbb8),
    ("rowlock", Arm::Rowlock),
    ("rowlock-threads", Arm::RowlockThreads),
];

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMED.iter().find(|(_, arm)| arm == self).map_or("", |(name, _)| name);
        f.pad(name)
    }
}

impl FromStr for Arm {
    type Err = String;

    fn from_str(text: &str) -> Result<Arm, String> {
        let named = NAMED.iter().find(|(name, _)| *name == text).map(|&(_, arm)| arm);
        named.ok_or_else(|| format!("there is no such arm; there are {}", NAMED.map(|(name, _)| name).join(", ")))
    }
}

impl Arm {
    /// Runs the load here and returns how long it took.
    ///
    /// # Errors
    /// If an item was lost or came out of order.
    pub(crate) fn carry_out(self, load: &Load) -> anyhow::Result<Duration> {
        let start = Instant::now();
        match self {
            Arm::Floor => return Ok(floor(load)),
            Arm::Std => channels::with_std(load)?,
            Arm::Crossbeam => channels::with_crossbeam(load)?,
            Arm::Kanal => channels::with_kanal(load)?,
            Arm::Rowlock => ours::run(load, "threads=blocking")?,
            Arm::RowlockThreads => ours::run(load, "threads=each")?,
            Arm::Tbb | Arm::Tbb8 => bail!("oneTBB has a program of its own"),
        }
        Ok(start.elapsed())
    }

    /// The program that runs it, and its arguments before those of the load.
    fn program(self) -> anyhow::Result<(PathBuf, Vec<String>)> {
        let tbb = |workers: usize| (tbb_program(), vec![workers.to_string()]);
        Ok(match self {
            Arm::Tbb => tbb(sys::cpus::usable() as usize),
            Arm::Tbb8 => tbb(8),
            _ => (std::env::current_exe()?, vec![HIDDEN.to_owned(), self.to_string()]),
        })
    }

    /// Runs the load in a process of its own.
    ///
    /// # Errors
    /// If it fails.
    pub(crate) fn run(self, load: &Load) -> anyhow::Result<Outcome> {
        let (program, words) = self.program()?;
        let mut command = Command::new(program);
        command.args(words).args(load.words()).stderr(Stdio::inherit());
        end_with_this_thread(&mut command, RequestsToEnd::Obey);
        let before = descendants_usage();
        let output = command.output().with_context(|| format!("{self}: cannot be started"))?;
        ensure!(output.status.success(), "{self}: {}", output.status);
        let text = String::from_utf8(output.stdout)?;
        let seconds: f64 = text.trim().parse().with_context(|| format!("{self}: it printed `{}`", text.trim()))?;
        Ok(Outcome { seconds, usage: descendants_usage().since(before) })
    }
}

/// What a run came to.
pub(crate) struct Outcome {
    /// From the first item to the last.
    pub(crate) seconds: f64,
    /// Of the whole process.
    pub(crate) usage: Usage,
}

/// What no pipeline can go below: as long as the slowest stage needs by itself for all items, or all that compute on all CPUs. Some of
/// the items stand for all.
fn floor(load: &Load) -> Duration {
    let items = (load.items / STAGES as u64).max(1);
    let times: Vec<Duration> = (0..STAGES)
        .map(|number| {
            let start = Instant::now();
            (0..items).for_each(|_| load.stage(number));
            start.elapsed()
        })
        .collect();
    let computing: Duration = times.iter().skip(1).step_by(2).sum();
    let slowest = times.into_iter().max().unwrap_or_default();
    slowest.max(computing / sys::cpus::usable()).mul_f64(load.items as f64 / items as f64)
}

fn tbb_program() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pipelines-tbb")
}

/// Builds the program that stands on oneTBB.
///
/// # Errors
/// In words, where that cannot be done here.
pub(crate) fn build_tbb() -> Result<(), String> {
    let mut command = Command::new("g++");
    command.args(["-O2", "-std=c++17", "-o"]).arg(tbb_program());
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/pipelines/tbb.cpp")).arg("-ltbb");
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(text.lines().find(|line| line.contains("error")).unwrap_or("g++ has failed").trim().to_owned())
        }
        Err(why) => Err(format!("there is no g++: {why}")),
    }
}
