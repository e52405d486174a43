//! Records to sort, and whether they were: `cargo run --release -p rowlock-sort --example records -- generate 42949673 unsorted`, sort, then `.. check sorted`.
//!
//! What `check` prints of the sorted records and of the unsorted ones is the same where nothing is lost.
#![allow(clippy::print_stdout, reason = "it is what it is for")]

mod records;

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::records::{Check, Kind};

/// Makes records to sort, and checks sorted ones.
#[derive(Debug, Parser)]
#[command(name = "records")]
struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Writes as many records as asked for into a file, the same ones for the same seed
    Generate {
        /// How many
        count: u64,
        /// Where to; what is there is overwritten
        file: PathBuf,
        /// `records` of 100 bytes with a key in the first 10, a number behind it, and a line feed at the end, or `lines` of a short decimal number or a
        /// made-up word
        #[arg(long, default_value_t = Kind::Fixed)]
        kind: Kind,
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Says how many records there are, a sum over them that does not depend on their order, and how many come before one that should be before them
    Check {
        /// What to read
        file: PathBuf,
        /// `records` of 100 bytes with a key in the first 10, a number behind it, and a line feed at the end, or `lines` of a short decimal number or a
        /// made-up word
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
