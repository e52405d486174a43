//! State and functions that all phases of a sort share.

use std::collections::TryReserveError;
use std::io;

use indicatif::ProgressBar;
use pipeline::{Buffer, Canceller, Cause, Error, Program, RunReport};

use crate::error::SortError;
use crate::file::output::Output;
use crate::order::Order;
use crate::ranks::Ranks;
use crate::record_counts::RecordCounts;
use crate::temporary_file::TemporaryFile;

/// A running sort.
pub(crate) struct Job<'s> {
    pub(crate) order: &'s Order,
    /// Comes before the files, so that it is removed before they are.
    pub(crate) progress: ProgressBar,
    pub(crate) output: Output,
    pub(crate) temporary: TemporaryFile<'s>,
    pub(crate) counts: RecordCounts,
    /// Whether to keep only the first of equal records.
    pub(crate) is_unique: bool,
    /// The memory budget of this rank in bytes.
    pub(crate) memory: u64,
    pub(crate) ranks: Ranks<'s>,
    pub(crate) canceller: &'s Canceller,
}

impl Job<'_> {
    /// Runs pipelines until they finish.
    pub(crate) fn run<'p, T: Default + Send + 'p>(&self, program: Program<'p, T>) -> Result<RunReport, SortError> {
        program.run_until(self.canceller).map_err(|error| match error {
            Error::Failed(failure) => match failure.cause {
                Cause::Failed(why) => match why.downcast::<SortError>() {
                    Ok(why) => *why,
                    // All other errors of the system are part of a `SortError`.
                    Err(why) if why.is::<TryReserveError>() || why.is::<io::Error>() => {
                        SortError::Allocation(why.to_string())
                    }
                    Err(why) => SortError::Pipeline(why.to_string()),
                },
                Cause::Cancelled => SortError::Cancelled,
                _ => SortError::Pipeline(failure.to_string()),
            },
            Error::Memory { why, .. } => SortError::Allocation(why.to_string()),
            error => SortError::Pipeline(error.to_string()),
        })
    }
}

/// The last of the sorted records so far that is not a duplicate, with its prefix.
#[derive(Default)]
pub(crate) struct LastRecord(Option<(u128, Vec<u8>)>);

impl LastRecord {
    /// Whether a record equals the last one. In that case, counts it as dropped; otherwise,
    /// remembers it. Ignores the free bits of the prefix.
    pub(crate) fn drop_duplicate(&mut self, job: &Job<'_>, prefix: u128, record: &[u8]) -> Result<bool, SortError> {
        let is_duplicate =
            matches!(&self.0, Some((last, bytes)) if job.order.are_equal((*last, bytes), (prefix, record)));
        if is_duplicate {
            job.counts.add_dropped(record);
        } else {
            let (last, bytes) = self.0.get_or_insert_default();
            *last = prefix;
            bytes.clear();
            bytes.try_reserve(record.len())?;
            bytes.extend_from_slice(record);
        }
        Ok(is_duplicate)
    }
}

/// Checks that a buffer has the requested size. The user can request another size from the
/// pipelines, but the number of buffers and the position of their contents depend on the size.
pub(crate) fn check_size<T>(buffer: &Buffer<T>, asked: usize) -> Result<(), SortError> {
    if buffer.capacity() == asked {
        return Ok(());
    }
    let given = buffer.capacity();
    Err(SortError::Unsupported(format!(
        "a sort cannot use buffers of {given} bytes instead of {asked}: it derives their size from its memory; leave `block` out of ROWLOCK_PIPELINE"
    )))
}
