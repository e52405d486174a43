//! Configures and runs a sort.

use std::path::PathBuf;

use message::Communicator;
use pipeline::{Canceller, RunReport};

use crate::algorithm::{Algorithm, Sorted};
use crate::available::within_limits;
use crate::budget::Budget;
use crate::columnsort;
use crate::error::SortError;
use crate::file::input::Input;
use crate::file::output::Output;
use crate::job::Job;
use crate::merge::merge;
use crate::order::Order;
use crate::progress;
use crate::ranks::Ranks;
use crate::record_counts::RecordCounts;
use crate::runs::form;
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
    /// The order.
    pub order: Order,
    /// The memory budget in bytes, including the page cache; that of all ranks together. A sort
    /// uses less if the process may allocate less (`ulimit -v` and `-d`), or if the input is small.
    pub memory: u64,
    /// The folder for temporary files.
    pub temporary: PathBuf,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Whether to keep only the first of several records with equal keys.
    pub is_unique: bool,
    /// Whether to read the output back before it gets its name: check its order, and compare a
    /// checksum of all records with that of the input.
    pub verifies: bool,
    /// Whether to show progress on standard error if it is a terminal.
    pub shows_progress: bool,
}

/// The result of a sort.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The number of records read.
    pub records: u64,
    /// The memory budget in bytes that was used, by all ranks together.
    pub memory: u64,
    /// The number of bytes read.
    pub bytes: u64,
    /// The number of records written. It is smaller than `records` if duplicates were dropped.
    pub written: u64,
    /// The number of runs or columns; 1 if all records fitted into memory.
    pub runs: u64,
    /// For merging, the number of times the data was read and written again after the runs were
    /// formed; for columnsort, the number of passes.
    pub passes: u32,
    /// The reports of the pipelines of this rank, in the order in which they ran.
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

    /// Sorts and blocks until the output is complete.
    ///
    /// # Errors
    /// Returns a [`SortError`]. The target is then unchanged, and no temporary files remain.
    pub fn run(&self, input: Input, output: Output) -> Result<Outcome, SortError> {
        self.run_until(input, output, &Canceller::new())
    }

    /// Like [`Sort::run`], but can be cancelled; then it fails with [`SortError::Cancelled`].
    pub fn run_until(&self, input: Input, output: Output, canceller: &Canceller) -> Result<Outcome, SortError> {
        self.run_by(Ranks::ONE, input, output, canceller).map_err(|why| why.of_ranks(1, self.memory))
    }

    /// Like [`Sort::run_until`], as one of the ranks of a job: each reads, sorts and writes its
    /// part, by columnsort. All must call this for the same files, [opened](Input::open_by) and
    /// [created](Output::create_by) by all, and in the same order. Each has an equal part of the
    /// memory. The first rank verifies the output, and gives it its name.
    ///
    /// # Errors
    /// Returns a [`SortError`], also if another rank ends early. A rank that has an error must
    /// leave or end, so that the others end too. The target is unchanged then.
    pub fn run_as_rank(
        &self,
        world: &Communicator,
        input: Input,
        output: Output,
        canceller: &Canceller,
    ) -> Result<Outcome, SortError> {
        let obstacle = match self.algorithm {
            _ if !input.is_file() || !output.is_file() => "several ranks read and write only files: each its part",
            Algorithm::Merge => "several ranks sort by columnsort",
            _ if self.is_unique => "several ranks cannot drop records: the place of each depends on all before it",
            Algorithm::Columnsort(_) => {
                let ranks = Ranks::of(world);
                return self
                    .run_by(ranks, input, output, canceller)
                    .map_err(|why| why.of_ranks(ranks.count(), self.memory));
            }
        };
        Err(SortError::Unsupported(obstacle.to_owned()))
    }

    fn run_by(
        &self,
        ranks: Ranks<'_>,
        input: Input,
        output: Output,
        canceller: &Canceller,
    ) -> Result<Outcome, SortError> {
        if self.verifies && !output.is_file() {
            return Err(SortError::Unsupported(format!(
                "{}: cannot be verified, because it cannot be read back",
                output.name()
            )));
        }
        let useful = match (self.algorithm, input.length()) {
            (Algorithm::Merge, Some(length)) => Budget::most_useful(self.order.format(), length),
            // It derives what it needs from the length.
            (Algorithm::Columnsort(_), _) | (_, None) => u64::MAX,
        };
        let mut memory = [within_limits(self.memory.min(useful) / ranks.count(), ranks.count())?];
        // All choose the same matrix.
        ranks.combine(&mut memory, u64::min)?;
        let [memory] = memory;
        // Reports too little memory for verification before the sort, not after it.
        let budget = if self.verifies { Some(Budget::new(memory)?) } else { None };
        // Without duplicates, the output may need much less room.
        if let (Some(length), false) = (input.length().filter(|_| ranks.is_first()), self.is_unique) {
            output.expect(length)?;
        }
        let transfers = match self.algorithm {
            Algorithm::Merge => 2,
            Algorithm::Columnsort(_) => columnsort::TRANSFERS,
        };
        let job = Job {
            order: &self.order,
            output,
            temporary: TemporaryFile::new(&self.temporary),
            // That of a rank is close to that of all.
            progress: progress::bar(
                self.shows_progress && ranks.is_first(),
                input.length().map(|length| length / ranks.count()),
                transfers + u64::from(self.verifies),
            ),
            counts: RecordCounts::new(self.verifies),
            is_unique: self.is_unique,
            memory,
            ranks,
            canceller,
        };
        let Sorted { written, runs, passes, mut reports } = match self.algorithm {
            Algorithm::Merge => merge_sort(&job, &input)?,
            Algorithm::Columnsort(variant) => columnsort::sort(&job, variant, &input)?,
        };
        job.counts.add_ranks(ranks)?;
        let written = written.of_all(ranks)?;
        // A cheap check that no defect in the sort has lost records.
        let (expected, _) = job.counts.expected();
        if written.records != expected {
            return Err(SortError::Wrong(format!("{} records were written instead of {expected}", written.records)));
        }
        if let Some(budget) = budget.filter(|_| ranks.is_first()) {
            reports.push(verify(&job, written, budget)?);
        }
        let (records, bytes) = (job.counts.records(), job.counts.bytes());
        drop(job.progress);
        if ranks.is_first() {
            job.output.finish(written.bytes)?;
        }
        let memory = memory * ranks.count();
        Ok(Outcome { records, memory, bytes, written: written.records, runs, passes, reports })
    }
}

fn merge_sort(job: &Job<'_>, input: &Input) -> Result<Sorted, SortError> {
    let budget = Budget::new(job.memory)?;
    let (runs, mut sorted) = form(job, input, budget)?;
    if !runs.is_empty() {
        merge(job, runs, budget, &mut sorted)?;
    }
    Ok(sorted)
}
