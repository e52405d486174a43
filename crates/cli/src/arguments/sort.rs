//! The arguments of `rowlock sort`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use serde::Serialize;
use sort::Key;

use super::TextOrJson;

/// The most ranks that exchange messages.
const MOST_RANKS: u32 = message::memory::MOST_RANKS;

const AFTER_HELP: &str = "\
A KEY is OFFSET[:LENGTH][:KIND][:descending]. OFFSET counts bytes from 0; without LENGTH a key extends to the end of the record. KIND is bytes (the \
default), unsigned-le, unsigned-be, signed-le, signed-be, float-le, float-be, or decimal, a number in text. Several keys count \
in their order; without any, whole records are compared as bytes. Records with equal keys stay in the order of the input.

Examples:
  rowlock sort words.txt sorted.txt
  rowlock sort --record 100 --key 0:10 --memory 512MiB --tmp /scratch records sorted
  rowlock sort --record 16 --key 8:8:float-le:descending --key 0:8:unsigned-le points points
  rowlock sort --record 100 --key 0:10 --ranks 4 records sorted
  generate | rowlock sort --key 0:decimal - - | consume

Its pipelines obey ROWLOCK_PIPELINE (docs/pipeline.md); docs/sort.md is the guide.

Exit codes: 0 done; 1 it failed; 2 bad arguments or input, a truncated last record among them; 130 and 143 interrupted by Ctrl-C and SIGTERM; 141 the \
reader of the output is gone. Unless the code is 0, the target is unchanged. No exit leaves temporary files.";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Sort {
    /// The input: a file, or `-` for standard input
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// The output: a file, which may be IN and is replaced only at the end, or `-` for standard
    /// output
    #[arg(value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// Records of N bytes each
    #[arg(long, value_name = "N", conflicts_with = "lines", value_parser = record)]
    pub(crate) record: Option<usize>,
    /// Records are lines; a line feed is added to the last one if missing [the default]
    #[arg(long)]
    pub(crate) lines: bool,
    /// A key to sort by; several keys count in their order [default: the whole record, as bytes]
    #[arg(long = "key", value_name = "KEY", value_parser = Key::from_str)]
    pub(crate) keys: Vec<Key>,
    /// Reverse the direction of all keys; records with equal keys still stay in the order of the
    /// input
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Keep only the first of several records with equal keys
    #[arg(long)]
    pub(crate) unique: bool,
    /// How much memory to use, including the kernel's copies of files, as in 512MiB or "2 GiB"
    /// [default: a quarter of the available memory within the limits of control groups]
    #[arg(long, value_name = "SIZE", value_parser = ::sort::parse_size)]
    pub(crate) memory: Option<u64>,
    /// The folder for temporary files [default: $TMPDIR, otherwise the folder of OUT, otherwise
    /// /var/tmp]
    #[arg(long, value_name = "DIR")]
    pub(crate) tmp: Option<PathBuf>,
    /// How to sort [default: merge; with --ranks, columnsort]
    #[arg(long, value_enum)]
    pub(crate) algorithm: Option<Algorithm>,
    /// With columnsort, the resource that limits it, for experiments [default: io-bound]
    #[arg(long, value_enum)]
    pub(crate) variant: Option<Variant>,
    /// Sort in N processes, the ranks of a job of `rowlock prun`, by columnsort; IN and OUT are
    /// files, and --memory is for all ranks together, of which each needs more than one process
    /// would. Within a job, N is the number of its ranks
    #[arg(long, value_name = "N", value_parser = ranks, conflicts_with = "unique")]
    pub(crate) ranks: Option<u32>,
    /// Read the output again before it replaces OUT, and compare its order, and a checksum of all
    /// records, with the input
    #[arg(long)]
    pub(crate) verify: bool,
    /// Print neither progress nor a summary
    #[arg(long)]
    pub(crate) quiet: bool,
    /// The format of the summary: text on standard error, or json on standard output, in which case
    /// OUT has to be a file
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: TextOrJson,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Algorithm {
    /// Sort as much as fits into memory, repeatedly, and merge all of that in one pass: all data is
    /// read and written twice
    #[default]
    Merge,
    /// Columnsort in three passes, for records of one size: the order of reads and writes does not
    /// depend on the data
    Columnsort,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Variant {
    /// As fast as possible, so that the disk limits it
    #[default]
    IoBound,
    /// By comparing and exchanging whole records, so that the CPUs limit it
    ComputeBound,
}

fn ranks(text: &str) -> Result<u32, String> {
    super::prun::number(text, MOST_RANKS)
}

fn record(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("a record has at least one byte".to_owned()),
        Ok(bytes) => Ok(bytes),
        Err(_) => Err("write a number of bytes, as in 100".to_owned()),
    }
}
