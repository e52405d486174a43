//! The arms: programs that sort the same file, and a lower bound for all of them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::bail;
use rowlock_sort::{Algorithm, Format, Input, Key, Order, Output, Sort, Variant};

use crate::control_group::ControlGroup;
use crate::records::{KEY, Kind, SIZE};

/// The hidden argument that runs the lower bound.
pub(crate) const FLOOR: &str = "--floor";

/// The hidden argument that runs a sort.
pub(crate) const SORT: &str = "--sort";

/// An implementation of the sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    /// No sort, but only the I/O.
    Floor,
    /// The merge sort of this crate.
    Merge,
    /// The columnsort of this crate.
    Columnsort,
    /// GNU sort with two threads, and so many runs at a time that it merges once.
    Gnu,
    /// STXXL's streams from one file to another, with the parallel mode of the C++ library.
    Stxxl,
    /// STXXL's in-place sort of a file, with the same mode.
    StxxlInPlace,
}

/// The names of all arms.
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
        named.ok_or_else(|| format!("unknown arm; the arms are {}", NAMED.map(|(name, _)| name).join(", ")))
    }
}

/// The file to sort, the output, and the resources.
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
    /// All arms that can sort such records.
    pub(crate) fn all(kind: Kind) -> Vec<Arm> {
        let can = |arm: &Arm| kind == Kind::Fixed || !matches!(arm, Arm::Columnsort | Arm::Stxxl | Arm::StxxlInPlace);
        NAMED.into_iter().map(|(_, arm)| arm).filter(can).collect()
    }

    /// Whether it is another project's program.
    pub(crate) fn is_peer(self) -> bool {
        matches!(self, Arm::Gnu | Arm::Stxxl | Arm::StxxlInPlace)
    }

    /// Whether equal records keep their order.
    pub(crate) fn is_stable(self) -> bool {
        !matches!(self, Arm::Stxxl | Arm::StxxlInPlace)
    }

    /// Whether it sorts the output file in place.
    pub(crate) fn is_in_place(self) -> bool {
        self == Arm::StxxlInPlace
    }

    /// Checks that its programs are installed, and builds the peers of this benchmark.
    ///
    /// # Errors
    /// Why that is not possible here.
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

    /// The command that runs it.
    pub(crate) fn command(self, task: &Task<'_>, control_group: Option<&ControlGroup>) -> anyhow::Result<Command> {
        let command = |program: &Path| {
            control_group.map_or_else(|| Command::new(program), |control_group| control_group.command(program))
        };
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
                // It takes a little more than its limit, and the page cache of its files needs
                // memory too.
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
                sys::files::write(
                    &configuration,
                    format!("disk={},0,syscall unlink direct\n", disk.display()).as_bytes(),
                )?;
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

/// Builds the STXXL program.
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

/// Sorts in this process, started by [`Arm::command`].
pub(crate) fn sort(words: &[String]) -> anyhow::Result<()> {
    let [arm, kind, memory, folder, input, output] = words else { bail!("six arguments are required") };
    let kind: Kind = kind.parse().map_err(anyhow::Error::msg)?;
    let order = match kind {
        Kind::Fixed => Order::new(Format::Fixed(SIZE), vec![Key { length: Some(KEY), ..Key::WHOLE }])?,
        Kind::Lines => Order::new(Format::Lines, Vec::new())?,
    };
    let algorithm = match arm.parse().map_err(anyhow::Error::msg)? {
        Arm::Columnsort => Algorithm::Columnsort(Variant::IoBound),
        _ => Algorithm::Merge,
    };
    let sort = Sort { memory: memory.parse()?, temporary: folder.into(), algorithm, ..Sort::new(order) };
    sort.run(Input::open(Path::new(input))?, Output::create(Path::new(output))?)?;
    Ok(())
}
