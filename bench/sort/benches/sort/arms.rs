//! The arms: what sorts the same file, and the floor that none of them can go below.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::bail;
use rowlock_sort::{Algorithm, Format, Input, Key, Order, Output, Sort, Variant};

use crate::cage::Cage;
use crate::records::{KEY, Kind, SIZE};

/// The argument by which this program is told to be the floor.
pub(crate) const FLOOR: &str = "--floor";

/// The argument by which this program is told to sort.
pub(crate) const SORT: &str = "--sort";

/// What sorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    /// No sort: the disk.
    Floor,
    /// This crate's sort, which merges.
    Merge,
    /// This crate's columnsort.
    Columnsort,
    /// GNU sort with two threads, so many runs at a time that it merges once.
    Gnu,
    /// STXXL's streams from one file to another, with the parallel mode of the C++ library.
    Stxxl,
    /// STXXL's sort of a file in place, likewise.
    StxxlInPlace,
}

/// All arms, by their names.
const NAMED: [(&str, Arm); 6] = [
    ("floor", Arm::Floor),
    ("merge", Arm::Merge),
    ("columnsort", Arm::Columnsort),
    ("gnu", Arm::Gnu),
    ("stxxl", Arm::Stxxl),
    ("stxxl-in-place", Arm::StxxlInPlace),
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

/// What is sorted, from where to where, and with what.
pub(crate) struct Task<'t> {
    pub(crate) kind: Kind,
    pub(crate) input: &'t Path,
    pub(crate) output: &'t Path,
    /// For temporary files.
    pub(crate) folder: &'t Path,
    /// In bytes.
    pub(crate) memory: u64,
}

impl Arm {
    /// All that can sort such records.
    pub(crate) fn all(kind: Kind) -> Vec<Arm> {
        let can = |arm: &Arm| kind == Kind::Fixed || !matches!(arm, Arm::Columnsort | Arm::Stxxl | Arm::StxxlInPlace);
        NAMED.into_iter().map(|(_, arm)| arm).filter(can).collect()
    }

    /// Whether somebody else has made it.
    pub(crate) fn is_peer(self) -> bool {
        matches!(self, Arm::Gnu | Arm::Stxxl | Arm::StxxlInPlace)
    }

    /// Whether equal records stay in the order of the input.
    pub(crate) fn is_stable(self) -> bool {
        !matches!(self, Arm::Stxxl | Arm::StxxlInPlace)
    }

    /// Whether it sorts what is in the output before.
    pub(crate) fn is_in_place(self) -> bool {
        self == Arm::StxxlInPlace
    }

    /// What programs it consists of must be there, and are built here if they are ours.
    ///
    /// # Errors
    /// In words, where one is not.
    pub(crate) fn prepare(self) -> Result<(), String> {
        match self {
            Arm::Floor | Arm::Merge | Arm::Columnsort => Ok(()),
            Arm::Gnu => match Command::new("sort").arg("--version").output() {
                Ok(output) if String::from_utf8_lossy(&output.stdout).contains("GNU") => Ok(()),
                Ok(_) => Err("`sort` is not GNU's".to_owned()),
                Err(why) => Err(format!("there is no `sort`: {why}")),
            },
            Arm::Stxxl | Arm::StxxlInPlace => build_stxxl(),
        }
    }

    /// What runs it.
    pub(crate) fn command(self, task: &Task<'_>, cage: Option<&Cage>) -> anyhow::Result<Command> {
        let command = |program: &Path| cage.map_or_else(|| Command::new(program), |cage| cage.command(program));
        Ok(match self {
            Arm::Floor => {
                let mut command = command(&std::env::current_exe()?);
                command.arg(FLOOR).arg(task.input).arg(task.folder.join("floor")).arg(task.output);
                command
            }
            Arm::Merge | Arm::Columnsort => {
                let mut command = command(&std::env::current_exe()?);
                command.arg(SORT).arg(self.to_string()).arg(task.kind.to_string()).arg(task.memory.to_string());
                command.arg(task.folder).arg(task.input).arg(task.output);
                command
            }
            Arm::Gnu => {
                let mut command = command(Path::new("sort"));
                // It takes a little more than it is told, and the kernel's copies of its files need room too.
                command.env("LC_ALL", "C").args(["--parallel=2", "--batch-size=64", "-S"]);
                command.arg(format!("{}K", (task.memory / 1024) * 25 / 32));
                if task.kind == Kind::Fixed {
                    command.args(["-s", &format!("-k1.1,1.{KEY}")]);
                }
                command.arg("-T").arg(task.folder).arg("-o").arg(task.output).arg(task.input);
                command
            }
            Arm::Stxxl | Arm::StxxlInPlace => {
                let configuration = task.folder.join("stxxl.configuration");
                let disk = task.folder.join("stxxl.disk");
                std::fs::write(&configuration, format!("disk={},0,syscall unlink direct\n", disk.display()))?;
                let mut command = command(&stxxl_program());
                command.env("STXXLCFG", configuration);
                command.env("STXXLLOGFILE", "/dev/null").env("STXXLERRLOGFILE", "/dev/null");
                if self.is_in_place() {
                    command.arg(task.output).arg("-");
                } else {
                    command.arg(task.input).arg(task.output);
                }
                command.arg((task.memory / 32 * 25).to_string());
                command
            }
        })
    }
}

fn stxxl_program() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("sort-stxxl")
}

/// Builds the program that stands on STXXL.
fn build_stxxl() -> Result<(), String> {
    let mut command = Command::new("g++");
    command.args(["-O3", "-march=native", "-fopenmp", "-o"]).arg(stxxl_program());
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/sort/stxxl.cpp")).arg("-lstxxl");
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(text.lines().find(|line| line.contains("error")).unwrap_or("g++ has failed").trim().to_owned())
        }
        Err(why) => Err(format!("there is no g++: {why}")),
    }
}

/// Sorts here and now: what [`Arm::command`] tells another process to do.
pub(crate) fn sort(words: &[String]) -> anyhow::Result<()> {
    let [arm, kind, memory, folder, input, output] = words else { bail!("six words were to be here") };
    let kind: Kind = kind.parse().map_err(anyhow::Error::msg)?;
    let order = match kind {
        Kind::Fixed => Order::new(Format::Fixed(SIZE), vec![Key { length: Some(KEY), ..Key::WHOLE }])?,
        Kind::Lines => Order::new(Format::Lines, Vec::new())?,
    };
    let algorithm = match arm.parse().map_err(anyhow::Error::msg)? {
        Arm::Columnsort => Algorithm::Columnsort(Variant::IoBound),
        _ => Algorithm::Merge,
    };
    let sort = Sort::new(order).memory(memory.parse()?).temporary(folder).algorithm(algorithm);
    sort.run(Input::open(Path::new(input))?, Output::create(Path::new(output))?)?;
    Ok(())
}
