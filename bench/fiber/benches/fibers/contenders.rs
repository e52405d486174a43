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
use crate::{echo, tokio};

/// The hidden argument with which this program runs one of the measured programs.
pub(crate) const HIDDEN: &str = "--carry-out";

/// A system of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// Fibers with their own thread-local variables.
    Safe,
    /// Such fibers that may be interrupted anywhere.
    Preemptible,
    /// Fibers that share those of their worker, which only an `unsafe fn` starts.
    Unsafe,
    Pthreads,
    /// Boost.Fiber with reused stacks of 64 KiB without guard pages.
    BoostPooled,
    /// Boost.Fiber with its defaults.
    Boost,
    Argobots,
    MassiveThreads,
    Go,
    May,
    Tokio,
}

/// A system on one CPU, or on all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contender {
    name: &'static str,
    pub(crate) system: System,
    pub(crate) on_all: bool,
    /// The approximate cost of an operation relative to ours. Expensive ones are repeated less often.
    pub(crate) slowness: usize,
}

const fn on_one(name: &'static str, system: System, slowness: usize) -> Contender {
    Contender { name, system, on_all: false, slowness }
}

const fn on_all(name: &'static str, system: System, slowness: usize) -> Contender {
    Contender { name, system, on_all: true, slowness }
}

/// All contenders.
pub(crate) const ALL: [Contender; 17] = [
    on_one("safe", System::Safe, 1),
    on_one("preemptible", System::Preemptible, 1),
    on_one("unsafe", System::Unsafe, 1),
    on_one("pthreads", System::Pthreads, 100),
    on_one("boost-pooled", System::BoostPooled, 5),
    on_one("boost", System::Boost, 20),
    on_one("argobots", System::Argobots, 2),
    on_one("massivethreads", System::MassiveThreads, 2),
    on_one("go", System::Go, 5),
    on_one("may", System::May, 20),
    on_one("tokio", System::Tokio, 5),
    on_all("safe-all", System::Safe, 5),
    on_all("preemptible-all", System::Preemptible, 5),
    on_all("unsafe-all", System::Unsafe, 5),
    on_all("pthreads-all", System::Pthreads, 100),
    on_all("go-all", System::Go, 5),
    on_all("may-all", System::May, 100),
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

    /// Whether it has channels, which the sieve needs, and sockets, which the server needs.
    pub(crate) fn has_channels_and_sockets(self) -> bool {
        use System::{Argobots, Boost, BoostPooled, MassiveThreads};
        !matches!(self.system, Argobots | Boost | BoostPooled | MassiveThreads)
    }

    /// Runs a program in this process and prints the results.
    pub(crate) fn carry_out(self, program: Program) -> anyhow::Result<()> {
        match self.system {
            System::Safe => program.carry_out::<Rowlock<true>>(self.workers(), false),
            System::Preemptible => program.carry_out::<Rowlock<true>>(self.workers(), true),
            System::Unsafe => program.carry_out::<Rowlock<false>>(self.workers(), false),
            System::Pthreads => program.carry_out::<Pthreads>(self.workers(), true),
            System::May => program.carry_out::<May>(self.workers(), false),
            System::Tokio => tokio::carry_out(program),
            _ => bail!("it runs its own program"),
        }
    }

    /// The contender's own program, and the command that builds it.
    fn peer(self) -> Option<(PathBuf, Command)> {
        let source = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/fibers/peers").join(name);
        let compiler = |compiler: &str, program: &str| {
            let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(program);
            let mut command = Command::new(compiler);
            command
                .args(if compiler == "go" { &["build", "-o"][..] } else { &["-O2", "-pthread", "-o"] })
                .arg(&program);
            (program, command)
        };
        // Libraries that .ci/setup-fiber builds.
        let library = |name: &str, define: &str, link: &str| {
            let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
            let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
            let folder = cache.unwrap_or_default().join("rowlock-peers").join(name);
            let (program, mut command) = compiler("gcc", &format!("fibers-{name}"));
            let [include, libraries] = ["include", "lib"].map(|part| folder.join(part).display().to_string());
            command.arg(source("user_level.c")).args([define, link]);
            command.args([format!("-I{include}"), format!("-L{libraries}"), format!("-Wl,-rpath,{libraries}")]);
            (program, command)
        };
        match self.system {
            System::Boost | System::BoostPooled => {
                let (program, mut command) = compiler("g++", "fibers-boost");
                command.arg("-std=c++17").arg(source("boost.cpp")).args(["-lboost_fiber", "-lboost_context"]);
                Some((program, command))
            }
            System::Argobots => Some(library("argobots", "-DARGOBOTS", "-labt")),
            System::MassiveThreads => Some(library("massivethreads", "-DMASSIVETHREADS", "-lmyth")),
            System::Go => {
                let (program, mut command) = compiler("go", "fibers-go");
                command.arg(source("goroutines.go"));
                Some((program, command))
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
            System::Go | System::Argobots | System::MassiveThreads => (),
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
        let command = self.command(program)?;
        match program {
            Program::Echo { connections } => echo::run(command, self.on_all, connections, time_limit),
            _ => process::run(command, self.on_all, time_limit),
        }
    }
}
