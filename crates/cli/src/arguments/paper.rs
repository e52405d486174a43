//! The arguments of `rowlock paper`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use papers::barrier::PAPERS;
use papers::barrier::changes::Changes;
use papers::fg::EXPERIMENTS;
use papers::threads::MOST_THREADS;
use policy::waiting::WaitingRule;

use super::{TextOrJson, all_cpus};
use crate::results::Results;
use crate::sort::size;

/// What holds for measured papers only stands below this.
const MEASURED: &str = "Of fg/... papers, which sort on this machine";
/// And for those of the study of threads below this.
const THREADS: &str = "Of threads/... papers, which make threads on this machine";

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
    /// How often every arm is run [default: what the scenario says, 10 times for fg/..., and 11 or 20 for threads/...]; bands are meant for 3 and more
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: Option<u32>,
    /// The seed of the first repetition, in place of what the scenario says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub(crate) seed: Option<u64>,
    /// The simulated kernel's scheduler, in place of the paper's; bands are not judged then
    #[arg(long, value_name = "S", value_parser = super::schedulers())]
    pub(crate) scheduler: Option<String>,
    /// The waiting rule of all jobs, in place of the paper's, but for what it is compared with; bands are not judged then
    #[arg(long, value_name = "RULE", value_parser = super::rule)]
    pub(crate) waiting: Option<WaitingRule>,
    #[command(flatten)]
    pub(crate) results: Results,
    /// How to print what was found
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: TextOrJson,
    /// How many simulations run at the same time; the results do not depend on it [default: as many as there are CPUs]
    #[arg(long, value_name = "N", default_value_t = all_cpus(), hide_default_value = true, value_parser = super::workers)]
    pub(crate) workers: NonZeroUsize,
    #[command(flatten)]
    pub(crate) measured: Measured,
    #[command(flatten)]
    pub(crate) threads: Threads,
}

/// What holds for the study of user-level threads.
#[derive(Debug, Args)]
#[command(next_help_heading = THREADS)]
pub(crate) struct Threads {
    /// How many threads the study's program has, in turn, kernel threads as well as fibers [default: 50,100,500,1000,2000, and for threads/table2
    /// 10000,100000]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_THREADS)))]
    pub(crate) fibers: Vec<u32>,
    /// Fibers are preemptible: they may be interrupted anywhere when their running time is over
    #[arg(long)]
    pub(crate) preemptive: bool,
}

/// What holds for papers that are measured.
#[derive(Debug, Args)]
#[command(next_help_heading = MEASURED)]
pub(crate) struct Measured {
    /// How much the compute-bound program sorts; the I/O-bound one sorts twice as much [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = size::size)]
    pub(crate) size: Option<u64>,
    /// How much memory each sort has [default: half of --size, at least 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = size::size)]
    pub(crate) memory: Option<u64>,
    /// The folder, on the disk to be measured, for what is sorted; five times --size has to fit into it [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) tmp: Option<PathBuf>,
    /// How much the I/O-bound program may read a second, and as much write, or `none` for all that the disk can do [default: so much that it uses
    /// the processors as in the thesis, which takes the right to make control groups]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Option<Rate>,
    /// What is evicted from the page cache before each run [default: all, which takes the right to, else the files]
    #[arg(long, value_enum)]
    pub(crate) evict: Option<Evict>,
}

/// A rate of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rate {
    /// As fast as the disk is.
    Unlimited,
    /// So many bytes a second.
    Of(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Evict {
    /// The whole page cache of the machine
    All,
    /// What is sorted
    Files,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PaperList {
    /// List all there are, with what they show and how long they take
    List,
}

impl Paper {
    /// What takes the place of what the paper has.
    pub(crate) fn changes(&self) -> Changes {
        Changes { scheduler: super::scheduler_named(self.scheduler.as_deref()), waiting: self.waiting }
    }
}

impl Threads {
    /// The first option that was given, which other papers do not know.
    pub(crate) fn given(&self) -> Option<&'static str> {
        [("--fibers", !self.fibers.is_empty()), ("--preemptive", self.preemptive)]
            .into_iter()
            .find_map(|(name, is_given)| is_given.then_some(name))
    }
}

impl Measured {
    /// The first option that was given, which other papers do not know.
    pub(crate) fn given(&self) -> Option<&'static str> {
        [
            ("--size", self.size.is_some()),
            ("--memory", self.memory.is_some()),
            ("--tmp", self.tmp.is_some()),
            ("--rate", self.rate.is_some()),
            ("--evict", self.evict.is_some()),
        ]
        .into_iter()
        .find_map(|(name, is_given)| is_given.then_some(name))
    }
}

fn papers() -> PossibleValuesParser {
    let measured = EXPERIMENTS.iter().map(|experiment| experiment.name);
    let threads = papers::threads::EXPERIMENTS.iter().map(|experiment| experiment.name);
    let simulated = PAPERS.iter().map(|paper| paper.name).chain([papers::today::NAME]);
    PossibleValuesParser::new(simulated.chain(measured).chain(threads))
}

fn rate(text: &str) -> Result<Rate, String> {
    match text.trim() {
        "none" => Ok(Rate::Unlimited),
        text => match size::size(text.strip_suffix("/s").unwrap_or(text))? {
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
