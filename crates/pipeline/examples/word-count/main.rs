//! Counts the words in all files below a folder, as `wc -w` does: one stage reads, one counts on
//! all CPUs, one adds.
//!
//! A buffer holds as many files as fit, or a part of a large one, so that a million small files
//! need few buffers. The counting stage needs no order, because each part of a file knows whether
//! it begins within a word.
#![allow(clippy::print_stdout, reason = "a program prints its results")]

#[path = "../shared/files.rs"]
mod files;
#[macro_use]
#[path = "../shared/say.rs"]
mod say;
mod words;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use rowlock_pipeline::StageKind;
use rowlock_pipeline::{Buffer, Flow, Pipeline};

/// The default size of a buffer.
const BLOCK: usize = 256 * 1024;

/// The number of buffers for each CPU.
const BLOCKS_PER_CPU: usize = 4;

/// Counts the words in files, and in all files below folders, as `find PATH -type f -print0 | wc -w
/// --files0-from=-` does.
///
/// A word is the text between ASCII white space. Links inside folders are not followed. The
/// variable ROWLOCK_PIPELINE changes the structure, as in "block=1MiB fork=count*1".
#[derive(Debug, Parser)]
#[command(name = "word-count")]
struct Options {
    /// Files and folders
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Prints the words of each file before the total
    #[arg(short, long)]
    each: bool,
    /// Prints what limited the run, and the least time that it could have taken
    #[arg(long)]
    verdict: bool,
}

/// A file, or a part of one, in a buffer.
struct Part {
    /// The number of the file.
    file: usize,
    /// Its end in the buffer. It begins at the end of the part before.
    end: usize,
    /// Whether the byte before it belongs to a word.
    within_word: bool,
    words: u64,
}

/// The tag of a buffer.
type Parts = Vec<Part>;

fn main() -> ExitCode {
    let options = Options::parse();
    match count(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            say!("word-count: {why:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the pipeline. Returns whether all files could be read.
fn count(options: &Options) -> anyhow::Result<bool> {
    let cpus = std::thread::available_parallelism()?.get();
    let mut reader = Reader::new(options);
    let (mut all, mut each) = (0, Vec::new());
    let report = Pipeline::<Parts>::tagged("word-count")
        .buffers(BLOCKS_PER_CPU * cpus.max(2), BLOCK)
        .io("read", |_round, buffer| Ok(if reader.fill(buffer) { Flow::Convey } else { Flow::Last }))
        .forkable("count", StageKind::Compute, |_round, buffer| {
            let mut parts = std::mem::take(&mut buffer.tag);
            let mut begin = 0;
            for part in &mut parts {
                part.words = words::begun(&buffer.filled()[begin..part.end], part.within_word);
                begin = part.end;
            }
            buffer.tag = parts;
            Ok(Flow::Convey)
        })
        .unordered()
        .compute("add", |_round, buffer| {
            for part in &buffer.tag {
                all += part.words;
                if options.each {
                    each.resize(each.len().max(part.file + 1), 0);
                    each[part.file] += part.words;
                }
            }
            Ok(Flow::Convey)
        })
        .run()?;
    if options.verdict {
        say!("{}", report.verdict());
    }
    let mut output = io::BufWriter::new(io::stdout().lock());
    each.resize(reader.names.len(), 0);
    for (name, words) in reader.names.iter().zip(each) {
        writeln!(output, "{words} {}", name.display())?;
    }
    writeln!(output, "{all}{}", if options.each { " total" } else { "" })?;
    output.flush()?;
    Ok(reader.all_read)
}

/// Fills buffers from all files in sequence.
struct Reader<'a> {
    paths: Box<dyn Iterator<Item = Result<PathBuf, String>> + Send + 'a>,
    current: Option<Current>,
    /// The number of files opened so far.
    count: usize,
    /// Their names, if `wants_names`.
    names: Vec<PathBuf>,
    wants_names: bool,
    /// Whether all files could be read.
    all_read: bool,
}

/// The current file.
struct Current {
    file: File,
    path: PathBuf,
    number: usize,
    /// Whether the last byte read belongs to a word.
    within_word: bool,
}

impl Reader<'_> {
    fn new(options: &Options) -> Reader<'_> {
        Reader {
            paths: Box::new(files::below(&options.paths)),
            current: None,
            count: 0,
            names: Vec::new(),
            wants_names: options.each,
            all_read: true,
        }
    }

    /// Fills the buffer. Returns `false` if there are no more files.
    fn fill(&mut self, buffer: &mut Buffer<Parts>) -> bool {
        buffer.tag.clear();
        let mut filled = 0;
        while filled < buffer.capacity() {
            let Some(mut current) = self.current.take().or_else(|| self.next()) else {
                buffer.set_len(filled);
                return false;
            };
            match read(&mut current.file, &mut buffer.space()[filled..]) {
                Ok(0) => {}
                Ok(count) => {
                    let last = buffer.space()[filled + count - 1];
                    filled += count;
                    let Current { number, within_word, .. } = current;
                    match buffer.tag.last_mut() {
                        Some(part) if part.file == number => part.end = filled,
                        _ => buffer.tag.push(Part { file: number, end: filled, within_word, words: 0 }),
                    }
                    current.within_word = !words::is_space(last);
                    self.current = Some(current);
                }
                Err(why) => self.complain(&current.path, &why),
            }
        }
        buffer.set_len(filled);
        true
    }

    /// Opens the next file.
    fn next(&mut self) -> Option<Current> {
        loop {
            let path = match self.paths.next()? {
                Ok(path) => path,
                Err(why) => {
                    say!("word-count: {why}");
                    self.all_read = false;
                    continue;
                }
            };
            match File::open(&path) {
                Ok(file) => {
                    if self.wants_names {
                        self.names.push(path.clone());
                    }
                    self.count += 1;
                    return Some(Current { file, path, number: self.count - 1, within_word: false });
                }
                Err(why) => self.complain(&path, &why),
            }
        }
    }

    fn complain(&mut self, path: &Path, why: &io::Error) {
        say!("word-count: {}: {why}", path.display());
        self.all_read = false;
    }
}

/// Reads once, and repeats that after an interruption.
fn read(file: &mut File, space: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(space) {
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
