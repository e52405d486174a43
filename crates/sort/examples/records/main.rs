//! Generates records to sort, and checks sorted ones: `cargo run --release -p rowlock-sort
//! --example records -- generate 42949673 unsorted`, sort, then `.. check sorted`.
//!
//! Count and sum printed by `check` are the same for sorted and unsorted records if none were lost.
#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

mod records;

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::records::{Check, Kind};

/// Generates records to sort, and checks sorted ones.
#[derive(Debug, Parser)]
#[command(name = "records")]
struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Writes this many records into a file; the same seed makes the same records
    Generate {
        /// The number of records
        count: u64,
        /// The file; it is overwritten
        file: PathBuf,
        /// `records` of 100 bytes with a key in the first 10, a number after it, and a line feed at
        /// the end, or `lines` with a short decimal number or a made-up word
        #[arg(long, default_value_t = Kind::Fixed)]
        kind: Kind,
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Prints the number of records, a sum over them that does not depend on their order, and the
    /// number of records out of order
    Check {
        /// The file to read
        file: PathBuf,
        /// `records` of 100 bytes with a key in the first 10, a number after it, and a line feed at
        /// the end, or `lines` with a short decimal number or a made-up word
        #[arg(long, default_value_t = Kind::Fixed)]
        kind: Kind,
    },
}

fn main() -> anyhow::Result<()> {
    match Options::parse().what {
        What::Generate { count, file, kind, seed } => {
            let mut file = BufWriter::with_capacity(1 << 20, File::create(file)?);
            kind.generate(count, seed, &mut file)?;
            file.flush()?;
        }
        What::Check { file, kind } => {
            let Check { count, sum, disordered, unstable } =
                Check::read(kind, BufReader::with_capacity(1 << 20, File::open(file)?))?;
            println!("{count} records, sum {sum:016x}, {disordered} out of order, {unstable} equal ones swapped");
        }
    }
    Ok(())
}
