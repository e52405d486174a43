//! The command line. Parsing has no side effects.

pub(crate) mod exchange;
mod gnu;
pub(crate) mod paper;
pub(crate) mod prun;
pub(crate) mod sort;

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PathBufValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use measure::explore::variants::StructureChange;
use pipeline::structure::{KEYS, Structure};
use policy::JobId;
use policy::waiting::WaitingRule;
use report::words;
use scenario::Scheduler;
use scenario::result::World;

use crate::results::Results;

/// Predicts how parallel programs run together on a machine, and runs them, so that the two can be
/// compared.
#[derive(Debug, Parser)]
#[command(name = "rowlock", version, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 a run failed or a paper's band is missed, 2 bad arguments or input, 130 \
                          interrupted by Ctrl-C and 143 by SIGTERM (results so far are kept and reported).";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a scenario: in the simulator, on this machine, or in both
    Run(Run),
    /// Read a scenario and say what is wrong with it, without running anything
    Check {
        /// The scenario
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Start an unmodified program so that its threads wait by a rule
    Exec(Exec),
    /// Run a figure or a table of a paper, in the simulator or on this machine, and compare it with
    /// the paper
    Paper(paper::Paper),
    /// Find the structure in which a program built on the crate rowlock-pipeline runs fastest
    #[command(after_help = structure_help())]
    Pipeline {
        #[command(subcommand)]
        command: PipelineCommand,
    },
    /// Sort records or lines, if necessary more than fit into memory, from a file or a pipe to a
    /// file or a pipe
    Sort(sort::Sort),
    /// List all policies with their meaning and source
    Policies {
        /// How to print the list
        #[arg(long, value_enum, default_value_t)]
        format: TextOrJson,
    },
    /// Measure the costs of switches, wakeups and yields on this machine, and keep the figures for
    /// later runs
    Calibrate {
        /// Measure again even if there are figures for this machine and kernel
        #[arg(long)]
        fresh: bool,
        /// How to print the figures
        #[arg(long, value_enum, default_value_t)]
        format: TextOrJson,
    },
    /// Report what this machine allows, what it lacks, what that costs and how to get it; changes
    /// nothing
    Doctor {
        /// How to print the findings
        #[arg(long, value_enum, default_value_t)]
        format: TextOrJson,
    },
    /// Make a scenario from another tool's file: a workload for rt-app, or the kernel's scheduling
    /// events as text
    Import(exchange::Import),
    /// Make another tool's file from a scenario
    Export(exchange::Export),
    /// Explain one column of a CSV file by others: ordinary least squares with standard errors and
    /// p values
    Regress(Regress),
    /// Start a parallel job that shares this machine with others in turns, so that each runs as if
    /// alone in its turn
    Prun(prun::Prun),
    /// Let jobs of different users take turns together; root runs it as a service
    Pds(prun::Pds),
    /// List the jobs that `rowlock prun` has started, and whose turn it is
    Jobs(prun::Jobs),
    /// Send a signal to all ranks of a job
    Kill(prun::Kill),
    /// Stop a job until `rowlock resume`
    Hold {
        /// The number of the job, as `rowlock jobs` lists it
        #[arg(value_name = "ID", value_parser = prun::job)]
        job: JobId,
    },
    /// Let a job go on that is held, or that its terminal has stopped
    Resume {
        /// The number of the job, as `rowlock jobs` lists it
        #[arg(value_name = "ID", value_parser = prun::job)]
        job: JobId,
    },
    /// Show the output of a detached job from its beginning, until it ends; then forget it, and
    /// end as it did
    Attach {
        /// The number of the job, as `rowlock jobs` lists it
        #[arg(value_name = "ID", value_parser = prun::job)]
        job: JobId,
    },
    /// Change how a job takes turns
    Set(prun::Set),
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The scenario
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Where to run it [default: both if the scenario's machine is like the host, else sim]
    #[arg(long, value_enum)]
    pub(crate) world: Option<Worlds>,
    /// How often every arm is run, instead of the scenario's number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: Option<u32>,
    /// Continue until the 95 % interval of every completion time is within this share of the mean,
    /// as in "2 %"; --repeat is the initial number of repetitions [default: the scenario's, at
    /// least 10]
    #[arg(long, value_name = "SHARE", value_parser = measure::precision::parse_share, allow_hyphen_values = true)]
    pub(crate) until: Option<f64>,
    /// With --until, the maximum number of repetitions [default: 100]
    #[arg(long, value_name = "N", requires = "until", value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) at_most: Option<u32>,
    /// The seed of the first repetition, instead of the scenario's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) results: Results,
    /// Run the first arm again, and write all events to FILE, for ui.perfetto.dev (docs/traces.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// How to print the report
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// The simulated kernel's scheduler, instead of the scenario's
    #[arg(long, value_name = "S", value_parser = one_of(&Scheduler::ALL, Scheduler::name))]
    pub(crate) scheduler: Option<Scheduler>,
    /// How many simulations run at the same time; the results do not depend on it [default: the
    /// number of CPUs]
    #[arg(long, value_name = "N", default_value_t = all_cpus(), hide_default_value = true, value_parser = workers)]
    pub(crate) workers: NonZeroUsize,
}

impl Arguments {
    /// Parses the command line.
    ///
    /// # Errors
    /// If it is wrong, or asks for help.
    pub(crate) fn read() -> Result<Arguments, clap::Error> {
        let is_sort = std::env::args_os().nth(1).is_some_and(|command| command == "sort");
        Arguments::try_parse().map_err(|error| {
            // The error repeats words of the user, so it is made from harmless ones.
            let words = std::env::args_os().map(|word| words::word(&word.to_string_lossy()).into_owned());
            let error = Arguments::try_parse_from(words).err().unwrap_or(error);
            if is_sort { gnu::explain(error) } else { error }
        })
    }
}

/// The program that a command runs.
#[derive(Debug, Args)]
pub(crate) struct Program {
    /// The program, preferably after `--`
    #[arg(value_name = "CMD")]
    pub(crate) command: OsString,
    /// Its arguments
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

impl Program {
    /// The program and its arguments as text.
    pub(crate) fn words(&self) -> Vec<String> {
        let words = std::iter::once(&self.command).chain(&self.arguments);
        words.map(|word| word.to_string_lossy().into_owned()).collect()
    }
}

#[derive(Debug, Args)]
#[command(after_help = EXEC_EXIT_CODES)]
pub(crate) struct Exec {
    /// How threads wait: a waiting rule, as `rowlock policies` lists them
    #[arg(long, value_name = "RULE", default_value_t, value_parser = rule)]
    pub(crate) wait: WaitingRule,
    /// Report on standard error, after the program has ended, what was replaced, what was not and
    /// why, and what that achieved
    #[arg(long)]
    pub(crate) report: bool,
    /// Write the report to FILE, as described in docs/output.md
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().try_map(no_dash))]
    pub(crate) json: Option<PathBuf>,
    /// Run the program with and without rowlock, alternately, and print how much faster it is; its
    /// input is empty, and its own output is not shown
    #[arg(long, conflicts_with_all = ["report", "json"])]
    pub(crate) compare: bool,
    /// With --compare, the number of pairs of runs, in addition to one pair that does not count
    #[arg(long, value_name = "N", requires = "compare", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) runs: u32,
    /// With --compare, repeat the comparison beside N processes that only compute
    #[arg(long, value_name = "N", requires = "compare", default_value_t = 0, hide_default_value = true, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub(crate) hogs: u32,
    /// With --compare, repeat the comparison beside a shell command, which is restarted whenever it
    /// ends
    #[arg(long, value_name = "CMD", requires = "compare")]
    pub(crate) beside: Option<OsString>,
    /// With --compare, how to print the result
    #[arg(long, requires = "compare", value_enum, default_value_t)]
    pub(crate) format: TextOrJson,
    #[command(flatten)]
    pub(crate) program: Program,
}

const EXEC_EXIT_CODES: &str = "The program replaces this one, or with --report or --json runs as its child; either way this \
                               ends as the program does: with its exit code, or by the signal that ended it. 127: there \
                               is no such program; 126: it cannot be executed; 1: rowlock itself failed. With --compare: 0 done, 1 the runs did \
                               not all end alike, 130 and 143 interrupted, with what was measured so far.";

#[derive(Debug, Subcommand)]
pub(crate) enum PipelineCommand {
    /// Run a program in variants of its structure, alternately, and print the best with the
    /// interval of its speed-up
    Explore(Explore),
    /// Run a program once, and report on standard error what each stage did, what limited it, and
    /// how far it was from the least possible time
    Verdict(Verdict),
}

#[derive(Debug, Args)]
#[command(after_help = VERDICT_EXIT_CODES)]
pub(crate) struct Verdict {
    /// Measure the performance of the device below this folder after the program has ended; takes a
    /// second and 256 MiB of space
    #[arg(long, value_name = "FOLDER")]
    pub(crate) device: Option<PathBuf>,
    /// Write the report and the verdict to FILE, as described in docs/output.md
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().try_map(no_dash))]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) program: Program,
}

const VERDICT_EXIT_CODES: &str = "This ends as the program does: with its exit code, or by the signal that ended it. 127: there is no such program; \
                                  126: it cannot be executed; 1: it is not built on the crate, or rowlock itself failed.";

#[derive(Debug, Args)]
#[command(after_help = EXPLORE_EXIT_CODES)]
pub(crate) struct Explore {
    /// The number of pairs of runs that judge the best variant, in addition to those that chose it
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub(crate) runs: u32,
    /// The maximum total time, as in "10 min", which may reduce the number of runs [default: no
    /// limit]
    #[arg(long, value_name = "TIME", value_parser = measure::explore::parse_time_limit)]
    pub(crate) time_limit: Option<Duration>,
    /// Try this structure, in the words that `rowlock pipeline --help` lists; "fork=compress*2,4
    /// buffers=8,16" are four. Others are tried only with --only
    #[arg(long = "try", value_name = "STRUCTURE", value_parser = tries)]
    pub(crate) tries: Vec<Tries>,
    /// Try only variants of these: fuse, split, fork, thread, buffers, block, threads, priority
    /// [default: all]
    #[arg(long, value_name = "KEY,...", value_delimiter = ',', value_parser = StructureChange::named)]
    pub(crate) only: Vec<StructureChange>,
    /// The seed of the random order of runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// A shell command to run before each run, for instance to drop caches; its time does not count
    #[arg(long, value_name = "CMD")]
    pub(crate) prepare: Option<OsString>,
    /// Do not try variants, but let the stages that read and write (and those that communicate) do
    /// so twice: if the program then takes twice as long, they limit it
    #[arg(long, conflicts_with_all = ["tries", "only"])]
    pub(crate) double: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: TextOrJson,
    #[command(flatten)]
    pub(crate) program: Program,
}

/// The structures of one `--try`.
#[derive(Clone, Debug)]
pub(crate) struct Tries(pub(crate) Vec<Structure>);

const EXPLORE_EXIT_CODES: &str = "Exit codes: 0 done, 1 the program fails by itself or is not built on the crate, 2 bad arguments, 126 and 127 it \
                                  cannot be executed or is not there, 130 and 143 interrupted, with what was measured so far.";

/// The words of a structure, for the help text.
fn structure_help() -> String {
    let longest = KEYS.iter().map(|key| key.example.len()).max().unwrap_or(0);
    let lines = KEYS.iter().map(|key| format!("  {:<longest$}  {}\n", key.example, key.meaning));
    let head = "The variable ROWLOCK_PIPELINE sets the structure of such a program, in words like these:\n";
    head.to_owned() + &lines.collect::<String>()
}

fn tries(text: &str) -> Result<Tries, String> {
    let structures = measure::explore::tries::parse_tries(text).map_err(|why| why.to_string())?;
    if structures.iter().any(Structure::is_empty) {
        return Err("it is empty".to_owned());
    }
    Ok(Tries(structures))
}

#[derive(Debug, Args)]
pub(crate) struct Regress {
    /// The observations: numbers in named columns, as in the runs.csv of a run
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The column to explain
    #[arg(long, value_name = "COLUMN")]
    pub(crate) on: String,
    /// The columns to explain it by
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',', required = true)]
    pub(crate) from: Vec<String>,
    /// Omit the constant term: no work takes no time
    #[arg(long)]
    pub(crate) no_intercept: bool,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: TextOrJson,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables and sentences
    #[default]
    Text,
    /// All data, as described in docs/output.md
    Json,
    /// A row for each run and job
    Csv,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextOrJson {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Worlds {
    /// The simulated machine
    Sim,
    /// This machine
    Host,
    /// Both, interleaved
    Both,
}

impl Worlds {
    pub(crate) const fn list(self) -> &'static [World] {
        match self {
            Worlds::Sim => &[World::Sim],
            Worlds::Host => &[World::Host],
            Worlds::Both => &[World::Sim, World::Host],
        }
    }
}

/// The number of CPUs that this program may use, according to its affinity and its cgroup's quota.
pub(crate) fn all_cpus() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Parses the number of simulations that run at the same time.
fn workers(text: &str) -> Result<NonZeroUsize, &'static str> {
    text.parse().map_err(|_| "write a whole number, 1 or more")
}

/// Parses one of `all` by its name.
fn one_of<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let named = move |written: String| all.iter().copied().find(|value| name(*value) == written);
    let names = PossibleValuesParser::new(all.iter().map(|value| name(*value)));
    names.try_map(move |written| named(written).ok_or("there is no such name"))
}

fn rule(text: &str) -> Result<WaitingRule, String> {
    text.parse().map_err(|why| format!("{why}; `rowlock policies` lists them"))
}

/// Refuses `-`, because standard output belongs to the program.
fn no_dash(file: PathBuf) -> Result<PathBuf, &'static str> {
    if file.as_os_str() == "-" {
        return Err("standard output is the program's own: name a file, or write ./- if you mean one of that name");
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn empty_and_invalid_structures_are_not_tried() {
        assert!(tries(" ").is_err() && tries("buffers=x").is_err());
        assert_eq!(tries("buffers=1,2").map(|tries| tries.0.len()), Ok(2));
    }
}
