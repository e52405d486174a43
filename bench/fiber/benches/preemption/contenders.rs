//! The contenders, and how they run programs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use anyhow::bail;
use policy::Span;

use crate::computation::computation;
use crate::endless::{Kernel, Preemptible, alone, late, turns};
use crate::process::{self, Measured};
use crate::sharing::{convoy, spread};

/// The hidden argument with which this program runs one of the measured programs.
pub(crate) const HIDDEN: &str = "--carry-out";

/// A system of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// Preemptible fibers, with this running time.
    Preemptible(Span),
    Pthreads,
    Go,
    /// A single loop without any competition.
    Nothing,
}

/// A system on one CPU, or on all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contender {
    name: &'static str,
    pub(crate) system: System,
    pub(crate) on_all: bool,
}

const fn on_one(name: &'static str, system: System) -> Contender {
    Contender { name, system, on_all: false }
}

const fn on_all(name: &'static str, system: System) -> Contender {
    Contender { name, system, on_all: true }
}

const fn preemptible(micros: u64) -> System {
    System::Preemptible(Span::from_micros(micros))
}

/// All contenders. Boost.Fiber and the coroutines of `may` never preempt: beside an endless loop, a
/// sleeping one never wakes.
pub(crate) const ALL: [Contender; 11] = [
    on_one("preemptible-0.1ms", preemptible(100)),
    on_one("preemptible-1ms", preemptible(1_000)),
    on_one("preemptible-10ms", preemptible(10_000)),
    on_one("pthreads", System::Pthreads),
    on_one("go", System::Go),
    on_one("loop-alone", System::Nothing),
    on_all("preemptible-0.1ms-all", preemptible(100)),
    on_all("preemptible-1ms-all", preemptible(1_000)),
    on_all("preemptible-10ms-all", preemptible(10_000)),
    on_all("pthreads-all", System::Pthreads),
    on_all("go-all", System::Go),
];

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

impl FromStr for Contender {
    type Err = String;

    fn from_str(text: &str) -> Result<Contender, String> {
        let named = ALL.into_iter().find(|contender| contender.name == text);
        named.ok_or_else(|| format!("unknown contender; the contenders are {}", ALL.map(|one| one.name).join(", ")))
    }
}

/// A program to measure in its own process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// A thread that sleeps beside this many loops, repeatedly.
    Late { loops: usize, times: usize },
    /// A loop that runs alone for this many milliseconds.
    Alone { milliseconds: usize },
    /// The first turns of this many loops.
    Turns { loops: usize },
    /// Computations of this many milliseconds each, repeatedly.
    Computation { milliseconds: usize, times: usize },
    /// Threads that lock a mutex of the standard library, this often each.
    Convoy { rounds: usize },
    /// Threads that wait once, and then compute for this many milliseconds.
    Spread { milliseconds: usize },
}

impl Job {
    /// As arguments of a program.
    pub(crate) fn words(self) -> Vec<String> {
        let (name, numbers) = match self {
            Job::Late { loops, times } => ("late", vec![loops, times]),
            Job::Alone { milliseconds } => ("alone", vec![milliseconds]),
            Job::Turns { loops } => ("turns", vec![loops]),
            Job::Computation { milliseconds, times } => ("computation", vec![milliseconds, times]),
            Job::Convoy { rounds } => ("convoy", vec![rounds]),
            Job::Spread { milliseconds } => ("spread", vec![milliseconds]),
        };
        std::iter::once(name.to_owned()).chain(numbers.iter().map(usize::to_string)).collect()
    }

    /// From the arguments of a program.
    pub(crate) fn read(words: &[String]) -> anyhow::Result<Job> {
        let [name, numbers @ ..] = words else { bail!("no program is named") };
        let numbers: Vec<usize> = numbers.iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
        Ok(match (name.as_str(), numbers.as_slice()) {
            ("late", &[loops, times]) => Job::Late { loops, times },
            ("alone", &[milliseconds]) => Job::Alone { milliseconds },
            ("turns", &[loops]) => Job::Turns { loops },
            ("computation", &[milliseconds, times]) => Job::Computation { milliseconds, times },
            ("convoy", &[rounds]) => Job::Convoy { rounds },
            ("spread", &[milliseconds]) => Job::Spread { milliseconds },
            _ => bail!("there is no program `{}`", words.join(" ")),
        })
    }
}

impl Contender {
    /// Runs a program in this process and prints the results.
    #[allow(clippy::print_stdout, reason = "a benchmark prints its results")]
    pub(crate) fn carry_out(self, job: Job) -> anyhow::Result<()> {
        let workers = if self.on_all { sys::cpus::usable() as usize } else { 1 };
        let measured = match (self.system, job) {
            (System::Preemptible(quantum), Job::Late { loops, times }) => {
                late(Preemptible(quantum, workers), loops, times)
            }
            (System::Pthreads, Job::Late { loops, times }) => late(Kernel, loops, times),
            (System::Preemptible(quantum), Job::Turns { loops }) => turns(Preemptible(quantum, workers), loops),
            (System::Pthreads, Job::Turns { loops }) => turns(Kernel, loops),
            (System::Preemptible(quantum), Job::Convoy { rounds }) => convoy(Preemptible(quantum, workers), rounds),
            (System::Pthreads, Job::Convoy { rounds }) => convoy(Kernel, rounds),
            (System::Preemptible(quantum), Job::Spread { milliseconds }) => {
                spread(Preemptible(quantum, workers), milliseconds)
            }
            (System::Pthreads, Job::Spread { milliseconds }) => spread(Kernel, milliseconds),
            (System::Nothing, Job::Alone { milliseconds }) => alone(milliseconds),
            (System::Preemptible(_), Job::Computation { milliseconds, times }) => {
                computation(Duration::from_millis(milliseconds as u64), times)
            }
            _ => bail!("{self} cannot run this"),
        };
        for (name, value) in measured {
            println!("{name} {value:.3}");
        }
        Ok(())
    }

    fn program() -> PathBuf {
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("preemption-go")
    }

    /// Builds its program, if it has one.
    ///
    /// # Errors
    /// If that is not possible here, with the reason.
    pub(crate) fn build(self) -> Result<(), String> {
        if self.system != System::Go {
            return Ok(());
        }
        let mut compiler = Command::new("go");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/preemption/peers/preemption.go");
        compiler.args(["build", "-o"]).arg(Contender::program()).arg(source);
        process::compile(compiler)
    }

    /// Runs a program in its own process, with a time limit.
    ///
    /// # Errors
    /// If it fails.
    pub(crate) fn run(self, job: Job, time_limit: Duration) -> anyhow::Result<Measured> {
        let mut command = match self.system {
            System::Go => Command::new(Contender::program()),
            _ => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args([HIDDEN, self.name]);
                command
            }
        };
        command.args(job.words());
        process::run(command, self.on_all, time_limit)
    }
}
