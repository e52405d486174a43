//! Configures and runs a sort.

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

/// A configured sort.
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

/// The result of a sort.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The number of records read.
    pub records: u64,
    /// The number of bytes read.
    pub bytes: u64,
    /// The number of records written. It is smaller than `records` if duplicates were dropped.
    pub written: u64,
    /// The number of runs or columns; 1 if all records fitted into memory.
    pub runs: u64,
    /// For merging, the number of times the data was read and written again after the runs were
    /// formed; for columnsort, the number of passes.
    pub passes: u32,
    /// The reports of the pipelines, in the order in which they ran.
    pub reports: Vec<RunReport>,
}

impl Sort {
    /// Creates a merge sort in this order, with 256 MiB of memory and the system's folder for
    /// temporary files.
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

    /// Limits the memory to this many bytes, including the page cache.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Sets the folder for temporary files.
    pub fn temporary(mut self, folder: impl Into<PathBuf>) -> Self {
        self.temporary = folder.into();
        self
    }

    /// Sets the algorithm.
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Keeps only the first of several records with equal keys.
    pub fn unique(mut self) -> Self {
        self.is_unique = true;
        self
    }

    /// Reads the output back before it gets its name. Checks its order, and compares a checksum of
    /// all records with that of the input.
    pub fn verify(mut self) -> Self {
        self.verifies = true;
        self
    }

    /// Shows progress on standard error if it is a terminal.
    pub fn progress(mut self) -> Self {
        self.shows_progress = true;
        self
    }

    /// Sorts and blocks until the output is complete.
    ///
    /// # Errors
    /// Returns a [`SortError`]. The target is then unchanged, and no temporary files remain.
    pub fn run(&self, input: Input, output: Output) -> Result<Outcome, SortError> {
        self.run_until(input, output, &Canceller::new())
    }

    /// Like [`Sort::run`], but can be cancelled.
    ///
    /// # Errors
    /// Returns the errors of [`Sort::run`] and [`SortError::Cancelled`].
    pub fn run_until(&self, input: Input, output: Output, canceller: &Canceller) -> Result<Outcome, SortError> {
        if self.verifies && !output.is_file() {
            return Err(SortError::Unsupported(format!(
                "{}: cannot be verified, because it cannot be read back",
                output.name()
            )));
        }
        // Reports too little memory for verification before the sort, not after it.
        let budget = if self.verifies { Some(Budget::new(self.memory)?) } else { None };
        // Without duplicates, the output may need much less room.
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
        // A cheap check that no defect in the sort has lost records.
        let (expected, _) = counts.expected();
        if written.0 != expected {
            return Err(SortError::Wrong(format!("{} records were written instead of {expected}", written.0)));
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
