//! The arguments of `rowlock sort`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use sort::{Key, KeyError};

use super::TextOrJson;
use crate::sort::size;

const AFTER_HELP: &str = "\
A KEY is OFFSET[:LENGTH][:KIND][:descending]. OFFSET counts bytes from 0; without LENGTH a key goes to the end of the record. KIND is bytes (as if \
nothing is said), unsigned-le, unsigned-be, signed-le, signed-be, float-le, float-be, or decimal, a number in text. Several keys count \
in their order; without any, whole records are compared as bytes. Records that are equal by all keys stay in the order of the input.

Examples:
  rowlock sort words.txt sorted.txt
  rowlock sort --record 100 --key 0:10 --memory 512MiB --tmp /scratch records sorted
  rowlock sort --record 16 --key 8:8:float-le:descending --key 0:8:unsigned-le points points
  generate | rowlock sort --key 0:decimal - - | consume

The pipelines that it runs obey ROWLOCK_PIPELINE (docs/pipeline.md); docs/sort.md is the guide.

Exit codes: 0 done; 1 it failed; 2 bad arguments or input, a truncated last record among them; 130 and 143 interrupted by Ctrl-C and SIGTERM; 141 nobody \
reads the output any more. Unless it is 0, the target is as it was before. No exit leaves temporary files.";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Sort {
    /// What to sort: a file, or `-` for standard input
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// Where to: a file, which may be IN and appears only when it is whole, or `-` for standard output
    #[arg(value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// Records of N bytes each
    #[arg(long, value_name = "N", conflicts_with = "lines", value_parser = record)]
    pub(crate) record: Option<usize>,
    /// Records are lines; a last one without a line feed gets one [the default]
    #[arg(long)]
    pub(crate) lines: bool,
    /// What to sort by; several count in their order [default: the whole record, as bytes]
    #[arg(long = "key", value_name = "KEY", value_parser = key)]
    pub(crate) keys: Vec<Key>,
    /// The other way round: all keys that would ascend descend, and the reverse; equal records stay in the order of the input all the same
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Keep only the first of records that are equal by their keys
    #[arg(long)]
    pub(crate) unique: bool,
    /// How much memory to use, the kernel's copies of files counted, as in 512MiB or "2 GiB" [default: a quarter of what is available, as the
    /// limits of control groups leave it]
    #[arg(long, value_name = "SIZE", value_parser = size::size)]
    pub(crate) memory: Option<u64>,
    /// The folder for temporary files [default: $TMPDIR, else where OUT is, else /var/tmp]
    #[arg(long, value_name = "DIR")]
    pub(crate) tmp: Option<PathBuf>,
    /// How to sort
    #[arg(long, value_enum, default_value_t)]
    pub(crate) algorithm: Algorithm,
    /// With columnsort, what shall be the limit, for experiments [default: io-bound]
    #[arg(long, value_enum)]
    pub(crate) variant: Option<Variant>,
    /// Read the output back before it gets its name, and compare it with what was read: its order, and a checksum of all records
    #[arg(long)]
    pub(crate) verify: bool,
    /// Say nothing of progress, and nothing of what was done
    #[arg(long)]
    pub(crate) quiet: bool,
    /// How to say what was done: text goes to standard error, json to standard output, where OUT has to be a file
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: TextOrJson,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Algorithm {
    /// Sort what fits into memory, again and again, and merge all that at once: data is read and written twice in all
    #[default]
    Merge,
    /// Columnsort in three passes, for records of one size: what is read and written when does not depend on the data
    Columnsort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Variant {
    /// As fast as can be, so that the disk is what it waits for
    IoBound,
    /// By comparing and exchanging whole records, so that the CPUs are what it waits for
    ComputeBound,
}

fn record(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("a record has at least one byte".to_owned()),
        Ok(bytes) => Ok(bytes),
        Err(_) => Err("write a number of bytes, as in 100".to_owned()),
    }
}

fn key(text: &str) -> Result<Key, KeyError> {
    text.parse()
}
