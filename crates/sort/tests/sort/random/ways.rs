//! Input and output of the cases: files and pipes, with and without verification.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};

use rowlock_sort::{Algorithm, Input, Order, Outcome, Output, Sort, SortError};

use super::case::{Case, Draw};
use super::expected::expected;

/// Little memory, so that most cases do not fit into it.
const MEMORY: u64 = 256 << 10;

/// The kinds of input and output of a case.
pub(crate) struct Way {
    from_file: bool,
    to_file: bool,
    is_verified: bool,
    seed: u64,
}

impl Way {
    /// The way of the case with this number.
    pub(crate) fn new(number: u64) -> Way {
        let seed = number ^ 0x5eed;
        let mut draw = Draw::new(seed);
        let to_file = draw.one_in(2);
        Way { from_file: draw.one_in(2), to_file, is_verified: to_file && draw.one_in(2), seed }
    }
}

/// The folders of the test.
pub(crate) struct Ways {
    files: tempfile::TempDir,
    temporary: tempfile::TempDir,
}

impl Ways {
    pub(crate) fn new() -> Ways {
        // In memory if possible, since removing files from a disk takes longer than the rest.
        let folder = || tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        Ways { files: folder(), temporary: folder() }
    }

    /// Sorts the case with little memory, and compares the output.
    pub(crate) fn check(&self, case: &Case, way: &Way, algorithm: Algorithm) -> Outcome {
        let sorted = match self.sort(case, way, algorithm, MEMORY) {
            Err(SortError::Memory { needed, .. }) => self.sort(case, way, algorithm, needed),
            sorted => sorted,
        };
        let (bytes, outcome) = sorted.unwrap_or_else(|why| panic!("{case}: {why}"));
        assert!(bytes == expected(case), "{case}");
        assert_eq!(outcome.records, case.records.len() as u64, "{case}");
        assert_eq!(std::fs::read_dir(self.temporary.path()).unwrap().count(), 0, "{case}: temporary files remain");
        outcome
    }

    fn sort(&self, case: &Case, way: &Way, algorithm: Algorithm, memory: u64) -> Result<(Vec<u8>, Outcome), SortError> {
        let (source, target) = (self.files.path().join("in"), self.files.path().join("out"));
        let bytes = case.records.concat();
        let input = if way.from_file {
            std::fs::write(&source, &bytes).unwrap();
            Input::open(&source)?
        } else {
            Input::stream("a pipe", Trickle { bytes: io::Cursor::new(bytes), draw: Draw::new(way.seed) })
        };
        let collected = Collected::default();
        let output = match way.to_file {
            true => Output::create(&target)?,
            false => Output::stream("a pipe", collected.clone()),
        };
        let order = Order::new(case.format, case.keys.clone())?;
        let (temporary, is_unique, verifies) = (self.temporary.path().to_owned(), case.is_unique, way.is_verified);
        let sort = Sort { memory, temporary, algorithm, is_unique, verifies, ..Sort::new(order) };
        let outcome = sort.run(input, output)?;
        let sorted = match way.to_file {
            true => std::fs::read(&target).unwrap(),
            false => std::mem::take(&mut *collected.0.lock().unwrap()),
        };
        Ok((sorted, outcome))
    }
}

/// A reader that sometimes returns only a few bytes at a time.
struct Trickle {
    bytes: io::Cursor<Vec<u8>>,
    draw: Draw,
}

impl Read for Trickle {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = if self.draw.one_in(4) { 1 + self.draw.below(100) as usize } else { into.len() };
        let most = most.min(into.len());
        self.bytes.read(&mut into[..most])
    }
}

/// A writer that collects its bytes.
#[derive(Clone, Default)]
struct Collected(Arc<Mutex<Vec<u8>>>);

impl Write for Collected {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
