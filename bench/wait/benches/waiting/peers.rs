//! Builds the programs in other languages, all from one source, with the compilers that are
//! installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::arms::Peer;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/waiting/peers/barrier.cpp");

/// The folder of built programs.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

/// Newest first. The last one is the distribution's default.
const CLANG: &[&str] = &["clang++-21", "clang++-20", "clang++-19", "clang++-18", "clang++-17", "clang++-16", "clang++"];

impl Peer {
    /// The compilers that can build it, the flags that select the library, and the name of the
    /// program.
    const fn recipe(self) -> (&'static [&'static str], &'static [&'static str], &'static str) {
        match self {
            Peer::Libstdcxx => (&["g++"], &["-pthread"], "barrier-libstdc++"),
            Peer::Libcxx => (CLANG, &["-pthread", "-stdlib=libc++"], "barrier-libc++"),
            Peer::Libgomp => (&["g++"], &["-pthread", "-fopenmp"], "barrier-libgomp"),
            Peer::Libomp => (CLANG, &["-pthread", "-fopenmp=libomp"], "barrier-libomp"),
        }
    }

    /// The path of its program, once built.
    pub(crate) fn program(self) -> PathBuf {
        Path::new(FOLDER).join(self.recipe().2)
    }

    /// Builds its program.
    ///
    /// # Errors
    /// If a compiler or library is missing.
    pub(crate) fn build(self) -> Result<(), String> {
        let (compilers, flags, name) = self.recipe();
        let mut reason = format!("there is no {}", compilers[compilers.len() - 1]);
        for compiler in compilers {
            let mut command = Command::new(compiler);
            command.args(["-O2", "-std=c++20"]).args(flags).arg("-o").arg(self.program()).arg(SOURCE);
            match command.output() {
                Ok(output) if output.status.success() => return Ok(()),
                Ok(output) => {
                    let text = String::from_utf8_lossy(&output.stderr).into_owned();
                    let first =
                        text.lines().find(|line| line.contains("error")).unwrap_or("it failed").trim().to_owned();
                    reason = format!("{compiler} cannot build {name}: {first}");
                }
                Err(_) => {}
            }
        }
        Err(reason)
    }
}
