//! The arguments of `rowlock paper`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use papers::PAPERS;
use papers::figure::changes::Changes;
use papers::threads::MOST_THREADS;
use papers::today::grid::Extent;
use policy::waiting::WaitingRule;
use scenario::Scheduler;
use scenario::result::World;

use super::{TextOrJson, all_cpus};
use crate::results::Results;

/// Heading of the options of papers that sort.
const MEASURED: &str = "Of fg/... papers, which sort on this machine";
/// Heading of the options of the grid of waiting rules.
const TODAY: &str = "Of barrier/today, which runs a grid of cells";
/// Heading of the options of the study of threads.
const THREADS: &str = "Of threads/... papers, which make threads on this machine";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Paper {
    #[command(subcommand)]
    pub(crate) list: Option<PaperList>,
    /// The figure or table
    #[arg(value_name = "NAME", required = true, value_parser = PossibleValuesParser::new(PAPERS.iter().map(|paper| paper.name)))]
    pub(crate) name: Option<String>,
    /// Print the scenario file, which can be changed and run by `rowlock run`, and run nothing
    #[arg(long)]
    pub(crate) scenario: bool,
    /// How often every arm is run [default: the scenario's number, 10 for fg/..., and 11 or 20 for
    /// threads/...]; bands are meant for 3 and more
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: Option<u32>,
    /// The seed of the first repetition, instead of the scenario's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub(crate) seed: Option<u64>,
    /// Where it runs: on the simulated machine of the paper, or, as far as that is possible, on
    /// this machine, at its size [default: sim]
    #[arg(long, value_name = "WORLD", value_parser = super::one_of(&[World::Sim, World::Host], World::name))]
    pub(crate) world: Option<World>,
    /// The simulated kernel's scheduler, instead of the paper's; bands are not judged then
    #[arg(long, value_name = "S", value_parser = super::one_of(&Scheduler::ALL, Scheduler::name))]
    pub(crate) scheduler: Option<Scheduler>,
    /// The waiting rule of all jobs, instead of the paper's, except the one that they are compared
    /// with; bands are not judged then
    #[arg(long, value_name = "RULE", value_parser = super::rule)]
    pub(crate) waiting: Option<WaitingRule>,
    #[command(flatten)]
    pub(crate) results: Results,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: TextOrJson,
    /// How many simulations run at the same time; the results do not depend on it [default: the
    /// number of CPUs]
    #[arg(long, value_name = "N", default_value_t = all_cpus(), hide_default_value = true, value_parser = super::workers)]
    pub(crate) workers: NonZeroUsize,
    #[command(flatten)]
    pub(crate) measured: Measured,
    #[command(flatten)]
    pub(crate) threads: Threads,
    #[command(flatten)]
    pub(crate) today: Today,
}

/// The options of the grid of waiting rules.
#[derive(Debug, Args)]
#[command(next_help_heading = TODAY)]
pub(crate) struct Today {
    /// Which cells: a sample of the first grid, all of it, or all of another grid, with other sizes
    /// and costs, which no rule was designed on [default: sample]
    #[arg(long, value_name = "GRID", value_parser = super::one_of(&Extent::ALL, Extent::name))]
    pub(crate) grid: Option<Extent>,
    /// A waiting rule to compare with the best of always-block, 2cs+, always-spin, always-yield and
    /// colocate; may be repeated [default: adaptive]
    #[arg(long, value_name = "RULE", value_parser = super::rule)]
    pub(crate) rule: Vec<WaitingRule>,
    /// The number of a cell, to run only that; may be repeated
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) cell: Vec<u32>,
}

/// The options of the study of user-level threads.
#[derive(Debug, Args)]
#[command(next_help_heading = THREADS)]
pub(crate) struct Threads {
    /// The numbers of threads of the study's program, kernel threads as well as fibers [default:
    /// 50,100,500,1000,2000, and for threads/table2 10000,100000]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_THREADS)))]
    pub(crate) fibers: Vec<u32>,
    /// Make fibers preemptible: they may be interrupted anywhere at the end of their running time
    #[arg(long)]
    pub(crate) preemptive: bool,
}

/// The options of measured papers.
#[derive(Debug, Args)]
#[command(next_help_heading = MEASURED)]
pub(crate) struct Measured {
    /// How much data the compute-bound program sorts; the I/O-bound one sorts twice as much
    /// [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = ::sort::parse_size)]
    pub(crate) size: Option<u64>,
    /// How much memory each sort uses [default: half of --size, at least 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = ::sort::parse_size)]
    pub(crate) memory: Option<u64>,
    /// The folder for the data, on the disk to measure, with space for five times --size [default:
    /// the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) tmp: Option<PathBuf>,
    /// How much the I/O-bound program may read per second, and how much it may write, or `none` for
    /// no limit [default: so much that it uses the processors as in the thesis, which needs the
    /// right to make control groups]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Option<Rate>,
    /// Evict this from the page cache before each run [default: files]
    #[arg(long, value_enum)]
    pub(crate) evict: Option<Evict>,
}

/// A rate in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rate {
    /// As fast as the disk allows.
    Unlimited,
    /// At most this many bytes per second.
    Of(u64),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Evict {
    /// The whole page cache of the machine, which slows down all other programs
    All,
    /// The sorted files
    #[default]
    Files,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PaperList {
    /// List all papers, with what they show and how long they take
    List,
}

impl Paper {
    /// The changes to the paper's scenario.
    pub(crate) fn changes(&self) -> Changes {
        Changes { scheduler: self.scheduler, waiting: self.waiting, is_on_host: self.world() == World::Host }
    }

    /// Where the paper runs.
    pub(crate) fn world(&self) -> World {
        self.world.unwrap_or(World::Sim)
    }
}

impl Threads {
    /// The first of these options that was given. Other papers do not accept them.
    pub(crate) fn given(&self) -> Option<&'static str> {
        first_given(&[("--fibers", !self.fibers.is_empty()), ("--preemptive", self.preemptive)])
    }
}

impl Measured {
    /// The first of these options that was given. Other papers do not accept them.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let Measured { size, memory, tmp, rate, evict } = self;
        let options = [("--size", size.is_some()), ("--memory", memory.is_some()), ("--tmp", tmp.is_some())];
        first_given(&options).or(first_given(&[("--rate", rate.is_some()), ("--evict", evict.is_some())]))
    }
}

impl Today {
    /// The first of these options that was given. Other papers do not accept them.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let Today { grid, rule, cell } = self;
        first_given(&[("--grid", grid.is_some()), ("--rule", !rule.is_empty()), ("--cell", !cell.is_empty())])
    }
}

fn first_given(options: &[(&'static str, bool)]) -> Option<&'static str> {
    options.iter().find_map(|&(name, is_given)| is_given.then_some(name))
}

fn rate(text: &str) -> Result<Rate, String> {
    match text.trim() {
        "none" => Ok(Rate::Unlimited),
        text => match ::sort::parse_size(text.strip_suffix("/s").unwrap_or(text))? {
            0 => Err("nothing would ever be read; write `none` for no limit".to_owned()),
            bytes => Ok(Rate::Of(bytes)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_sizes_or_none() {
        assert_eq!(rate("none"), Ok(Rate::Unlimited));
        assert_eq!(rate("200 MB/s"), Ok(Rate::Of(200_000_000)));
        assert_eq!(rate("64MiB"), Ok(Rate::Of(64 << 20)));
        assert!(rate("0").is_err() && rate("fast").is_err());
    }
}
