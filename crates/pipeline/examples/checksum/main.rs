//! Checksums of many files, as `sha256sum` prints them: one stage reads, two or more hash, one prints in the order of the files.
//!
//! A file can only be hashed from its first byte to its last, so what is done at once are different files. Each hashing stage is a
//! *lane*: the reader hands it one file after the other, and takes turns between the lanes. A buffer visits all lanes and is hashed in its own; the
//! others let it pass. So each lane has its buffers in order, without a lock, and keeps its state to itself.
#![allow(clippy::print_stdout, reason = "a program speaks to people")]

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

/// How many bytes travel at once, unless `ROWLOCK_PIPELINE` says otherwise.
const BLOCK: usize = 256 * 1024;

/// How many such blocks there are for each lane.
const BLOCKS_PER_LANE: usize = 4;

/// Prints the SHA-256 checksums of files, and of all files below folders; `sha256sum --check` reads what is printed.
///
/// Links that are met on the way are not followed. The variable ROWLOCK_PIPELINE changes how it runs, as in "block=1MiB threads=each".
#[derive(Debug, Parser)]
#[command(name = "checksum")]
struct Options {
    /// Files and folders
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// How many files are hashed at once; by default as many as there are CPUs
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=256))]
    lanes: Option<u16>,
    /// Says what limited the run, and what the least time for it would have been
    #[arg(long)]
    verdict: bool,
}

/// What travels with a buffer: whose bytes are in it, and at a file's end what they came to.
#[derive(Default)]
struct Piece {
    lane: usize,
    /// The number of the file.
    file: usize,
    state: State,
}

/// How far a file has come.
#[derive(Default)]
enum State {
    /// There is more of it.
    #[default]
    Going,
    /// These are its last bytes.
    Read,
    /// It could not be read to its end, and that was said.
    Failed,
    /// This is its checksum.
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

/// The pipeline. Returns whether all could be read.
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
            if round.is_last() {
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

/// All files, and whether nothing kept us from any.
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

/// Fills buffers with the files, one for each lane at a time.
struct Reader<'a> {
    lanes: Vec<Option<(usize, &'a Path, File)>>,
    /// The lane that is to be served next.
    turn: usize,
    paths: std::iter::Enumerate<std::slice::Iter<'a, PathBuf>>,
}

impl Reader<'_> {
    /// Fills the buffer from the file of the next lane that has one; false where there are no more.
    fn fill(&mut self, buffer: &mut Buffer<Piece>) -> bool {
        for _ in 0..self.lanes.len() {
            let lane = self.turn;
            self.turn = (lane + 1) % self.lanes.len();
            if let Some((file, state)) = self.fill_from(lane, buffer) {
                buffer.tag = Piece { lane, file, state };
                return true;
            }
        }
        // An empty one, of no file.
        buffer.tag = Piece::default();
        false
    }

    /// Fills the buffer from the lane's file; nothing where there is none for it. Says whose bytes these are.
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
    /// The checksums of files behind it; nothing for those that have none.
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
