//! The contenders, and how they run programs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use anyhow::bail;

use crate::coroutines::May;
use crate::process::{self, Measured};
use crate::programs::Program;
use crate::pthreads::Pthreads;
use crate::rowlock::Rowlock;

/// The hidden argument with which this program runs one of the measured programs.
pub(crate) const HIDDEN: &str = "--carry-out";

/// A system of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    Rowlock,
    Pthreads,
    /// Boost.Fiber with reused stacks of 64 KiB without guard pages.
    BoostPooled,
    /// Boost.Fiber with its defaults.
    Boost,
    Go,
    May,
}

/// A system on one CPU, or on all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contender {
    name: &'static str,
    pub(crate) system: System,
    pub(crate) on_all: bool,
}

/// All contenders.
pub(crate) const ALL: [Contender; 10] = [
    Contender { name: "rowlock", system: System::Rowlock, on_all: false },
    Contender { name: "pthreads", system: System::Pthreads, on_all: false },
    Contender { name: "boost-pooled", system: System::BoostPooled, on_all: false },
    Contender { name: "boost", system: System::Boost, on_all: false },
    Contender { name: "go", system: System::Go, on_all: false },
    Contender { name: "may", system: System::May, on_all: false },
    Contender { name: "rowlock-all", system: System::Rowlock, on_all: true },
    Contender { name: "pthreads-all", system: System::Pthreads, on_all: true },
    Contender { name: "go-all", system: System::Go, on_all: true },
    Contender { name: "may-all", system: System::May, on_all: true },
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

impl Contender {
    /// The number of kernel threads, for systems of user-level threads.
    fn workers(self) -> usize {
        if self.on_all { sys::cpus::usable() as usize } else { 1 }
    }

    /// The approximate cost of a run relative to ours. Expensive runs repeat operations less often.
    pub(crate) fn slowness(self) -> usize {
        match (self.system, self.on_all) {
            (System::Rowlock, false) => 1,
            (System::Rowlock, true) | (System::BoostPooled | System::Go, _) => 5,
            (System::Boost, _) | (System::May, false) => 20,
            (System::Pthreads, _) | (System::May, true) => 100,
        }
    }

    /// Runs a program in this process and prints the results.
    pub(crate) fn carry_out(self, program: Program) -> anyhow::Result<()> {
        match self.system {
            System::Rowlock => program.carry_out::<Rowlock>(self.workers()),
            System::Pthreads => program.carry_out::<Pthreads>(self.workers()),
            System::May => program.carry_out::<May>(self.workers()),
            System::Boost | System::BoostPooled | System::Go => bail!("it runs its own program"),
        }
    }

    /// The contender's own program: its source, and the command that builds it.
    fn peer(self) -> Option<(PathBuf, Command)> {
        let program = |name: &str| Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let source = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/fibers/peers").join(name);
        match self.system {
            System::Boost | System::BoostPooled => {
                let mut command = Command::new("g++");
                command.args(["-O2", "-std=c++17", "-pthread", "-o"]).arg(program("fibers-boost"));
                command.arg(source("boost.cpp")).args(["-lboost_fiber", "-lboost_context"]);
                Some((program("fibers-boost"), command))
            }
            System::Go => {
                let mut command = Command::new("go");
                command.args(["build", "-o"]).arg(program("fibers-go")).arg(source("goroutines.go"));
                Some((program("fibers-go"), command))
            }
            _ => None,
        }
    }

    /// Builds its program, if it has one.
    ///
    /// # Errors
    /// If that is not possible here, with the reason.
    pub(crate) fn build(self) -> Result<(), String> {
        self.peer().map_or(Ok(()), |(_, compiler)| process::compile(compiler))
    }

    fn command(self, program: Program) -> anyhow::Result<Command> {
        let mut command = match self.peer() {
            Some((path, _)) => Command::new(path),
            None => Command::new(std::env::current_exe()?),
        };
        match self.system {
            System::Boost => _ = command.arg("default"),
            System::BoostPooled => _ = command.arg("pooled"),
            // With one CPU, Go uses one kernel thread by itself.
            System::Go => (),
            _ => _ = command.args([HIDDEN, self.name]),
        }
        command.args(program.words());
        Ok(command)
    }

    /// Runs a program in its own process, with a time limit.
    ///
    /// # Errors
    /// If it fails.
    pub(crate) fn run(self, program: Program, time_limit: Duration) -> anyhow::Result<Measured> {
        process::run(self.command(program)?, self.on_all, time_limit)
    }
}
