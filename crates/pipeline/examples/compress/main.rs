//! Compresses files as gzip and pigz do: one stage reads blocks, one compresses them on all CPUs,
//! one writes them in order.
//!
//! The middle stage runs in as many copies as there are CPUs. Only the pipeline's buffers are in
//! memory, however long the input is.
#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]

mod deflate;
mod ends;
#[macro_use]
#[path = "../shared/say.rs"]
mod say;
mod target;

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::Parser;
use rowlock_pipeline::{Flow, Pipeline, StageKind};

use crate::deflate::{HEADER, Piece};
use crate::ends::{Read, Totals, Write};
use crate::target::Target;

/// The default size of a block of the input.
const BLOCK: usize = 128 * 1024;

/// The number of blocks for each CPU: one is compressed while others are read and written.
const BLOCKS_PER_CPU: usize = 4;

/// Compresses files on all CPUs, each FILE into FILE.gz beside it. gunzip unpacks them.
///
/// Files get their names when they are complete. The variable ROWLOCK_PIPELINE changes how it runs,
/// as in "block=256KiB buffers=16 threads=each".
#[derive(Debug, Parser)]
#[command(name = "compress")]
struct Options {
    /// The files to compress; - or none means from standard input to standard output
    files: Vec<PathBuf>,
    /// From 0 (store only) and 1 (fastest) to 9 (smallest); -6 is short for --level 6
    #[arg(short, long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(0..=9))]
    level: u32,
    /// Writes to this file; only for a single input
    #[arg(short, long, value_name = "FILE", conflicts_with = "stdout")]
    output: Option<PathBuf>,
    /// Writes to standard output
    #[arg(short = 'c', long)]
    stdout: bool,
    /// Replaces existing files
    #[arg(short, long)]
    force: bool,
    /// Shows the progress, and the sizes and the speed for each file
    #[arg(short, long)]
    verbose: bool,
    /// Prints what limited the compression of each file, and the least time that it could have
    /// taken
    #[arg(long)]
    verdict: bool,
}

fn main() -> ExitCode {
    let mut options = Options::parse_from(arguments());
    if options.files.is_empty() {
        options.files.push("-".into());
    }
    if options.output.is_some() && options.files.len() > 1 {
        say!("compress: --output names one file, but there are {} to compress", options.files.len());
        return ExitCode::from(2);
    }
    if let Err(why) = target::remove_at_signals() {
        say!("compress: cannot handle signals: {why}");
        return ExitCode::FAILURE;
    }
    let mut outcome = ExitCode::SUCCESS;
    for file in &options.files {
        // Continue with the other files.
        if let Err(why) = compress(file, &options) {
            say!("compress: {}: {why:#}", file.display());
            outcome = ExitCode::FAILURE;
        }
    }
    outcome
}

/// Compresses one file.
fn compress(path: &Path, options: &Options) -> anyhow::Result<()> {
    let start = Instant::now();
    let is_input = path == Path::new("-");
    let (mut source, about) = open(path, is_input)?;
    let output = match &options.output {
        Some(output) => {
            let is_itself = about.as_ref().is_some_and(|about| about.is_file() && is_same(about, output));
            ensure!(!is_itself, "cannot write {}: it is the input", output.display());
            Some(output.clone())
        }
        None if is_input || options.stdout => None,
        None => Some(with_ending(path)),
    };
    let mut target = match &output {
        Some(output) => {
            Target::at(output, options.force).with_context(|| format!("cannot write {}", output.display()))?
        }
        None => Target::standard_output()?,
    };
    let Totals { read, written, .. } = run(&mut source, &mut target, options)?;
    target.finish(about.as_ref().filter(|_| !is_input))?;
    if options.verbose {
        let seconds = start.elapsed().as_secs_f64();
        say!(
            "{}: {read} bytes to {written} ({:.1} %), {:.1} MB/s",
            path.display(),
            100.0 * written as f64 / read.max(1) as f64,
            read as f64 / 1e6 / seconds,
        );
    }
    Ok(())
}

fn open(path: &Path, is_input: bool) -> anyhow::Result<(File, Option<Metadata>)> {
    let source = if is_input { File::from(io::stdin().as_fd().try_clone_to_owned()?) } else { File::open(path)? };
    let about = source.metadata().ok();
    ensure!(about.as_ref().is_none_or(|about| !about.is_dir()), "it is a folder; name the files in it");
    Ok((source, about))
}

/// Whether this is the file at a path.
fn is_same(about: &Metadata, path: &Path) -> bool {
    path.metadata().is_ok_and(|there| (there.dev(), there.ino()) == (about.dev(), about.ino()))
}

fn with_ending(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".gz");
    name.into()
}

/// Runs the pipeline.
fn run(source: &mut File, target: &mut Target, options: &Options) -> anyhow::Result<Totals> {
    let cpus = std::thread::available_parallelism()?.get();
    let is_ours = target.is_new();
    let target = &mut target.file;
    let mut totals = Totals::default();
    let mut pipeline = Pipeline::<Piece>::tagged("compress")
        .buffers(BLOCKS_PER_CPU * cpus.max(2), BLOCK)
        .stage("read", StageKind::Io, Read::new(source))
        .forkable("compress", StageKind::Compute, |round, buffer| {
            deflate::block(options.level, round.is_last, buffer)?;
            Ok(Flow::Convey)
        })
        .stage("write", StageKind::Io, Write { target, is_ours, totals: &mut totals });
    if options.verbose {
        pipeline = pipeline.progress();
    }
    let report = pipeline.run()?;
    if options.verdict {
        say!("{}", report.verdict());
    }
    let trailer = deflate::trailer(totals.checksum.clone(), totals.read);
    target.write_all(&trailer).context("cannot write")?;
    totals.written += (HEADER.len() + trailer.len()) as u64;
    Ok(totals)
}

/// The arguments, with `-6` replaced by `--level=6`, as in gzip.
fn arguments() -> impl Iterator<Item = OsString> {
    std::env::args_os().map(|argument| match argument.as_encoded_bytes() {
        [b'-', digit @ b'0'..=b'9'] => format!("--level={}", char::from(*digit)).into(),
        _ => argument,
    })
}
