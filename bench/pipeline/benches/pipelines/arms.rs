//! The arms: implementations of the same pipeline.

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

/// The hidden argument with which this program carries out one run.
pub(crate) const HIDDEN: &str = "--carry-out";

/// An implementation of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    /// No pipeline: the time of the stages alone, which is a lower bound for all pipelines.
    Floor,
    /// A thread for each stage, with the standard library's channels.
    Std,
    /// The same with channels of `crossbeam-channel`.
    Crossbeam,
    /// The same with channels of `kanal`.
    Kanal,
    /// oneTBB's `parallel_pipeline` with its default of one worker for each CPU.
    Tbb,
    /// The same with eight workers, which its user would have to choose.
    Tbb8,
    /// This crate's pipeline with its default structure: threads for blocking stages, workers for
    /// compute stages.
    Rowlock,
    /// This crate's pipeline with a thread for each stage.
    RowlockThreads,
}

/// The names of all arms.
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
        named.ok_or_else(|| format!("unknown arm; the arms are {}", NAMED.map(|(name, _)| name).join(", ")))
    }
}

impl Arm {
    /// Runs the load in this process and returns its duration.
    ///
    /// # Errors
    /// If an item was lost or out of order.
    pub(crate) fn carry_out(self, load: &Load) -> anyhow::Result<Duration> {
        let start = Instant::now();
        match self {
            Arm::Floor => return Ok(floor(load)),
            Arm::Std => channels::with_std(load)?,
            Arm::Crossbeam => channels::with_crossbeam(load)?,
            Arm::Kanal => channels::with_kanal(load)?,
            Arm::Rowlock => ours::run(load, "threads=blocking")?,
            Arm::RowlockThreads => ours::run(load, "threads=each")?,
            Arm::Tbb | Arm::Tbb8 => bail!("oneTBB runs its own program"),
        }
        Ok(start.elapsed())
    }

    /// The program that runs this arm, and its arguments before those of the load.
    fn program(self) -> anyhow::Result<(PathBuf, Vec<String>)> {
        let tbb = |workers: usize| (tbb_program(), vec![workers.to_string()]);
        Ok(match self {
            Arm::Tbb => tbb(sys::cpus::usable() as usize),
            Arm::Tbb8 => tbb(8),
            _ => (std::env::current_exe()?, vec![HIDDEN.to_owned(), self.to_string()]),
        })
    }

    /// Runs the load in its own process.
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

/// The results of a run.
pub(crate) struct Outcome {
    /// The time from the first item to the last.
    pub(crate) seconds: f64,
    /// The usage of the whole process.
    pub(crate) usage: Usage,
}

/// The lower bound for all pipelines: the time that the slowest stage needs for all items, or all
/// compute stages on all CPUs. Extrapolated from some items.
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

/// Builds the oneTBB program.
///
/// # Errors
/// If that is not possible here, with the reason.
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
