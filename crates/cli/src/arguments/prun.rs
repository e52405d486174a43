//! The arguments of `rowlock prun` and of the commands for its jobs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use cosched::{SLICES, StopChoice};
use message::environment::{MESSAGES, RANK, RANKS};
use policy::gang::Gang;
use policy::layout::Shape;
use policy::turn::LARGEST_WEIGHT;
use policy::waiting::WaitingRule;
use policy::{CpuSet, JobId, Span};

use super::{TextOrJson, one_of};

/// A job has at most so many ranks, and each at most so many cores.
pub(crate) const MOST_RANKS: u32 = 65_536;
/// The variables of ranks that `--env` cannot set.
const OWN_VARIABLES: [&str; 5] = [JOB, RANK, RANKS, wait::turn::VARIABLE, MESSAGES];
/// The variable with the number of the job.
pub(crate) const JOB: &str = "ROWLOCK_JOB";
/// The ways to share this machine.
const WAYS: [Gang; 4] = [Gang::Adaptive, Gang::Strict, Gang::Moderate, Gang::None];

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Prun {
    /// Start N ranks, 1 to 65536, each on cores of its own if there are enough [default: one rank
    /// that has all CPUs of the caller]
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = ranks)]
    pub(crate) ranks: Option<u32>,
    /// Give each rank K cores, and set OMP_NUM_THREADS to their CPUs if it is unset
    #[arg(short = 'c', long = "cores", value_name = "K", value_parser = count)]
    pub(crate) cores: Option<u32>,
    /// Ask for this rectangle of cores, as in 4x2: columns of cores, rows of cores with a common
    /// cache
    #[arg(long, value_name = "SIZE", conflicts_with = "cores")]
    pub(crate) mesh: Option<Shape>,
    /// When the job takes turns: adaptive (if its threads spin), strict (always), none (never),
    /// moderate (always, but it is not stopped in the turns of others, only lowered)
    #[arg(long, value_name = "HOW", default_value = "adaptive", value_parser = one_of(&WAYS, Gang::name))]
    pub(crate) how: Gang,
    /// How the job is stopped: freeze or freezer (a control group of version 2 or 1), signals
    /// [default: the first of these that works], or hint (its threads give way when they wait; if
    /// they do not, as by default)
    #[arg(long, value_name = "M", value_parser = one_of(&StopChoice::ALL, StopChoice::name))]
    pub(crate) mechanism: Option<StopChoice>,
    /// How long a turn lasts, from 5 ms to 10 s; the first job decides for all that run beside it
    /// [default: 20 ms]
    #[arg(long, value_name = "TIME", value_parser = slice)]
    pub(crate) slice: Option<Span>,
    /// The job's share of the turns, relative to other jobs, from 1 to 1000
    #[arg(long, value_name = "W", default_value_t = 1, value_parser = weight)]
    pub(crate) weight: u32,
    /// Take turns together with this job, as `rowlock jobs` lists it: for jobs that wait for each
    /// other
    #[arg(long, value_name = "ID", value_parser = job, conflicts_with_all = ["queue", "memory"])]
    pub(crate) with: Option<JobId>,
    /// Wait until no other job has cores of this one, behind others that wait
    #[arg(long)]
    pub(crate) queue: bool,
    /// Start at once, in turns with others (the default)
    #[arg(long, conflicts_with = "queue")]
    pub(crate) now: bool,
    /// Wait until this much memory is left for the job, as in 4GiB, behind others that wait
    #[arg(long, value_name = "SIZE", value_parser = ::sort::parse_size)]
    pub(crate) memory: Option<u64>,
    /// How threads wait: a waiting rule, as `rowlock policies` lists them, or none to leave the
    /// program as it is
    #[arg(long, value_name = "RULE", default_value = "adaptive", value_parser = waiting)]
    pub(crate) wait: Wait,
    /// How the ranks of an MPI program find each other
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    pub(crate) mpi: Mpi,
    /// Whether each rank is bound to the CPUs of its cores
    #[arg(long, value_name = "TO", value_enum, default_value_t)]
    pub(crate) bind: Bind,
    /// Which ranks read standard input
    #[arg(long, value_name = "RANKS", value_enum, default_value_t)]
    pub(crate) stdin: Stdin,
    /// Print the number of the job, and let it go on by itself: `rowlock attach` shows its output
    #[arg(long, conflicts_with = "stdin")]
    pub(crate) detach: bool,
    /// Begin each line of output with the rank that wrote it
    #[arg(long, conflicts_with = "output")]
    pub(crate) label: bool,
    /// Write the output of each rank to a file, in whose name %r is the rank
    #[arg(long, value_name = "FILE-%r")]
    pub(crate) output: Option<PathBuf>,
    /// End the job after this time, as in "10 min", with exit code 124
    #[arg(long, value_name = "TIME", value_parser = measure::explore::parse_time_limit)]
    pub(crate) time_limit: Option<Duration>,
    /// Use only these CPUs, as in 0-3,8
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuSet>,
    /// Start the ranks in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) chdir: Option<PathBuf>,
    /// Set a variable of the ranks; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) env: Vec<(String, String)>,
    /// Say on standard error on which CPUs each rank is
    #[arg(long)]
    pub(crate) report_bindings: bool,
    /// Say what would be started, and where if there were no other jobs, and start nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Let this process and its descendants, which run already, take turns until it ends; Ctrl-C
    /// only ends the turns
    #[arg(long, value_name = "PID", value_parser = process, conflicts_with_all = [
        "command", "ranks", "cores", "mechanism", "queue", "memory", "wait", "mpi", "bind", "stdin", "detach", "label", "output",
        "time_limit", "cpus", "chdir", "env", "report_bindings", "dry_run",
    ])]
    pub(crate) pid: Option<u32>,
    /// The program with its arguments, preferably after `--`; another one, with ranks of its own,
    /// after ` : `, as in `prun -n 1 -- master : -n 3 -- worker`; `-n` is the only option there
    #[arg(value_name = "CMD", required_unless_present = "pid", trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

const EXIT_CODES: &str = "This ends with the exit code of the first rank whose code is not 0, which ends all others, or by \
                          the signal that has ended it (in a shell, 128 and its number). 127: there is no such program; 126: it \
                          cannot be executed; 124: the time limit; 2: bad arguments.";

/// How threads wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// As the program was written.
    AsWritten,
    /// By a rule.
    By(WaitingRule),
}

/// Where ranks are bound to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Bind {
    /// The CPUs of their cores
    #[default]
    Cores,
    /// No CPU
    None,
}

/// How the ranks of an MPI program find each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mpi {
    /// By PMI-1, and also by PMIx for Open MPI, scripts and programs behind a wrapper
    #[default]
    Auto,
    /// By PMI-1, as MPICH does
    Pmi,
    /// By PMI-1 and PMIx, by which Open MPI does
    Pmix,
    /// Not at all: the variables of an outer launcher stay
    None,
}

/// The ranks that read standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stdin {
    /// Rank 0
    #[default]
    #[value(name = "0")]
    First,
    /// All ranks
    All,
    /// None
    None,
}

#[derive(Debug, Args)]
pub(crate) struct Pds {
    /// Listen at this path [default: a listening socket that is standard input, or
    /// /run/rowlock/pds.socket]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// The folder for the table of jobs, which only root may use [default: /run/rowlock/table]
    #[arg(long, value_name = "DIR")]
    pub(crate) table: Option<PathBuf>,
    /// How long a turn lasts [default: 20 ms]
    #[arg(long, value_name = "TIME", value_parser = slice)]
    pub(crate) slice: Option<Span>,
    /// Serve the client at the other end of standard input
    #[arg(long, hide = true, conflicts_with = "socket")]
    pub(crate) connection: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Jobs {
    /// Print the jobs again each second, until Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
    /// How to print them
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Args)]
pub(crate) struct Kill {
    /// The number of the job, as `rowlock jobs` lists it
    #[arg(value_name = "ID", value_parser = job)]
    pub(crate) job: JobId,
    /// The signal for its ranks: HUP, INT, QUIT, TERM, KILL, USR1 or USR2
    #[arg(long, short, value_name = "S", default_value = "TERM", value_parser = signal)]
    pub(crate) signal: i32,
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    /// The number of the job, as `rowlock jobs` lists it
    #[arg(value_name = "ID", value_parser = job)]
    pub(crate) job: JobId,
    #[command(flatten)]
    pub(crate) change: Change,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Change {
    /// Its share of the turns, relative to other jobs, from 1 to 1000
    #[arg(long, value_name = "W", value_parser = weight)]
    pub(crate) weight: Option<u32>,
    /// When it takes turns: adaptive, strict, moderate or none
    #[arg(long, value_name = "HOW", value_parser = one_of(&WAYS, Gang::name))]
    pub(crate) how: Option<Gang>,
}

fn slice(text: &str) -> Result<Span, String> {
    let slice = text.parse().ok().filter(|slice| SLICES.contains(slice));
    slice.ok_or_else(|| format!("a turn lasts from {} to {}: write it as \"20 ms\"", SLICES.start(), SLICES.end()))
}

fn ranks(text: &str) -> Result<u32, String> {
    match text {
        "p" => Err("write `-n 4` for the `-np 4` of mpirun".to_owned()),
        text => count(text),
    }
}

fn count(text: &str) -> Result<u32, String> {
    number(text, MOST_RANKS)
}

fn weight(text: &str) -> Result<u32, String> {
    number(text, LARGEST_WEIGHT)
}

fn process(text: &str) -> Result<u32, String> {
    number(text, u32::MAX)
}

pub(super) fn number(text: &str, most: u32) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("write a whole number from 1 to {most}"))
}

fn waiting(text: &str) -> Result<Wait, String> {
    if text == "none" { Ok(Wait::AsWritten) } else { super::rule(text).map(Wait::By) }
}

pub(super) fn job(text: &str) -> Result<JobId, &'static str> {
    text.parse().map(JobId).map_err(|_| "it is not the number of a job; `rowlock jobs` lists all jobs")
}

fn variable(text: &str) -> Result<(String, String), &'static str> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = parts.ok_or("write NAME=VALUE")?;
    if OWN_VARIABLES.contains(&name) {
        return Err("`prun` itself sets this variable");
    }
    Ok((name.to_owned(), value.to_owned()))
}

fn signal(text: &str) -> Result<i32, &'static str> {
    const NAMES: [(&str, i32); 7] =
        [("HUP", 1), ("INT", 2), ("QUIT", 3), ("KILL", 9), ("USR1", 10), ("USR2", 12), ("TERM", 15)];
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let found = NAMES.into_iter().find(|&(known, number)| name == known || name == number.to_string());
    match found {
        Some((_, number)) => Ok(number),
        None if ["STOP", "TSTP", "CONT", "18", "19", "20"].contains(&name) => {
            Err("`rowlock hold` stops a job, and `rowlock resume` lets it go on")
        }
        None => Err("write HUP, INT, QUIT, TERM, KILL, USR1 or USR2"),
    }
}
