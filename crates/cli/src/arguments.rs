//! The command line. Parsing never acts.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use lab::paper::PAPERS;
use scenario::Scheduler;
use scenario::result::World;

/// Predicts how parallel programs run together on a machine, and runs them, so that the two can be compared.
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
    Check(Check),
    /// Run a figure of a paper in the simulator and hold it against what the paper says
    Paper(Paper),
    /// List all policies with their meaning and source
    Policies(Policies),
    /// Measure what switches, wakeups and yields cost on this machine, and keep the figures for later runs
    Calibrate(Calibrate),
    /// Say what this machine allows, what is missing, what that costs and how to get it; nothing is changed
    Doctor(Doctor),
    /// Explain one column of a CSV file by others: ordinary least squares with standard errors and p values
    Regress(Regress),
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The scenario
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Where to run it [default: both if the scenario's machine is like the host, else sim]
    #[arg(long, value_enum)]
    pub(crate) world: Option<Worlds>,
    /// How often every arm is run, in place of what the scenario says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: Option<u32>,
    /// Go on until the 95 % interval of every completion time reaches no further than this share of the mean, as in "2 %";
    /// --repeat is where it begins [default: the scenario's, at least 10]
    #[arg(long, value_name = "SHARE", value_parser = crate::precision::share, allow_hyphen_values = true)]
    pub(crate) until: Option<f64>,
    /// With --until, the most repetitions [default: 100]
    #[arg(long, value_name = "N", requires = "until", value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) at_most: Option<u32>,
    /// The seed of the first repetition, in place of what the scenario says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub(crate) seed: Option<u64>,
    /// The folder for results; what an earlier run left in it is replaced [default: a new one in rowlock-out]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Run the first arm once more, and write all that happens to FILE, for ui.perfetto.dev (docs/traces.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// How to print the report
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// The simulated kernel's scheduler, in place of what the scenario says
    #[arg(long, value_name = "S", value_parser = schedulers())]
    pub(crate) scheduler: Option<String>,
    /// How many simulations run at the same time; the results do not depend on it [default: as many as there are CPUs]
    #[arg(long, value_name = "N", default_value_t = all_cpus(), hide_default_value = true)]
    pub(crate) workers: NonZeroUsize,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The scenario
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Paper {
    #[command(subcommand)]
    pub(crate) list: Option<PaperList>,
    /// Which figure of which paper
    #[arg(value_name = "NAME", required = true, value_parser = papers())]
    pub(crate) name: Option<String>,
    /// Print the scenario file, to be changed and run by `rowlock run`, and run nothing
    #[arg(long)]
    pub(crate) scenario: bool,
    /// How often every arm is run, in place of what the scenario says; bands are meant for 3 and more
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: Option<u32>,
    /// The seed of the first repetition, in place of what the scenario says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub(crate) seed: Option<u64>,
    /// The folder for results; what an earlier run left in it is replaced [default: a new one in rowlock-out]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// How to print what was found
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: TextOrJson,
    /// How many simulations run at the same time; the results do not depend on it [default: as many as there are CPUs]
    #[arg(long, value_name = "N", default_value_t = all_cpus(), hide_default_value = true)]
    pub(crate) workers: NonZeroUsize,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PaperList {
    /// List all there are, with what they show and how long they take
    List,
}

#[derive(Debug, Args)]
pub(crate) struct Policies {
    /// How to print the list
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Args)]
pub(crate) struct Calibrate {
    /// Measure again although there are figures for this machine and kernel
    #[arg(long)]
    pub(crate) fresh: bool,
    /// How to print the figures
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// How to print what was found
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: TextOrJson,
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
    /// Leave out the constant term: where nothing is done, nothing is taken
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
    /// Everything, as docs/output.md describes it
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
    /// One and the other, interleaved
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

/// The CPUs that this program may use, as its affinity and its cgroup's quota leave them.
fn all_cpus() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

fn papers() -> PossibleValuesParser {
    PossibleValuesParser::new(PAPERS.iter().map(|paper| paper.name))
}

fn schedulers() -> PossibleValuesParser {
    PossibleValuesParser::new(Scheduler::ALL.map(Scheduler::name))
}

impl Run {
    /// The scheduler that was asked for.
    pub(crate) fn scheduler(&self) -> Option<Scheduler> {
        let name = self.scheduler.as_deref()?;
        Scheduler::ALL.into_iter().find(|scheduler| scheduler.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
