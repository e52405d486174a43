//! Counts words, as `wc -w` does, in all files below a folder: one stage reads, one counts on all CPUs, one adds up.
//!
//! A buffer holds as many files as fit, or a part of a large one, so that a million small files are not a million buffers. The counting stage
//! needs no order: of a file that was parted, a part knows whether it begins within a word.
#![allow(clippy::print_stdout, reason = "a program speaks to people")]

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

/// How many bytes travel at once, unless `ROWLOCK_PIPELINE` says otherwise.
const BLOCK: usize = 256 * 1024;

/// How many such blocks there are for each CPU.
const BLOCKS_PER_CPU: usize = 4;

/// Counts the words in files, and in all files below folders; `find PATH -type f -print0 | wc -w --files0-from=-` does the same.
///
/// A word is what lies between white space, which is that of ASCII. Links that are met on the way are not followed. The variable ROWLOCK_PIPELINE
/// changes how it runs, as in "block=1MiB fork=count*1".
#[derive(Debug, Parser)]
#[command(name = "word-count")]
struct Options {
    /// Files and folders
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Says the words of each file too, before those of all
    #[arg(short, long)]
    each: bool,
    /// Says what limited the run, and what the least time for it would have been
    #[arg(long)]
    verdict: bool,
}

/// A file, or a part of one, within a buffer.
struct Part {
    /// The number of the file.
    file: usize,
    /// Where in the buffer it ends; it begins where the one before ends.
    end: usize,
    /// Whether the byte before it belongs to a word.
    within_word: bool,
    words: u64,
}

/// What travels with a buffer.
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

/// The pipeline. Returns whether all could be read.
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

/// Fills buffers with one file after the other.
struct Reader<'a> {
    paths: Box<dyn Iterator<Item = Result<PathBuf, String>> + Send + 'a>,
    current: Option<Current>,
    /// How many files there were so far.
    count: usize,
    /// What they are called, where somebody wants to know.
    names: Vec<PathBuf>,
    wants_names: bool,
    /// Whether there was nothing that could not be read.
    all_read: bool,
}

/// The file that is being read.
struct Current {
    file: File,
    path: PathBuf,
    number: usize,
    /// Whether the last byte so far belongs to a word.
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

    /// Fills the buffer as far as there are files; false where there are no more.
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

/// Reads once, however often that is interrupted.
fn read(file: &mut File, space: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(space) {
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
