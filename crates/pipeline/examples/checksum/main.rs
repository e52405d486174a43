//! Checksums of many files in the format of `sha256sum`: one stage reads, two or more hash, one
//! prints in the order of the files.
//!
//! A file can only be hashed sequentially, so the program hashes different files in parallel. Each
//! hashing stage is a *lane*. The reader assigns files to the lanes and serves them in turn. A
//! buffer visits all lanes and is hashed in its own; the others pass it on. So each lane gets its
//! buffers in order, without a lock, and its state is private.
#![allow(clippy::print_stdout, reason = "a program prints its results")]

#[path = "../shared/files.rs"]
mod files;
#[macro_use]
#[path = "../shared/say.rs"]
mod say;
mod line;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use rowlock_pipeline::{Buffer, Flow, Pipeline};
use sha2::{Digest, Sha256};

/// The default size of a buffer.
const BLOCK: usize = 256 * 1024;

/// The number of buffers for each lane.
const BLOCKS_PER_LANE: usize = 4;

/// Prints the SHA-256 checksums of files, and of all files below folders, for `sha256sum --check`.
///
/// Links inside folders are not followed. The variable ROWLOCK_PIPELINE changes the structure, as
/// in "block=1MiB threads=each".
#[derive(Debug, Parser)]
#[command(name = "checksum")]
struct Options {
    /// Files and folders
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// How many files are hashed in parallel; by default as many as there are CPUs
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=256))]
    lanes: Option<u16>,
    /// Prints what limited the run, and the least time that it could have taken
    #[arg(long)]
    verdict: bool,
}

/// The tag of a buffer.
#[derive(Default)]
struct Piece {
    lane: usize,
    /// The number of the file.
    file: usize,
    state: State,
}

/// The state of a file after this buffer.
#[derive(Default)]
enum State {
    /// More buffers follow.
    #[default]
    Going,
    /// This is its last buffer.
    Read,
    /// It could not be read to its end, which has been reported.
    Failed,
    /// Its checksum.
    Hashed([u8; 32]),
}

fn main() -> ExitCode {
    let options = Options::parse();
    match checksums(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            say!("checksum: {why:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the pipeline. Returns whether all files could be read.
fn checksums(options: &Options) -> anyhow::Result<bool> {
    let cpus = std::thread::available_parallelism()?.get();
    let lanes = options.lanes.map_or(cpus, usize::from);
    let (paths, mut all_read) = all(&options.paths);
    let mut reader = Reader { lanes: (0..lanes).map(|_| None).collect(), turn: 0, paths: paths.iter().enumerate() };
    let mut printer =
        Printer { output: io::BufWriter::new(io::stdout()), paths: &paths, next: 0, early: BTreeMap::new() };
    let mut pipeline = Pipeline::<Piece>::tagged("checksum")
        .buffers(BLOCKS_PER_LANE * lanes, BLOCK)
        .io("read", |_round, buffer| Ok(if reader.fill(buffer) { Flow::Convey } else { Flow::End }));
    for lane in 0..lanes {
        let mut hash = Sha256::new();
        pipeline = pipeline.compute(&format!("hash-{lane}"), move |_round, buffer| {
            if buffer.tag.lane == lane {
                hash.update(buffer.filled());
                match buffer.tag.state {
                    State::Read => buffer.tag.state = State::Hashed(hash.finalize_reset().into()),
                    State::Failed => hash.reset(),
                    State::Going | State::Hashed(_) => {}
                }
            }
            Ok(Flow::Convey)
        });
    }
    let report = pipeline
        .io("print", |round, buffer| {
            match buffer.tag.state {
                State::Hashed(digest) => printer.take(buffer.tag.file, Some(digest))?,
                State::Failed => {
                    all_read = false;
                    printer.take(buffer.tag.file, None)?;
                }
                State::Going | State::Read => {}
            }
            if round.is_last {
                printer.output.flush()?;
            }
            Ok(Flow::Convey)
        })
        .run()?;
    if options.verdict {
        say!("{}", report.verdict());
    }
    Ok(all_read)
}

/// All files, and whether all folders could be read.
fn all(paths: &[PathBuf]) -> (Vec<PathBuf>, bool) {
    let (mut found, mut all_read) = (Vec::new(), true);
    for file in files::below(paths) {
        match file {
            Ok(path) => found.push(path),
            Err(why) => {
                say!("checksum: {why}");
                all_read = false;
            }
        }
    }
    (found, all_read)
}

/// Fills buffers from one file for each lane at a time.
struct Reader<'a> {
    lanes: Vec<Option<(usize, &'a Path, File)>>,
    /// The next lane to serve.
    turn: usize,
    paths: std::iter::Enumerate<std::slice::Iter<'a, PathBuf>>,
}

impl Reader<'_> {
    /// Fills the buffer from the file of the next lane that has one. Returns `false` if there are
    /// no more files.
    fn fill(&mut self, buffer: &mut Buffer<Piece>) -> bool {
        for _ in 0..self.lanes.len() {
            let lane = self.turn;
            self.turn = (lane + 1) % self.lanes.len();
            if let Some((file, state)) = self.fill_from(lane, buffer) {
                buffer.tag = Piece { lane, file, state };
                return true;
            }
        }
        // An empty buffer without a file.
        buffer.tag = Piece::default();
        false
    }

    /// Fills the buffer from the lane's file. Returns the number of the file and its state, or
    /// `None` if there are no more files.
    fn fill_from(&mut self, lane: usize, buffer: &mut Buffer<Piece>) -> Option<(usize, State)> {
        let complain = |path: &Path, why| say!("checksum: {}: {why}", path.display());
        let (number, path, mut file) = match self.lanes[lane].take() {
            Some(open) => open,
            None => {
                let (number, path) = self.paths.next()?;
                match File::open(path) {
                    Ok(file) => (number, path.as_path(), file),
                    Err(why) => {
                        complain(path, why);
                        return Some((number, State::Failed));
                    }
                }
            }
        };
        let state = match buffer.fill_from(&mut file) {
            Ok(_) if buffer.len() < buffer.capacity() => State::Read,
            Ok(_) => {
                self.lanes[lane] = Some((number, path, file));
                State::Going
            }
            Err(why) => {
                complain(path, why);
                State::Failed
            }
        };
        Some((number, state))
    }
}

/// Prints the checksums in the order of the files.
struct Printer<'a, W: Write> {
    output: W,
    paths: &'a [PathBuf],
    /// The file whose line is next.
    next: usize,
    /// The results of later files. `None` for a file without a checksum.
    early: BTreeMap<usize, Option<[u8; 32]>>,
}

impl<W: Write> Printer<'_, W> {
    fn take(&mut self, file: usize, digest: Option<[u8; 32]>) -> io::Result<()> {
        self.early.insert(file, digest);
        while let Some(digest) = self.early.remove(&self.next) {
            if let Some(digest) = digest {
                self.output.write_all(&line::of(&digest, &self.paths[self.next]))?;
            }
            self.next += 1;
        }
        Ok(())
    }
}
