//! A sort: what is asked for, and what came of it.

use std::path::PathBuf;

use pipeline::{Canceller, RunReport};

use crate::algorithm::{Algorithm, Sorted};
use crate::block_writer::Destinations;
use crate::budget::Budget;
use crate::columnsort;
use crate::error::SortError;
use crate::file::input::Input;
use crate::file::output::Output;
use crate::job::Job;
use crate::merge::merge;
use crate::order::Order;
use crate::progress::Progress;
use crate::record_counts::RecordCounts;
use crate::runs::{Formed, form};
use crate::temporary_file::TemporaryFile;
use crate::verify::verify;

/// A sort that can be run.
///
/// ```
/// use std::io::Cursor;
/// use rowlock_sort::{Format, Input, Order, Output, Sort};
///
/// let order = Order::new(Format::Lines, Vec::new())?;
/// let folder = tempfile::tempdir()?;
/// let target = folder.path().join("sorted");
/// let input = Input::stream("words", Cursor::new("b\nc\na\n"));
/// let outcome = Sort::new(order).run(input, Output::create(&target)?)?;
/// assert_eq!(outcome.records, 3);
/// assert_eq!(std::fs::read_to_string(&target)?, "a\nb\nc\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sort {
    pub(crate) order: Order,
    pub(crate) memory: u64,
    pub(crate) temporary: PathBuf,
    pub(crate) algorithm: Algorithm,
    pub(crate) is_unique: bool,
    pub(crate) verifies: bool,
    pub(crate) shows_progress: bool,
}

/// What came of a sort.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How many records were read.
    pub records: u64,
    /// How many bytes were read.
    pub bytes: u64,
    /// How many records were written: less where only one of several equal ones was wanted.
    pub written: u64,
    /// How many runs, or columns, there were; 1 where all fitted into memory.
    pub runs: u64,
    /// How often the data was read and written again after the runs were formed; for columnsort, how many passes there were.
    pub passes: u32,
    /// What each of the pipelines did, in their order.
    pub reports: Vec<RunReport>,
}

impl Sort {
    /// A sort of records in this order, by merging, with a quarter of a GiB of memory and temporary files where the system keeps them.
    pub fn new(order: Order) -> Sort {
        Sort {
            order,
            memory: 256 << 20,
            temporary: std::env::temp_dir(),
            algorithm: Algorithm::Merge,
            is_unique: false,
            verifies: false,
            shows_progress: false,
        }
    }

    /// So many bytes of memory at the most, the kernel's copies of files counted.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// The folder for temporary files.
    pub fn temporary(mut self, folder: impl Into<PathBuf>) -> Self {
        self.temporary = folder.into();
        self
    }

    /// How to sort.
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Keeps only the first of records that are equal by their keys.
    pub fn unique(mut self) -> Self {
        self.is_unique = true;
        self
    }

    /// Reads what was written once more before it gets its name, and compares it with what was read: its order, and a checksum of all records.
    pub fn verify(mut self) -> Self {
        self.verifies = true;
        self
    }

    /// Shows how far it is on the terminal, if the standard error output is one.
    pub fn progress(mut self) -> Self {
        self.shows_progress = true;
        self
    }

    /// Sorts, and waits for that.
    ///
    /// # Errors
    /// [`SortError`]; the target is as it was then, and there are no temporary files.
    pub fn run(&self, input: Input, output: Output) -> Result<Outcome, SortError> {
        self.run_until(input, output, &Canceller::new())
    }

    /// As [`Sort::run`], to be ended early by this.
    ///
    /// # Errors
    /// As [`Sort::run`], and that it was cancelled.
    pub fn run_until(&self, input: Input, output: Output, canceller: &Canceller) -> Result<Outcome, SortError> {
        if self.verifies && !output.is_file() {
            return Err(SortError::Unsupported(format!(
                "{}: what goes there cannot be read again to verify it",
                output.name()
            )));
        }
        // Verifying is not to be found impossible when all has been sorted.
        let budget = if self.verifies { Some(Budget::new(self.memory)?) } else { None };
        // Only one of equal records may need much less room.
        if let (Some(length), false) = (input.length(), self.is_unique) {
            output.expect(length)?;
        }
        let counts = RecordCounts::new(self.verifies);
        let temporary = TemporaryFile::new(&self.temporary);
        let transfers = match self.algorithm {
            Algorithm::Merge => 2,
            Algorithm::Columnsort(_) => columnsort::TRANSFERS,
        };
        let progress = Progress::begin(self.shows_progress, input.length(), transfers + u64::from(self.verifies));
        let to = Destinations { output: &output, temporary: &temporary, progress: &progress };
        let (order, is_unique, memory) = (&self.order, self.is_unique, self.memory);
        let job = Job { order, to, counts: &counts, is_unique, memory, canceller };
        let Sorted { written, runs, passes, mut reports } = match self.algorithm {
            Algorithm::Merge => merge_sort(&job, &input)?,
            Algorithm::Columnsort(variant) => columnsort::sort(&job, variant, &input)?,
        };
        // Costs nothing, and no fault in what comes before can lose records without being noticed.
        let (expected, _) = counts.expected();
        if written.0 != expected {
            return Err(SortError::Wrong(format!("{} records were written, and should be {expected}", written.0)));
        }
        if let Some(budget) = budget {
            reports.push(verify(&job, written, budget)?);
        }
        drop(progress);
        output.finish(written.1)?;
        let (records, bytes) = (counts.records(), counts.bytes());
        Ok(Outcome { records, bytes, written: written.0, runs, passes, reports })
    }
}

fn merge_sort(job: &Job<'_>, input: &Input) -> Result<Sorted, SortError> {
    let budget = Budget::new(job.memory)?;
    let Formed { runs, loads, written, report } = form(job, input, budget)?;
    let formed = Sorted { written, runs: loads, passes: 0, reports: vec![report] };
    if runs.is_empty() {
        return Ok(formed);
    }
    let merged = merge(job, runs, budget)?;
    let reports = formed.reports.into_iter().chain(merged.reports).collect();
    Ok(Sorted { written: merged.written, passes: merged.passes, reports, ..formed })
}
