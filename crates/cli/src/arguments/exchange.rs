//! The arguments of `rowlock import` and `rowlock export`.

use std::path::PathBuf;

use ::exchange::Format;
use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The file; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Its format [default: detected from the content]
    #[arg(long, value_name = "FORMAT", value_parser = super::one_of(&Format::ALL, Format::name))]
    pub(crate) from: Option<Format>,
    /// The file for the scenario, which is replaced if it exists [default: standard output]
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The scenario
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The format to write
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) to: To,
    /// The file to write, which is replaced if it exists [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// With --to ftrace, the seed, instead of the scenario's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub(crate) seed: Option<u64>,
}

/// The formats to which a scenario can be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum To {
    /// A file for rt-app, with the same jobs
    RtApp,
    /// The scheduling events of one simulated run of its first arm, as the kernel prints them
    Ftrace,
}
